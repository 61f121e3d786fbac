"""The errors that this package raises. Each message names the faulty field or line and says how to correct it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, Final

FEW: Final = 8  # names that a message lists in full

__all__ = [
    "ClusterError", "EntryError", "FetchError", "GpuschedError", "KernelError", "MismatchError",
    "MissingLogError", "ScenarioError", "ScheduleError", "SchedulerError", "TraceError", "WorkloadError",
]  # fmt: skip


class GpuschedError(ValueError):
    """Base class of all errors of this package; ``finished`` has the results before :func:`evaluate` raised it."""

    finished: Sequence[Any] = ()


class ClusterError(GpuschedError):
    """An impossible cluster, for example one without nodes or with an unknown GPU type."""


class WorkloadError(GpuschedError):
    """Jobs or model profiles that cannot be simulated, for example negative times, duplicate ids or too large gangs."""


class TraceError(GpuschedError):
    """A trace file that cannot be read; the message names the file, the line and the field."""


class FetchError(GpuschedError):
    """Public data that could not be downloaded; the message says how to download it by hand."""


class ScenarioError(GpuschedError):
    """An unknown or inconsistent scenario, or a scenario file with a wrong field."""


class SchedulerError(GpuschedError):
    """A scheduler that cannot be loaded, or that leaves jobs waiting when no further event can occur."""


class ScheduleError(GpuschedError):
    """An event log that describes an impossible schedule; the validator raises this error."""


class KernelError(GpuschedError):
    """A kernel that does not compile; the message begins with the file and the line."""


class EntryError(GpuschedError):
    """A leaderboard entry whose file is damaged, or whose claimed results do not follow from its decisions."""


class MismatchError(EntryError):
    """A leaderboard entry whose replay gives results other than those claimed.

    Either the claim is false, or the claimed results were computed on another processor or by another version of the
    package.
    """


class MissingLogError(EntryError):
    """A leaderboard entry that cannot be verified because the workload log of its track is missing on this machine."""


def unknown_name(kind: str, name: str, known: Iterable[str], listed_by: str = "") -> str:
    """Return an error message that ``name`` is not a known ``kind``, with up to three similar names.

    All names follow only if they are few, or if none is similar and no command lists them.

    Parameters
    ----------
    listed_by : the command that lists all names
    """
    names = sorted(known)
    cases = {one.lower(): one for one in names}
    near = [cases[one] for one in difflib.get_close_matches(name.lower(), cases, n=3, cutoff=0.4)]
    parts = [f"did you mean {' or '.join(map(repr, near))}?"] if near else []
    if len(names) <= FEW or not (near or listed_by):
        parts.append(f"known: {', '.join(names) or 'none'}")
    elif listed_by:
        parts.append(f"{listed_by} names them all")
    return f"unknown {kind} {name!r}: {' '.join(parts)}"
