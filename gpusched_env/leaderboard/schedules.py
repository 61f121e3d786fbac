"""Recognise baselines by their seals, and equal schedules by the digests of event logs.

The texts of an entry are not used for this, because its authors choose them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.entry import Entry

Schedule = tuple[str, ...]  # digest of the event log of each seed


@dataclass(frozen=True)
class Baselines:
    """A set of trusted entries."""

    seals: frozenset[str]
    names: Mapping[Schedule, tuple[str, ...]]

    def same_schedule(self, entry: Entry, baseline: bool = False) -> tuple[str, ...]:
        """Return the specs of the baselines with the same schedule on every seed as the entry."""
        own = entry.player.spec if baseline else None
        return tuple(name for name in self.names.get(schedule(entry), ()) if name != own)


def schedule(entry: Entry) -> Schedule:
    """Return the digests of an entry's event logs, in the order of the seeds; equal digests mean equal schedules."""
    return tuple(run.digest for run in entry.runs)


def known_baselines(entries: Iterable[Entry]) -> Baselines:
    """Return the set of entries that the caller trusts."""
    seals, names = set(), dict[Schedule, tuple[str, ...]]()
    for entry in entries:
        seals.add(entry.sha256)
        names[schedule(entry)] = (*names.get(schedule(entry), ()), entry.player.spec)
    return Baselines(frozenset(seals), names)


@functools.cache
def shipped_baselines(track: str) -> Baselines:
    """Return the entries of a track that come with the package."""
    return known_baselines(shipped_entries(track))
