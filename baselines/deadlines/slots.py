"""The base class of schedulers for deadlines: decisions at multiples of a slot, arrivals, and a buddy placement."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.elastic.reallocation import Counts, able_nodes, held_counts, movable, reallocate, supply
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Refuse, Scheduler, Wait

TICK_S: Final = 1e-6  # [s] tolerance of times: a gang with less work left is about to finish
LATE_S: Final = 1e-5  # [s] a decision point this much after the begin of a slot counts as its begin
WHOLE: Final = 1e-9  # relative tolerance of work


class Ask(NamedTuple):
    """What a plan must know of a job.

    ``sizes`` are the numbers of GPUs that it may get, ascending from 0, and ``rates`` the iterations per second at
    each. ``delay_s`` : time until a gang that keeps its GPUs makes progress, while it restores.
    """

    job: int
    left: float
    deadline_s: float
    sizes: list[int]
    rates: list[float]
    held: int
    delay_s: float

    def most(self, gpus: int) -> int:
        """Return the index of the largest size that is at most ``gpus``."""
        at = len(self.sizes) - 1
        while self.sizes[at] > gpus:
            at -= 1
        return at


class SlotScheduler(Scheduler):
    """A scheduler that decides at begins of slots, if jobs have come or gone or plans say so; rounds are slots."""

    knows_node_counts = False  # it chooses GPUs itself

    clairvoyant = True
    relies_on_decisions = True  # an arrival counts as admitted or refused, and a slot as planned
    knows_partitions = False  # it counts the GPUs of the whole cluster
    slot_s: float

    def reset(self, view: ClusterView) -> None:
        """Forget the jobs of an earlier run."""
        if not 0 <= self.slot_s < math.inf:
            raise SchedulerError(
                f"{self.name}: a slot of {self.slot_s!r} s: it must be a finite number of seconds >= 0"
            )
        self._in_rounds = view.semantics.round_s > 0
        self._slot_s = view.semantics.round_s or self.slot_s
        self._decided_s = -math.inf  # begin of the slot of the last decision [s]
        self._last = (0, 0, 0)  # jobs that had arrived and left, and view.changes, at the last decision
        self._known: set[int] = set()  # rows that have been admitted or refused
        self._change_s = math.inf  # time of the next change that a plan has [s]
        self._pending = False  # whether a gang was in a checkpoint, so that its GPUs were not given away yet

    @abstractmethod
    def counts(self, view: ClairvoyantView, now_s: float, jobs: list[Ask], arrivals: set[int]) -> dict[int, int]:
        """Return the number of GPUs of each job from now on; jobs that are left out get none.

        The method may remove rows from ``arrivals``, the jobs that are new: these are refused.
        """

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Plan at the begin of a slot, and again when checkpoints have ended; wait for it otherwise."""
        assert isinstance(view, ClairvoyantView)
        if self._pending:
            self._last = (-1, -1, -1)
        yield from self._plan(view)
        self._pending = bool(view.checkpointing.any())

    def _plan(self, view: ClairvoyantView) -> Iterable[Decision]:
        now_s, slot_s = view.now_s, self._slot_s
        begin_s = now_s if slot_s == 0 else self.next_slot_s(now_s)
        changed = self._last != (view.entered, view.finished_count, view.changes)
        if begin_s - now_s > LATE_S:
            if changed or self._change_s <= begin_s:
                yield Wait(begin_s)
            elif self._change_s < math.inf:
                yield Wait(self._change_s)
            return
        if not changed and self._change_s > begin_s:
            if self._change_s < math.inf:
                yield Wait(self._change_s)
            return
        if view.semantics.round_s == 0 and (view.end_s(view.running) <= now_s + TICK_S).any():
            yield Wait(now_s + 2 * TICK_S)  # rounding errors put the end of a gang just after the end of the slot
            return
        self._change_s = math.inf
        self._decided_s = begin_s
        rows = movable(view)
        arrivals = {job for job in rows.tolist() if job not in self._known}
        self._known |= arrivals
        admitted = set(arrivals)
        counts = self.counts(view, begin_s, self._asks(view, rows, begin_s), admitted)
        yield from (Refuse(job) for job in sorted(arrivals - admitted))
        self._last = (view.entered, view.finished_count, view.changes)
        yield from reallocate(view, buddies(view, counts))
        if self._change_s < math.inf:
            yield Wait(self._change_s)

    def _asks(self, view: ClairvoyantView, rows: np.ndarray, now_s: float) -> list[Ask]:
        left, held = view.iterations_left(rows).tolist(), view.held_gpus(rows).tolist()
        since_s = view.progress_since_s(rows)
        delays = np.where(np.isfinite(since_s), np.maximum(since_s - now_s, 0.0), 0.0).tolist()
        asks = []
        for i, job in enumerate(rows.tolist()):
            sizes, rates = self.options(view, job)
            asks.append(Ask(job, left[i], float(view.deadline_s[job]), sizes, rates, held[i], delays[i]))
        return asks

    def next_slot_s(self, now_s: float) -> float:
        """Return the begin of the first slot that begins now or later [s]: slots begin at multiples of their length."""
        begin_s = math.floor((now_s + LATE_S) / self._slot_s) * self._slot_s
        return begin_s if now_s - begin_s <= LATE_S else begin_s + self._slot_s

    def options(self, view: ClairvoyantView, job: int) -> tuple[list[int], list[float]]:
        """Return the sizes that a job may have, from 0 up to that with the largest rate, and its rates there."""
        sizes, rates = [0, *view.sizes(job).tolist()], [0.0, *view.size_rates(job).tolist()]
        end = rates.index(max(rates)) + 1
        return sizes[:end], rates[:end]


def change_cost_s(view: ClusterView) -> float:
    """Return the time without progress that plans charge when a job gets another number of GPUs [s]."""
    rules = view.semantics
    return max(rules.resize_cost_s, rules.start_s, rules.restore_s)


def buddies(view: ClusterView, counts: Mapping[int, int]) -> Counts:
    """Place jobs, biggest first, each on the fullest node that has room for it, or else on the emptiest nodes.

    A gang whose size stays keeps its nodes if they have room when its turn comes. With sizes and nodes that are powers
    of two, no gang is split more than necessary, and every set of gangs that has enough GPUs fits.

    References
    ----------
    gudiandian/ElasticFlow, ``ElasticFlow/scheduler/cluster.py``, which prefers the emptiest shared node.
    """
    held, free = held_counts(view), supply(view)
    able, nodes = able_nodes(view, list(counts)), view.cluster.nodes["gpus"]
    stays = {job for job, gpus in counts.items() if job in held and held[job].sum() == gpus}
    placed: Counts = {}
    for job in sorted(counts, key=lambda job: (-counts[job], job not in stays, job)):
        gpus = counts[job]
        room = np.where(able[job], free, 0)
        if gpus == 0 or room.sum() < gpus:
            continue
        if job in stays and (held[job] <= room).all():
            chosen = held[job]
        else:
            chosen = np.zeros(len(free), np.int64)
            fits = np.flatnonzero(room >= gpus)
            if len(fits):
                chosen[fits[np.argmin(room[fits])]] = gpus
            else:
                missing = gpus
                whole = room == nodes  # whole nodes first, then those with most free GPUs
                for node in np.lexsort((np.arange(len(room)), -room, ~whole)).tolist():
                    chosen[node] = min(missing, int(room[node]))
                    missing -= int(chosen[node])
        placed[job] = chosen
        free = free - chosen
    return placed
