"""Decisions as columns: arrays in memory, delta-encoded integers in an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.entry import Decisions
from gpusched_env.simulator import Decision, Lease, Preempt, Refuse, Resize, Start, Wait

LETTERS: Final = {Start: "S", Preempt: "P", Lease: "L", Wait: "W", Resize: "R", Refuse: "X"}
KINDS: Final = "".join(LETTERS.values())
START, PREEMPT, LEASE, WAIT, RESIZE, REFUSE = LETTERS.values()
PLACING: Final = (START, RESIZE)  # kinds that give GPUs
LISTS: Final = ("points", "times_ms", "jobs", "gpu_counts", "gpus", "until_s", "shares", "sub_steps")


@dataclass(frozen=True)
class Table:
    """The decisions of a run as arrays; D = number of decisions, G = number of GPUs of all starts and resizes.

    Attributes
    ----------
    kinds : str of D letters: S = start, P = preempt, L = lease, W = wait, R = resize, X = refuse
    points : int64 [D], number of the decision point of each decision, from 0, non-decreasing
    times_ms : int64 [D], simulated time of each decision, rounded to milliseconds, non-decreasing
    jobs : int64 [D], row of the job; -1 for a wait
    gpu_at, gpu_counts : int64 [D], index in ``gpus`` of the first GPU of a start or resize, and its number of GPUs
        (0 for other decisions)
    gpus : int64 [G], GPU ids of all starts and resizes, in the order in which the decisions give them
    until_s : float64 [D], end of a lease or wait [s]; NaN for other decisions
    shares : bool [D], True for a start that shares GPUs
    sub_steps : int64 [D], number of gradient-accumulation sub-steps of a start that gives it, else 0
    """

    kinds: str
    points: np.ndarray
    times_ms: np.ndarray
    jobs: np.ndarray
    gpu_at: np.ndarray
    gpu_counts: np.ndarray
    gpus: np.ndarray
    until_s: np.ndarray
    shares: np.ndarray
    sub_steps: np.ndarray

    def __len__(self) -> int:
        return len(self.kinds)

    def decisions(self) -> Iterator[Decision]:
        """Yield the decisions in their order."""
        gpus = self.gpus.tolist()
        columns = (self.jobs, self.gpu_at, self.gpu_counts, self.until_s, self.shares, self.sub_steps)
        rows = zip(self.kinds, *(column.tolist() for column in columns), strict=True)
        for kind, job, at, count, until_s, share, sub_steps in rows:
            if kind == START:
                yield Start(job, gpus=tuple(gpus[at : at + count]), share=share, sub_steps=sub_steps or None)
            elif kind == RESIZE:
                yield Resize(job, count, gpus=tuple(gpus[at : at + count]))
            elif kind == PREEMPT:
                yield Preempt(job)
            elif kind == LEASE:
                yield Lease(job, until_s)
            elif kind == REFUSE:
                yield Refuse(job)
            else:
                yield Wait(until_s)


def pack(points: Sequence[int], times_s: Sequence[float], decisions: Sequence[Decision]) -> Decisions:
    """Encode decisions, with decision point and time [s] of each; starts and resizes must give their GPUs."""
    starts = [decision for decision in decisions if isinstance(decision, Start)]
    gangs = [decision.gpus or () for decision in decisions if isinstance(decision, Start | Resize)]
    until_s = [decision.until_s for decision in decisions if isinstance(decision, Lease | Wait)]
    return Decisions(
        kinds="".join(LETTERS[type(decision)] for decision in decisions),
        points=_steps(points),
        times_ms=_steps([milliseconds(time_s) for time_s in times_s]),
        jobs=_steps([decision.job for decision in decisions if not isinstance(decision, Wait)]),
        gpu_counts=[len(gang) for gang in gangs],
        gpus=_steps([gpu for gang in gangs for gpu in gang]),
        until_s=[None if time_s == np.inf else float(time_s) for time_s in until_s],
        shares=[1 if start.share else 0 for start in starts] if any(start.share for start in starts) else [],
        sub_steps=[start.sub_steps or 0 for start in starts] if any(start.sub_steps for start in starts) else [],
    )


def unpack(columns: Decisions) -> Table:
    """Decode the columns of an entry into arrays."""
    check_lengths(columns.kinds, {name: len(getattr(columns, name)) for name in LISTS}, sum(columns.gpu_counts))
    letters = np.frombuffer(columns.kinds.encode(), np.uint8)
    kind = {letter: letters == ord(letter) for letter in KINDS}
    starts, count = np.flatnonzero(kind[START]), len(letters)
    gpu_counts = _spread(columns.gpu_counts, np.flatnonzero(kind[START] | kind[RESIZE]), count, 0)
    until_s = np.full(count, np.nan)
    until_s[kind[LEASE] | kind[WAIT]] = [np.inf if time_s is None else time_s for time_s in columns.until_s]
    if (np.signbit(until_s) & (until_s == 0)).any():
        raise EntryError("until_s: -0.0 must be written as 0.0")
    return Table(
        kinds=columns.kinds,
        points=_summed("points", columns.points),
        times_ms=_summed("times_ms", columns.times_ms),
        jobs=_spread(_summed("jobs", columns.jobs), np.flatnonzero(~kind[WAIT]), count, -1),
        gpu_at=np.cumsum(gpu_counts) - gpu_counts,
        gpu_counts=gpu_counts,
        gpus=_summed("gpus", columns.gpus),
        until_s=until_s,
        shares=_spread(columns.shares or [0] * len(starts), starts, count, 0) == 1,
        sub_steps=_spread(columns.sub_steps or [0] * len(starts), starts, count, 0),
    )


def check_lengths(kinds: str, lengths: Mapping[str, int], gpus: int) -> None:
    """Check that columns (name -> number of values) match the letters of decisions and the GPUs of starts."""
    if set(kinds) - set(KINDS):
        raise EntryError(f"kinds: {''.join(sorted(set(kinds) - set(KINDS)))[:20]!r} is none of {KINDS}")
    decisions, starts, waits = len(kinds), kinds.count(START), kinds.count(WAIT)
    expected = {
        "points": decisions,
        "times_ms": decisions,
        "jobs": decisions - waits,
        "gpu_counts": sum(map(kinds.count, PLACING)),
        "gpus": gpus,
        "until_s": kinds.count(LEASE) + waits,
        "shares": starts if lengths["shares"] else 0,
        "sub_steps": starts if lengths["sub_steps"] else 0,
    }
    for name, length in expected.items():
        if lengths[name] != length:
            raise EntryError(f"{name} has {lengths[name]:,} values for {length:,} by kinds and gpu_counts")


def milliseconds(time_s: float) -> int:
    """Return a simulated time [s] in milliseconds, rounded as in ``times_ms``."""
    return round(time_s * 1000.0)


def _steps(values: Sequence[int]) -> list[int]:
    """Return the delta encoding: the difference of each value from the previous one; the first value stays."""
    steps: list[int] = np.diff(np.asarray(values, np.int64), prepend=0).tolist()
    return steps


def _summed(name: str, steps: Sequence[int]) -> np.ndarray:
    """Return the inverse of :func:`_steps`, int64; by the bounds in the schema, sums are at most 2**62."""
    values = np.cumsum(np.asarray(steps, np.int64))
    if len(values) and values.min() < 0:
        raise EntryError(f"{name}: value {int(np.argmax(values < 0))} is below 0")
    return values


def _spread(values: Sequence[int] | np.ndarray, rows: np.ndarray, count: int, other: int) -> np.ndarray:
    """Return an int64 array [count] with ``values`` at ``rows`` and ``other`` elsewhere."""
    spread = np.full(count, other, np.int64)
    spread[rows] = values
    return spread
