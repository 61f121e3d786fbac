"""Gandiva's time slices: which gangs share places, and when the turns of those at work end."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import numpy as np

# How far work may begin after a multiple of the slice and still count as begun at it, in slices.
_ROUNDING: Final = 1e-9


@dataclass(eq=False)
class ServerSet:
    """Gangs of one size that share the same machines: those that run, and those whose turn will come.

    Parameters
    ----------
    number : sets are numbered as they come about
    machines, gang : what it is about
    tier : tier of its gangs
    scattered : the empty cluster could hold a gang of this size on a tighter tier
    seats : places of the gangs that run
    turns : rows of the others, the next first
    """

    number: int
    machines: tuple[int, ...]
    gang: int
    tier: int
    scattered: bool
    seats: list[Seat] = field(default_factory=list)
    turns: deque[int] = field(default_factory=deque)


@dataclass(eq=False)
class Seat:
    """A gang's place.

    Parameters
    ----------
    group, number : its set; seats are numbered as they come about
    gpus : GPU ids
    job : row of the job whose place it is
    lacks : so many GPUs of its gang the place that holds most of it lacks, a machine, or a rack if it spans racks
    since_s : when the job's work began, or will after its restore [s]; inf = it has yet to start: the GPUs are kept for
        it while those who held them are being checkpointed
    turn_end_s : when it has worked for a slice [s]
    """

    group: ServerSet
    number: int
    gpus: np.ndarray
    job: int
    lacks: int
    since_s: float = math.inf
    turn_end_s: float = math.inf

    def __post_init__(self) -> None:
        """Give the GPUs as decisions name them."""
        self.ids: tuple[int, ...] = tuple(self.gpus.tolist())


class Turns:
    """Turns of the gangs at work for whose places others wait, the first to end first.

    Parameters
    ----------
    slice_s : time slice [s]
    """

    def __init__(self, slice_s: float) -> None:
        self.slice_s = slice_s
        # by end, then by number of set and of seat: the order in which these came about
        self._sorted: list[tuple[float, int, int, Seat]] = []

    def begin(self, seat: Seat, since_s: float) -> None:
        """Note that a gang works from a time on [s]: to the first multiple at which it has worked for a slice."""
        seat.since_s = since_s
        seat.turn_end_s = self.slice_s * (math.ceil(since_s / self.slice_s - _ROUNDING) + 1)
        if seat.group.turns:
            insort(self._sorted, _key(seat))

    def join(self, group: ServerSet, job: int) -> None:
        """Let a job be the last in the queue of a set; from the first one on, turns of the set end."""
        group.turns.append(job)
        if len(group.turns) == 1:
            for seat in group.seats:
                if seat.since_s < math.inf:
                    insort(self._sorted, _key(seat))

    def leave(self, group: ServerSet, job: int) -> None:
        """Take a job out of the queue of a set."""
        group.turns.remove(job)
        self._end_none(group)

    def hand_on(self, seat: Seat) -> int:
        """End the turn of a place; give whose turn is next, who has yet to start there."""
        self._drop(seat)
        seat.job, seat.since_s = seat.group.turns.popleft(), math.inf
        self._end_none(seat.group)
        return seat.job

    def over(self, now_s: float) -> list[Seat]:
        """List the places whose turns have ended by now."""
        return [turn[-1] for turn in self._sorted[: self._until(now_s)]]

    def next_end_s(self, now_s: float) -> float:
        """Give when the next turn ends after now [s]; inf = none."""
        at = self._until(now_s)
        return self._sorted[at][0] if at < len(self._sorted) else math.inf

    def _until(self, now_s: float) -> int:
        return bisect_right(self._sorted, now_s, key=itemgetter(0))

    def _drop(self, seat: Seat) -> None:
        del self._sorted[bisect_left(self._sorted, _key(seat))]

    def _end_none(self, group: ServerSet) -> None:
        """Let the gangs of a set work on if nobody waits for their places any more."""
        if not group.turns:
            for seat in group.seats:
                if seat.since_s < math.inf:
                    self._drop(seat)


def _key(seat: Seat) -> tuple[float, int, int, Seat]:
    return seat.turn_end_s, seat.group.number, seat.number, seat
