"""The errors that this package raises on purpose; each names the offending field or line, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GpuschedError(ValueError):
    """Base class of all errors that invalid input causes."""


class ClusterError(GpuschedError):
    """An impossible cluster: no nodes, a node without GPUs, an unknown GPU type."""


class WorkloadError(GpuschedError):
    """Jobs or model profiles that cannot be simulated: negative times, duplicate ids, a gang too large."""


class TraceError(GpuschedError):
    """A trace file that cannot be read; the message names file, line, field and remedy."""


class FetchError(GpuschedError):
    """Public data that could not be fetched; the message says how to get it by hand."""


class ScenarioError(GpuschedError):
    """An unknown or inconsistent scenario, or a scenario file with a wrong field."""


class SchedulerError(GpuschedError):
    """A scheduler that cannot be loaded, or that leaves jobs waiting when no further event can occur."""


class ScheduleError(GpuschedError):
    """An event log that describes an impossible schedule (found by the validator)."""


class EntryError(GpuschedError):
    """An entry of the leaderboard that is damaged, or whose claims do not match its decisions."""


class MismatchError(EntryError):
    """An entry whose replay gives other results: a false claim, or a result of another processor or version."""


class MissingLogError(EntryError):
    """An entry that cannot be verified because the log of its track is missing; the entry is not at fault."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return a message that ``name`` is not a known ``kind``, with the nearest known names first."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
    return f"unknown {kind} {name!r}: {hint}known: {', '.join(names)}"
