"""Recognise baselines by the bytes of files, and equal schedules by digests of event logs, never by an entry's text."""

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

Schedule = tuple[str, ...]  # digests of the event logs, by seed


@dataclass(frozen=True)
class Baselines:
    """A set of trusted entries.

    Attributes
    ----------
    files : SHA-256 of each file's bytes
    names : specs of the baselines with each schedule
    """

    files: frozenset[str]
    names: Mapping[Schedule, tuple[str, ...]]

    def same_schedule(self, entry: Entry, baseline: bool = False) -> tuple[str, ...]:
        """Specs of the baselines with the same schedule on every seed; a baseline does not list itself."""
        own = entry.player.spec if baseline else None
        return tuple(name for name in self.names.get(schedule(entry), ()) if name != own)


def schedule(entry: Entry) -> Schedule:
    """Digests of an entry's event logs, by seed; equal digests mean equal schedules."""
    return tuple(run.digest for run in entry.runs)


def sha256_of_bytes(packed: bytes) -> str:
    """SHA-256 of the bytes of a file, in hexadecimal."""
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
    """The package's entries of a track."""
    return known_baselines(shipped_entries(track))
