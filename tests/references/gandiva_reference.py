"""Gandiva-lite in plain loops: every decision point visits all places, all waiting jobs and all turns.

The order of the five steps is that of Gandiva (OSDI 2018, section 4), which has no public code. What the paper leaves
open is ours, and named in the docstring of the scheduler: turns that end at multiples of a slice, gangs of several
machines, one migration a period, and every tie (by machine, then by age of a set, then by arrival).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, Cluster
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Start, Wait

# Tolerance, in slices (ours): work that begins so little after a multiple of the slice counts as begun at it. A time
# that is such a multiple in theory is off by about 1e-13 slices.
_ROUNDING: Final = 1e-9


class PlainServers:
    """Gangs on each machine, and the choice of GPUs for a gang; Gandiva's steps 1 to 3.

    Parameters
    ----------
    cluster : the machines
    """

    def __init__(self, cluster: Cluster) -> None:
        self.machine = cluster.node_of_gpu.tolist()  # of each GPU
        self.rack = cluster.nodes["rack"].tolist()  # of each machine
        self.size = cluster.nodes["gpus"].tolist()
        self.gangs = [0] * len(self.rack)  # on each machine
        self.affinity = [0] * len(self.rack)  # size of the first gang since the machine was unassigned

    def of(self, gpus: np.ndarray) -> tuple[int, ...]:
        """Return the machines of some GPUs."""
        return tuple(sorted({self.machine[gpu] for gpu in gpus.tolist()}))

    def all_able(self, machines: tuple[int, ...], able: np.ndarray) -> bool:
        """Return whether a job can run on all GPUs of some machines."""
        return all(can for can, machine in zip(able.tolist(), self.machine, strict=True) if machine in machines)

    def tier(self, machines: tuple[int, ...], gang: int) -> tuple[int, bool]:
        """Return the tier of a gang, and whether the empty cluster could hold it on a tighter one."""
        if len(machines) == 1:
            return MACHINE, False
        if len({self.rack[machine] for machine in machines}) == 1:
            return RACK, gang <= max(self.size)
        racks = [sum(size for size, at in zip(self.size, self.rack, strict=True) if at == rack) for rack in self.rack]
        return NETWORK, gang <= max(racks)

    def occupy(self, machines: tuple[int, ...], gang: int) -> None:
        """Record a gang."""
        for machine in machines:
            if not self.gangs[machine]:
                self.affinity[machine] = gang
            self.gangs[machine] += 1

    def leave(self, machines: tuple[int, ...]) -> None:
        """Forget a gang."""
        for machine in machines:
            self.gangs[machine] -= 1

    def place(self, free: np.ndarray, gang: int) -> np.ndarray | None:
        """GPUs of servers of the gang's affinity, else of unassigned servers, else of any; None = too few are free."""
        widest = NETWORK if gang > max(self.size) else MACHINE
        same = [bool(hosted) and size == gang for hosted, size in zip(self.gangs, self.affinity, strict=True)]
        for pool in (same, [not hosted for hosted in self.gangs]):
            gpus = self.gather([gpu for gpu in np.flatnonzero(free).tolist() if pool[self.machine[gpu]]], gang, widest)
            if gpus is not None:
                return gpus
        return self.gather(np.flatnonzero(free).tolist(), gang, NETWORK)

    def tighter(self, free: np.ndarray, gang: int, tier: int) -> np.ndarray | None:
        """GPUs for a gang on a tighter tier than ``tier``; None = there are none."""
        return self.gather(np.flatnonzero(free).tolist(), gang, tier - 1)

    def gather(self, free: list[int], gang: int, widest: int) -> np.ndarray | None:
        """Take GPUs of the machine with the most free ones; if these are too few, begin with the emptiest rack."""
        on = {machine: [gpu for gpu in free if self.machine[gpu] == machine] for machine in range(len(self.rack))}
        in_rack = {
            rack: sum(len(gpus) for machine, gpus in on.items() if self.rack[machine] == rack) for rack in self.rack
        }
        emptiest = max(on, key=lambda machine: (len(on[machine]), -machine))
        if len(on[emptiest]) >= gang:
            return np.array(on[emptiest][:gang])
        if widest == MACHINE or len(free) < gang or (widest == RACK and max(in_rack.values()) < gang):
            return None
        order = sorted(
            on, key=lambda machine: (-in_rack[self.rack[machine]], self.rack[machine], -len(on[machine]), machine)
        )
        return np.array([gpu for machine in order for gpu in on[machine]][:gang])


@dataclass(eq=False)
class Seat:
    """The GPUs of a gang.

    Parameters
    ----------
    gpus : GPU ids
    job : row of the job whose place it is
    since_s : when the job's work began, or will begin after its restore [s]; inf while the place is pending
    pending : the job has not started: the GPUs are reserved for it while their former jobs are checkpointed
    """

    gpus: np.ndarray
    job: int
    since_s: float = math.inf
    pending: bool = True

    def start(self, view: ClusterView) -> Iterator[Decision]:
        """Start the job."""
        yield Start(self.job, gpus=tuple(self.gpus.tolist()))
        self.pending = False
        self.since_s = float(view.progress_since_s(np.array([self.job]))[0])


@dataclass(eq=False)
class ServerSet:
    """Gangs of one size that share the same machines: the running ones, and those that wait for a turn.

    Parameters
    ----------
    machines, gang : the machines, and the size of the gangs
    tier : tier of its gangs
    scattered : the empty cluster could hold a gang of this size on a tighter tier
    seats : places of the gangs that run
    turns : rows of the waiting gangs, the next first
    """

    machines: tuple[int, ...]
    gang: int
    tier: int
    scattered: bool
    seats: list[Seat] = field(default_factory=list)
    turns: deque[int] = field(default_factory=deque)


@dataclass
class PlainGandiva(Scheduler):
    """Gandiva-lite that keeps no sorted lists."""

    servers: ClassVar[type[Any]] = PlainServers

    quantum_s: float = 60.0
    migrate_s: float = 60.0
    overhead: float = 0.1

    def reset(self, view: ClusterView) -> None:
        """Unassign all servers."""
        rules = view.semantics
        self._slice_s = max(self.quantum_s, (rules.checkpoint_s + rules.restore_s) / self.overhead)
        self._servers = self.servers(view.cluster)
        self._sets: dict[tuple[tuple[int, ...], int], ServerSet] = {}
        self._waits_in: dict[int, ServerSet] = {}  # the set in which a suspended or new gang waits for its turn
        self._kept: list[Seat] = []  # places of jobs that have not started
        self._moved_s = -math.inf

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Reassign vacated places, place new jobs, end turns, move one gang."""
        self._vacate(view)
        yield from self._start_pending(view)
        yield from self._place(view)
        yield from self._end_turns(view)
        move_s = yield from self._migrate(view)
        yield from self._start_pending(view)
        now_s = view.now_s
        yield Wait(min([move_s, *(end_s for end_s, _, _ in self._turns() if end_s > now_s)]))

    def _vacate(self, view: ClusterView) -> None:
        """Give the places of gangs that have ended or failed to the next in turn, or release them."""
        working = set(view.running[~view.checkpointing].tolist())
        down = set(view.crashes["node"][np.isinf(view.crashes["end_s"])].tolist())
        for group in list(self._sets.values()):
            for seat in [seat for seat in group.seats if not seat.pending and seat.job not in working]:
                if group.turns and not down & set(group.machines):
                    self._hand_on(group, seat)
                else:
                    self._give_up(group, seat)
        for group in list(self._sets.values()):
            for seat in [seat for seat in group.seats if seat.pending and down & set(group.machines)]:
                self._kept.remove(seat)
                self._give_up(group, seat)

    def _hand_on(self, group: ServerSet, seat: Seat) -> None:
        seat.job, seat.since_s, seat.pending = group.turns.popleft(), math.inf, True
        self._kept.append(seat)
        del self._waits_in[seat.job]

    def _give_up(self, group: ServerSet, seat: Seat) -> None:
        group.seats.remove(seat)
        self._servers.leave(group.machines)
        if not group.seats:
            del self._sets[group.machines, group.gang]
            for job in group.turns:  # they wait for no set
                del self._waits_in[job]

    def _take_seat(self, gpus: np.ndarray, job: int) -> Seat:
        machines, gang, seat = self._servers.of(gpus), len(gpus), Seat(gpus, job)
        if (machines, gang) not in self._sets:
            tier, scattered = self._servers.tier(machines, gang)
            self._sets[machines, gang] = ServerSet(machines, gang, tier, scattered)
        self._servers.occupy(machines, gang)
        self._sets[machines, gang].seats.append(seat)
        return seat

    def _free(self, view: ClusterView) -> np.ndarray:
        """Boolean [G]: GPUs that are neither held nor reserved."""
        free = view.is_free
        for seat in self._kept:
            free[seat.gpus] = False
        return free

    def _start_pending(self, view: ClusterView) -> Iterator[Decision]:
        """Start pending jobs whose GPUs are free and whose own checkpoint is over."""
        if self._kept:
            free, waiting = view.is_free, set(view.waiting.tolist())
            for seat in self._kept:
                if seat.job in waiting and free[seat.gpus].all():
                    yield from seat.start(view)
            self._kept = [seat for seat in self._kept if seat.pending]

    def _place(self, view: ClusterView) -> Iterator[Decision]:
        """Steps 1 to 5 for all waiting jobs, by arrival."""
        waiting, free = view.waiting, self._free(view)
        gangs, able = view.gpus[waiting], view.able_gpus(waiting)
        kept = {seat.job for seat in self._kept}
        smallest_refused = math.inf  # a gang at least this large finds no place at this time
        for i, (job, gang) in enumerate(zip(waiting.tolist(), gangs.tolist(), strict=True)):
            if job in kept:
                continue
            allowed = None if able is None else able[i]
            gpus = None
            if allowed is not None:
                gpus = self._servers.place(free & allowed, gang)
            elif gang < smallest_refused:
                gpus = self._servers.place(free, gang)
            if gpus is not None:
                if job in self._waits_in:
                    self._waits_in.pop(job).turns.remove(job)
                free[gpus] = False
                yield from self._take_seat(gpus, job).start(view)
                continue
            smallest_refused = min(smallest_refused, gang)
            if job not in self._waits_in:
                self._share(job, gang, allowed)

    def _share(self, job: int, gang: int, able: np.ndarray | None) -> None:
        """Step 4:
        wait for a turn in the set with the fewest waiting gangs a place, on machines that can run the job.
        """
        groups = [group for group in self._sets.values() if group.gang == gang]
        if able is not None:
            groups = [group for group in groups if self._servers.all_able(group.machines, able)]
        if groups:
            group = min(groups, key=lambda group: len(group.turns) / len(group.seats))
            group.turns.append(job)
            self._waits_in[job] = group

    def _turns(self) -> list[tuple[float, ServerSet, Seat]]:
        """List the places for which other gangs wait, by the end of their turns [s]."""
        shared = [group for group in self._sets.values() if group.turns]
        at_work = [(group, seat) for group in shared for seat in group.seats if not seat.pending]
        return sorted(((self._turn_end_s(seat), group, seat) for group, seat in at_work), key=lambda turn: turn[0])

    def _turn_end_s(self, seat: Seat) -> float:
        """Give the first multiple of the slice at which the gang has worked for a whole slice [s]."""
        return self._slice_s * (math.ceil(seat.since_s / self._slice_s - _ROUNDING) + 1)

    def _end_turns(self, view: ClusterView) -> Iterator[Decision]:
        """Suspend the gangs whose slice is over, in order of the ends of
        their turns, and give their places to the next in turn.
        """
        now_s = view.now_s
        over = [(group, seat) for end_s, group, seat in self._turns() if end_s <= now_s]
        changes = {id(group): len(group.turns) for group, _ in over}
        for group, seat in over:
            if changes[id(group)] > 0:  # a gang that has just been suspended does not take the next place
                changes[id(group)] -= 1
                job = seat.job
                yield Preempt(job)
                self._hand_on(group, seat)
                group.turns.append(job)
                self._waits_in[job] = group

    def _migrate(self, view: ClusterView) -> Generator[Decision, None, float]:
        """Move one gang to a tighter tier if the period is over; return the time of the next attempt [s]."""
        if math.isinf(self.migrate_s) or not (move := self._better_place(view)):
            return math.inf
        due_s = self._moved_s + self.migrate_s
        if due_s > view.now_s:
            return due_s
        group, seat, gpus = move
        self._moved_s = view.now_s
        yield Preempt(seat.job)
        self._give_up(group, seat)
        self._kept.append(self._take_seat(gpus, seat.job))
        return self._moved_s + self.migrate_s

    def _better_place(self, view: ClusterView) -> tuple[ServerSet, Seat, np.ndarray] | None:
        """Find the first gang by arrival that works, shares no place and would fit on a tighter tier."""
        scattered = [group for group in self._sets.values() if group.scattered and not group.turns]
        places = [(seat.job, group, seat) for group in scattered for seat in group.seats]
        free = self._free(view)
        for _, group, seat in sorted(places, key=lambda place: place[0]):
            if seat.since_s < view.now_s:  # inf while it is pending
                usable = free.copy()
                usable[seat.gpus] = True
                if (able := view.able_gpus(np.array([seat.job]))) is not None:
                    usable &= able[0]
                gpus = self._servers.tighter(usable, group.gang, group.tier)
                if gpus is not None:
                    return group, seat, gpus
        return None
