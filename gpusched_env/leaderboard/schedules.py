"""Recognise baselines by the bytes of their files, and equal schedules by the digests of event logs.

The texts of an entry are not used for this, because its authors choose them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.entry_files import parse_packed, read_packed

Schedule = tuple[str, ...]  # digest of the event log of each seed


@dataclass(frozen=True)
class Baselines:
    """A set of trusted entries.

    Attributes
    ----------
    files : SHA-256 of the bytes of each file
    names : schedule -> specs of the baselines that have this schedule
    """

    files: frozenset[str]
    names: Mapping[Schedule, tuple[str, ...]]

    def same_schedule(self, entry: Entry, baseline: bool = False) -> tuple[str, ...]:
        """Return the specs of the baselines with the same schedule on every seed as the entry.

        If the entry is a ``baseline`` itself, its own spec is left out.
        """
        own = entry.player.spec if baseline else None
        return tuple(name for name in self.names.get(schedule(entry), ()) if name != own)


def schedule(entry: Entry) -> Schedule:
    """Return the digests of an entry's event logs, in the order of the seeds; equal digests mean equal schedules."""
    return tuple(run.digest for run in entry.runs)


def sha256_of_bytes(packed: bytes) -> str:
    """Return the SHA-256 of the bytes of a file, in hexadecimal."""
    return hashlib.sha256(packed).hexdigest()


def known_baselines(paths: Iterable[Path]) -> Baselines:
    """Read entries that the caller trusts; files that cannot be read are skipped."""
    files, names = set(), dict[Schedule, tuple[str, ...]]()
    for path in paths:
        try:
            packed = read_packed(path)
            entry = parse_packed(packed)
        except EntryError:
            continue
        files.add(sha256_of_bytes(packed))
        names[schedule(entry)] = (*names.get(schedule(entry), ()), entry.player.spec)
    return Baselines(frozenset(files), names)


@functools.cache
def shipped_baselines(track: str) -> Baselines:
    """Return the entries of a track that come with the package."""
    return known_baselines(shipped_entries(track))
