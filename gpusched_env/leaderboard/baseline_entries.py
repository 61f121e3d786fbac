"""Entries of the registered schedulers and of the trained agents, which come with the package, and their files.

A file holds the specs, digests and scores of a track, but no decisions. It is JSON Lines, so that a changed entry is
one changed line: the first line is a :class:`Head`, and each further line a :class:`Result`, sorted by spec.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from gpusched_env.agents.cards import read_card
from gpusched_env.baselines import BASELINES
from gpusched_env.baselines.registry import LEARNED
from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.entry import FORMAT, About, Entry, Run, Schema
from gpusched_env.leaderboard.submitting import player_of
from gpusched_env.leaderboard.tracks import TRACKS, get_track

if TYPE_CHECKING:
    from gpusched_env.agents.cards import Card

__all__ = ["shipped_entries"]


SUFFIX: Final = ".jsonl"
_Line = TypeVar("_Line")


class Problem(Schema, frozen=True):
    """The problem of a seed; the fields are those of :class:`~gpusched_env.leaderboard.entry.Run`."""

    seed: int
    instance: str
    workload: str
    bounds: dict[str, float | None]


class Head(Schema, frozen=True):
    """What the entries of a file share; the fields are those of :class:`~gpusched_env.leaderboard.entry.Entry`."""

    track: str
    fingerprint: str
    results_version: str
    problems: list[Problem]


class Result(Schema, frozen=True):
    """The results of a scheduler: for each problem its metrics (null = undefined) and the digest of its log."""

    spec: str
    version: str
    metrics: dict[str, list[float | None]]
    digests: list[str]


def baseline_file(folder: Path, track: str) -> Path:
    """Return the path of the file of a track in a folder."""
    return folder / f"{track}{SUFFIX}"


def read_results(path: Path) -> tuple[Head, dict[str, Result]]:
    """Read a file; return its first line, and spec -> result."""
    try:
        lines = path.read_bytes().splitlines() or [b""]
    except OSError as error:
        raise EntryError(f"{path}: cannot be read ({error.strerror or error})") from error
    head = _decoded(path, 1, lines[0], Head)
    results = [_decoded(path, number, line, Result) for number, line in enumerate(lines[1:], 2)]
    return head, {result.spec: result for result in results}


def _decoded(path: Path, number: int, line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EntryError(f"{path}, line {number}: {error}; delete the file and write it again") from None


FOLDER: Final = Path(__file__).parent / "baselines"
AUTHORS: Final = "gpusched-env developers"
LICENCE: Final = "MIT"  # the licence of the repository


def shipped_entries(*tracks: str) -> list[Entry]:
    """Return the entries of the package, or those of tracks; without decisions: verifying plays the scheduler."""
    files = [baseline_file(FOLDER, track.name) for track in (map(get_track, tracks) if tracks else TRACKS)]
    return [
        _entry(head, result)
        for head, results in (read_results(path) for path in files if path.is_file())
        for result in results.values()
    ]


def _entry(head: Head, result: Result) -> Entry:
    """Return the entry of a line of a file; texts and parameters are those of the scheduler now."""
    runs = [
        Run(
            problem.seed,
            problem.instance,
            problem.workload,
            {name: values[number] for name, values in result.metrics.items()},
            problem.bounds,
            digest,
            None,
        )
        for number, (problem, digest) in enumerate(zip(head.problems, result.digests, strict=True))
    ]
    who, about = player_of(result.spec), about_of(result.spec)
    fields = (FORMAT, result.version, head.results_version, head.track, head.fingerprint)
    return Entry(*fields, who, about, runs).sealed()


def about_of(spec: str) -> About:
    """Return what an entry of the package says of itself."""
    name, _, parameters = spec.partition(":")
    agent, _, changes = parameters.partition(",")
    return _about_agent(read_card(agent), changes) if name == LEARNED and agent else _about_scheduler(name, parameters)


def _about_scheduler(name: str, parameters: str) -> About:
    how = f"The registered scheduler {name} with {parameters or 'its default parameters'}"
    return About(
        title=f"{name}:{parameters}" if parameters else name,
        authors=AUTHORS,
        how=f"{how}: {BASELINES[name].summary}.",
        hardware="",
        training_seeds=[],
        link="",
        licence=LICENCE,
    )


def _about_agent(card: Card, changes: str) -> About:
    return About(
        title=",".join(filter(None, (f"{LEARNED}:{card.name}", changes))),
        authors=AUTHORS,
        how=f"A trained agent of the package: {card.summary}. Made by: {'; '.join(card.made_by)}."
        f"{changes and f' Played with {changes}.'}",
        hardware=f"{card.hours:g} h of training on {card.machine}",
        training_seeds=[card.seeds[use] for use in ("train", "validation") if use in card.seeds],
        link="",
        licence=LICENCE,
    )


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
