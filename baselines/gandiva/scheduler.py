"""Gandiva-lite: placement by affinity, time slicing of full machines, migration to tighter places."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import FINITE, POSITIVE, check
from gpusched_env.baselines.gandiva.servers import Servers
from gpusched_env.baselines.gandiva.turns import Seat, ServerSet, Turns
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Start, Wait

# State of a waiting job: in no queue, in the queue of a server set, or waiting for the GPUs that are kept for it.
_NOWHERE, _IN_TURN, _KEPT = range(3)
_NONE: Final = np.empty(0, bool)


@dataclass
class Gandiva(Scheduler):
    """Place gangs by affinity, time-slice gangs on the same servers, and migrate scattered gangs to tighter places.

    Early feedback on a new training job is worth more than its completion time, so no job should wait long. If no GPUs
    are free, a job takes turns with other gangs of its size on their GPUs (time slicing). Each machine hosts gangs of
    one size, its affinity, which avoids fragmentation. Migration later moves gangs that are spread over several
    machines or racks to a tighter tier. The machines that gangs of one size share by turns are a server set.

    Parameters
    ----------
    quantum_s : minimum length of a time slice [s], default 60; a gang works at least for this time before another gang
        of its server set gets its GPUs
    overhead : maximum fraction of a slice that suspending and resuming a gang may take, default 0.1. If they would take
        more than this fraction of ``quantum_s``, slices are longer. inf = slices always have the length ``quantum_s``
    migrate_s : minimum time between two migrations in the cluster [s], default 60; inf = no migration. Each migration
        moves a running gang to a strictly tighter tier

    Notes
    -----
    A new gang gets the first of these that exists:

    1. free GPUs of the least loaded servers of its affinity, which is the gang size that a server hosts;
    2. free GPUs of unassigned servers;
    3. free GPUs of any servers;
    4. a turn on the GPUs of the set of its size that has the fewest waiting members per place;
    5. the queue.

    Gangs larger than a machine use several servers in steps 1 and 2; smaller gangs do so only in step 3. A gang that
    waits for its turn resumes elsewhere if enough GPUs are free, even outside its server set. Turns are round robin by
    arrival. A gang that shares its GPUs does not migrate.

    A gang that fails, or is stopped by a power cap, is placed as a new one. Its place goes to the next job in turn, but
    places on nodes that are down are given up, and the jobs that waited for these alone are placed anew (our choice).

    This version is "lite" because it omits packing of two jobs on a GPU, growing and shrinking of jobs, and the
    measurements that control them.

    In the paper, a suspension takes about 0.1 s and a migration 1 to 2 s. Here both cost as much as every preemption in
    the scenario (``checkpoint_s`` and ``restore_s``). With 30 s each, slices of 60 s as in the paper would lose half of
    the time of shared GPUs. So a slice is max(quantum_s, (checkpoint_s + restore_s) / overhead), which is 600 s in this
    case. This formula is our choice. If a suspension costs at most 6 s, as in the paper, a slice is ``quantum_s``. A
    restore does not count as part of a slice. Turns end at times that are multiples of the slice, and work that begins
    less than 1e-9 of a slice behind one counts as begun at it. Ties: the first machine, the oldest set, the earlier
    arrival. All of this is our choice. A decision point
    takes O((gangs that start or stop) x turns), and array operations over the jobs in the system and the GPUs.

    References
    ----------
    W. Xiao et al., "Gandiva: Introspective cluster scheduling for deep learning", OSDI 2018, section 4.
    """

    relies_on_decisions = True
    knows_partitions = False  # it chooses machines itself
    knows_node_counts = False
    remembers_gpus = True

    quantum_s: float = 60.0
    migrate_s: float = 60.0
    overhead: float = 0.1
    name = "gandiva-lite"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("gandiva-lite", self, quantum_s=FINITE, migrate_s=POSITIVE, overhead=POSITIVE)

    def reset(self, view: ClusterView) -> None:
        """Remove all affinities, places and turns."""
        self._servers = Servers(view.cluster)
        self._sets: dict[tuple[tuple[int, ...], int], ServerSet] = {}
        # the same sets by gang size and number
        self._by_gang: defaultdict[int, dict[int, ServerSet]] = defaultdict(dict)
        self._hosted = np.zeros(view.cluster.gpus + 1, bool)  # whether there is a set of each gang size
        self._at_work: dict[int, Seat] = {}  # places of the running jobs
        self._waits_in: dict[int, ServerSet] = {}  # the set in which a suspended or new gang waits for its turn
        self._kept: list[Seat] = []  # places whose jobs have not started yet
        self._stands = np.zeros(len(view.simulation.instance.workload), np.int8)  # state of each waiting job
        rules = view.semantics
        self._turns = Turns(max(self.quantum_s, (rules.checkpoint_s + rules.restore_s) / self.overhead))
        self._seen = 0  # jobs that had arrived at the last placement
        self._new_sets = False  # whether sets have been added since then
        self._numbers = 0  # sets and seats so far, which are numbered in their order
        self._finished = view.finished_count
        self._stops = view.simulation.instance.recovery is not None  # whether gangs may stop by themselves
        self._moved_s = -math.inf

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Hand over vacated places, place new jobs, end turns, and move one gang."""
        self._vacate(view)
        yield from self._start(view, self._ready(view))
        yield from self._start(view, self._place(view))
        suspended = self._end_turns(view)
        yield from map(Preempt, suspended)
        moved, move_s = self._migrate(view)
        yield from map(Preempt, moved)
        if suspended or moved:
            yield from self._start(view, self._ready(view))
        yield Wait(min(move_s, self._turns.next_end_s(view.now_s)))

    # --- places

    def _start(self, view: ClusterView, seats: Iterable[Seat]) -> Iterator[Decision]:
        """Start the jobs of some places, and compute when their turns end."""
        begun = []
        for seat in seats:
            yield Start(seat.job, gpus=seat.ids)
            begun.append(seat)
        if begun:
            since_s = view.progress_since_s(np.array([seat.job for seat in begun]))
            for seat, start_s in zip(begun, since_s.tolist(), strict=True):
                self._at_work[seat.job] = seat
                self._turns.begin(seat, start_s)

    def _ready(self, view: ClusterView) -> list[Seat]:
        """Take the kept places whose GPUs are free and whose jobs have finished their checkpoint elsewhere."""
        if not self._kept or not view.free_gpus:
            return []
        free = view.is_free
        found = np.flatnonzero(free[[seat.ids[0] for seat in self._kept]]).tolist()
        if not found:
            return []
        ending = set(view.running[view.checkpointing].tolist())
        ready = [self._kept[i] for i in found]
        ready = [seat for seat in ready if seat.job not in ending and free[seat.gpus].all()]
        if ready:
            chosen = set(ready)
            self._kept = [seat for seat in self._kept if seat not in chosen]
        return ready

    def _vacate(self, view: ClusterView) -> None:
        """Give the places of gangs that have ended or failed to the next job in turn, or give these places up."""
        if view.finished_count == self._finished and not self._stops:
            return
        self._finished = view.finished_count
        ended = self._at_work.keys() - set(view.running[~view.checkpointing].tolist())
        for seat in sorted((self._at_work[job] for job in ended), key=lambda seat: (seat.group.number, seat.number)):
            self._stands[seat.job] = _NOWHERE
            if seat.group.turns and not self._is_down(view, seat):
                self._hand_on(seat)
            else:
                self._give_up(seat)
        for seat in [seat for seat in self._kept if self._is_down(view, seat)]:
            self._kept.remove(seat)
            self._stands[seat.job] = _NOWHERE
            self._give_up(seat)

    def _is_down(self, view: ClusterView, seat: Seat) -> bool:
        """Return whether a machine of a place is down, or closed by a power cap."""
        return self._stops and bool(view.simulation.arrays.down[list(seat.group.machines)].any())

    def _hand_on(self, seat: Seat) -> None:
        """Keep the place for the job whose turn is next."""
        del self._at_work[seat.job]
        job = self._turns.hand_on(seat)
        self._kept.append(seat)
        self._stands[job] = _KEPT
        del self._waits_in[job]

    def _give_up(self, seat: Seat) -> None:
        """Give up a place; if it is the last one of its set, no job waits for a turn there any more."""
        group = seat.group
        self._at_work.pop(seat.job, None)
        self._turns.give_up(seat)
        group.seats.remove(seat)
        self._servers.leave(group.machines)
        if not group.seats:
            for job in group.turns:
                self._stands[job] = _NOWHERE
                del self._waits_in[job]
            del self._sets[group.machines, group.gang], self._by_gang[group.gang][group.number]
            self._hosted[group.gang] = bool(self._by_gang[group.gang])

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _take_seat(self, gpus: np.ndarray, job: int) -> Seat:
        machines, gang = self._servers.of(gpus), len(gpus)
        if (machines, gang) not in self._sets:
            group = ServerSet(self._next_number(), machines, gang, *self._servers.tier(machines, gang))
            self._sets[machines, gang] = self._by_gang[gang][group.number] = group
            self._hosted[gang] = self._new_sets = True
        self._servers.occupy(machines, gang)
        group = self._sets[machines, gang]
        seat = Seat(group, self._next_number(), gpus, job, self._servers.lacks(gpus, group.tier))
        group.seats.append(seat)
        return seat

    def _free(self, view: ClusterView) -> np.ndarray:
        """Boolean [G]: GPUs that no job holds and that are kept for no job."""
        free = view.is_free
        if self._kept:
            free[np.concatenate([seat.gpus for seat in self._kept])] = False
        return free

    # --- newcomers

    def _place(self, view: ClusterView) -> Iterator[Seat]:
        """Steps 1 to 5 for all waiting jobs, by arrival."""
        room, free = 0, _NONE
        if view.free_gpus:
            free = self._free(view)
            room = int(np.count_nonzero(free))
        if view.entered == self._seen and not self._new_sets and not room and not self._stops:
            return  # nothing has changed for the waiting jobs
        self._seen, self._new_sets = view.entered, False
        waiting = view.waiting
        if not len(waiting):
            return
        stands, gangs = self._stands[waiting], view.gpus[waiting]
        fits, nowhere = gangs <= room, stands == _NOWHERE
        # A job that waits for a turn leaves that queue only for free GPUs; a job with a kept place needs nothing. A job
        # in no queue finds a set to share only if one of its size exists, or if a gang that starts now creates one.
        visited = fits & (stands != _KEPT) | nowhere & (fits.any() | self._hosted[gangs])
        if not visited.any():
            return
        jobs = waiting[visited]
        able = view.able_gpus(jobs)
        for i, (job, gang) in enumerate(zip(jobs.tolist(), gangs[visited].tolist(), strict=True)):
            allowed = None if able is None else able[i]
            gpus = None
            if gang <= room:
                gpus = self._servers.place(free if allowed is None else free & allowed, gang)
            if gpus is not None:
                room -= gang
                free[gpus] = False
                self._leave_queue(job)
                yield self._take_seat(gpus, job)
            elif job not in self._waits_in:
                self._share(job, gang, allowed)

    def _leave_queue(self, job: int) -> None:
        self._stands[job] = _NOWHERE
        if job in self._waits_in:
            self._turns.leave(self._waits_in.pop(job), job)

    def _share(self, job: int, gang: int, able: np.ndarray | None) -> None:
        """Step 4: wait for a turn in the set, on able machines, with the fewest waiting gangs per place."""
        groups: Iterable[ServerSet] = self._by_gang[gang].values()
        if able is not None:
            groups = [group for group in groups if self._servers.all_able(group.machines, able)]
        group = min(groups, key=lambda group: len(group.turns) / len(group.seats), default=None)
        if group is not None:
            self._wait_in(group, job)

    def _wait_in(self, group: ServerSet, job: int) -> None:
        """Let a job wait for its turn in a set."""
        self._turns.join(group, job)
        self._waits_in[job] = group
        self._stands[job] = _IN_TURN

    # --- turns

    def _end_turns(self, view: ClusterView) -> list[int]:
        """Suspend the gangs whose turns are over, earliest end first, and keep their places for the next gangs."""
        over = self._turns.over(view.now_s)
        changes = {seat.group: len(seat.group.turns) for seat in over}
        suspended = []
        for seat in over:
            if changes[seat.group] > 0:  # a gang suspended just now must not take the next place
                changes[seat.group] -= 1
                suspended.append(seat.job)
                self._wait_in(seat.group, seat.job)
                self._hand_on(seat)
        return suspended

    # --- migration

    def _migrate(self, view: ClusterView) -> tuple[list[int], float]:
        """Move one gang if a migration is due; return its row, and the time at which to look for the next one [s]."""
        if math.isinf(self.migrate_s) or not (move := self._better_place(view)):
            return [], math.inf
        due_s = self._moved_s + self.migrate_s
        if due_s > view.now_s:
            return [], due_s
        seat, gpus = move
        self._moved_s = view.now_s
        self._give_up(seat)
        self._kept.append(self._take_seat(gpus, seat.job))
        self._stands[seat.job] = _KEPT
        return [seat.job], self._moved_s + self.migrate_s

    def _better_place(self, view: ClusterView) -> tuple[Seat, np.ndarray] | None:
        """Find the first gang by arrival that works, shares no GPUs and fits on a tighter tier; return its new GPUs."""
        now_s, most = view.now_s, view.free_gpus
        if not most:
            return None
        seats = [
            seat
            for group in self._sets.values()
            if group.scattered and not group.turns
            for seat in group.seats
            if seat.lacks <= most and seat.since_s < now_s
        ]
        if not seats:
            return None
        free = self._free(view)
        room = self._servers.largest_room(free)
        seats = [seat for seat in seats if seat.lacks <= room[seat.group.tier]]  # a cheap test before the search
        for seat in sorted(seats, key=lambda seat: seat.job):
            usable = free.copy()
            usable[seat.gpus] = True
            if (able := view.able_gpus(np.array([seat.job]))) is not None:
                usable &= able[0]
            gpus = self._servers.tighter(usable, seat.group.gang, seat.group.tier)
            if gpus is not None:
                return seat, gpus
        return None
