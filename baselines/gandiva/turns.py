"""Gandiva's time slices: the gangs that share places, and the ends of turns."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import numpy as np

# Tolerance, in slices, for work that begins just after a multiple of the slice.
_ROUNDING: Final = 1e-9


@dataclass(eq=False)
class ServerSet:
    """Gangs of one size that share the same machines: running ones, and ones that wait for their turn.

    ``tier`` is that of its gangs; ``scattered``: the empty cluster could hold such a gang on a tighter one.
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
    """The place of a gang.

    ``lacks`` : GPUs outside the machine, or the rack if it spans several, that holds most of the gang. ``since_s`` :
    when the work of the job began, or will begin; inf = it has not started here. ``turn_end_s`` : when a slice is
    worked.
    """

    group: ServerSet
    number: int
    gpus: np.ndarray
    job: int
    lacks: int
    since_s: float = math.inf
    turn_end_s: float = math.inf

    def __post_init__(self) -> None:
        """Store the GPUs in the form in which decisions take them."""
        self.ids: tuple[int, ...] = tuple(self.gpus.tolist())


class Turns:
    """Turns of working gangs for whose places other gangs wait, sorted by end."""

    def __init__(self, slice_s: float) -> None:
        self.slice_s = slice_s
        # ties: by set, then by place, in order of creation
        self._sorted: list[tuple[float, int, int, Seat]] = []

    def begin(self, seat: Seat, since_s: float) -> None:
        """Record that a gang works from ``since_s`` [s] on.

        Its turn ends at the first multiple of the slice at which it has worked for a whole slice.
        """
        seat.since_s = since_s
        seat.turn_end_s = self.slice_s * (math.ceil(since_s / self.slice_s - _ROUNDING) + 1)
        if seat.group.turns:
            insort(self._sorted, _key(seat))

    def join(self, group: ServerSet, job: int) -> None:
        """Append a job to the queue of a set; while that queue is not empty, turns of the set end."""
        group.turns.append(job)
        if len(group.turns) == 1:
            for seat in group.seats:
                if seat.since_s < math.inf:
                    insort(self._sorted, _key(seat))

    def leave(self, group: ServerSet, job: int) -> None:
        """Remove a job from the queue of a set."""
        group.turns.remove(job)
        self._end_none(group)

    def hand_on(self, seat: Seat) -> int:
        """End the turn of a place; return the next job, which has not started there yet."""
        self._drop(seat)
        seat.job, seat.since_s = seat.group.turns.popleft(), math.inf
        self._end_none(seat.group)
        return seat.job

    def give_up(self, seat: Seat) -> None:
        """Cancel the end of the turn of a place, if there is one."""
        if seat.group.turns and seat.since_s < math.inf:
            self._drop(seat)

    def over(self, now_s: float) -> list[Seat]:
        """List the places whose turns have ended by now."""
        return [turn[-1] for turn in self._sorted[: self._until(now_s)]]

    def next_end_s(self, now_s: float) -> float:
        """Return the time of the first end of a turn after ``now_s`` [s]; inf = none."""
        at = self._until(now_s)
        return self._sorted[at][0] if at < len(self._sorted) else math.inf

    def _until(self, now_s: float) -> int:
        return bisect_right(self._sorted, now_s, key=itemgetter(0))

    def _drop(self, seat: Seat) -> None:
        del self._sorted[bisect_left(self._sorted, _key(seat))]

    def _end_none(self, group: ServerSet) -> None:
        """Cancel the ends of turns in a set if no job waits for its places any more."""
        if not group.turns:
            for seat in group.seats:
                if seat.since_s < math.inf:
                    self._drop(seat)


def _key(seat: Seat) -> tuple[float, int, int, Seat]:
    return seat.turn_end_s, seat.group.number, seat.number, seat
