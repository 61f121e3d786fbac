"""List schedulers in plain Python, with which the policy in kernels is compared: whole arrays of jobs, no heaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.bsbf.scheduler import SjfBsbf
from gpusched_env.baselines.estimates import ROUNDING, EstimatingScheduler, is_strict, passes_s
from gpusched_env.baselines.fifo import Fifo
from gpusched_env.baselines.las import LeastAttainedService
from gpusched_env.baselines.list_policies.gittins import published_sizes
from gpusched_env.baselines.sjf import ShortestJobFirst
from gpusched_env.baselines.srtf import ShortestRemainingFirst
from gpusched_env.baselines.tiresias import Tiresias
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.prediction import STARTS_S
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start, Wait, rule_number


class Estimating(EstimatingScheduler):
    """Estimates of many jobs at once."""

    def reset(self, view: ClusterView) -> None:
        EstimatingScheduler.reset(self, view)

    def longest_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        if not self.clairvoyant:
            return self.remaining_s(view, rows)
        return view.iterations_left(rows) * view.simulation.instance.slowest_iteration_s[rows] * self._noise(rows)

    def ends_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        if not self.clairvoyant:
            return view.now_s + self.remaining_s(view, rows)
        if self.estimator == "oracle":
            return view.end_s(rows)
        return view.now_s + (view.end_s(rows) - view.now_s) * self._noise(rows)

    def wait_for_overrun(self, view: ClusterView) -> Iterable[Wait]:
        if not self.clairvoyant and len(running := view.running):
            begin_s = np.maximum(view.progress_since_s(running), view.now_s)  # inf = it is in a checkpoint
            due_s = float((begin_s + self.revised_in_s(view, running)).min())
            if np.isfinite(due_s):
                yield Wait(max(passes_s(due_s), math.nextafter(view.now_s, math.inf)))

    def revised_in_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        if self.estimator == "user":
            return self.remaining_s(view, rows)
        had_s = view.service_s(rows)
        least_s = 10 * (view.semantics.checkpoint_s + view.semantics.restore_s)
        later = ((had_s - ROUNDING * view.now_s)[:, None] <= STARTS_S) & (max(least_s, 1.0) <= STARTS_S)
        return np.maximum(np.where(later, STARTS_S, math.inf).min(axis=1) - had_s, 0.0)

    def smallest_first(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        size = self.remaining_s(view, rows) * (view.gpus[rows] if self.key == "gpu-time" else 1.0)
        return rows[np.argsort(size, kind="stable")]


class FifoReference(Estimating, Fifo):
    """FIFO; EASY backfill by sorted ends."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        strict = self.variant == "easy" or is_strict(view, self.variant == "strict")
        yield from view.list_schedule(view.waiting, self.placement, strict)
        if self.variant == "easy" and len(view.waiting) > 1 and view.free_gpus > 0:
            yield from self.backfill(view, view.waiting)
            if view.free_gpus > 0:
                yield from self.wait_for_overrun(view)

    def backfill(self, view: ClusterView, waiting: np.ndarray) -> Iterator[Decision]:
        head, later, running = waiting[0], waiting[1:], view.running
        ends = self.ends_s(view, running)
        by_end = np.argsort(ends, kind="stable")
        supply = view.free_gpus + np.cumsum(view.gpus[running][by_end])
        enough = int(np.searchsorted(supply, view.gpus[head]))
        shadow, extra = np.inf, 0
        if enough < len(supply):
            shadow = ends[by_end[enough]]
            by_shadow = int(np.searchsorted(ends[by_end], shadow, side="right")) - 1
            extra = int(supply[by_shadow] - view.gpus[head])
        fits_before = view.now_s + self.longest_s(view, later) <= shadow
        for job, before in zip(later.tolist(), fits_before.tolist(), strict=True):
            gang = int(view.gpus[job])
            if (before or gang <= extra) and view.can_place(job, self.placement):
                yield Start(job, self.placement)
                extra -= 0 if before else gang


class SjfReference(Estimating, ShortestJobFirst):
    """Waiting jobs by size."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if not len(view.waiting) or view.free_gpus == 0:
            return []
        way = -1 if self.longest else 1  # of equal sizes, the earliest arrival comes first
        order = self.smallest_first(view, view.waiting[::way])[::way]
        return view.list_schedule(order, self.placement, is_strict(view, self.strict))


class SrtfReference(Estimating, ShortestRemainingFirst):
    """All jobs by remaining size; running jobs win ties."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        if not len(view.waiting):
            return
        rows = np.concatenate([np.sort(view.running), view.waiting])
        yield from view.preemptive_schedule(self.smallest_first(view, rows), self.placement)
        if len(view.waiting):
            yield from self.wait_for_overrun(view)


class LasReference(LeastAttainedService):
    """All jobs by service at a round, else the waiting ones."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        if not len(view.waiting):
            return
        rounds = max(math.floor(view.now_s / self.round_s) - 1, 0)
        for _ in range(3):  # the quotient may have been rounded down
            rounds += (rounds + 1) * self.round_s <= view.now_s
        begins = rounds * self.round_s == view.now_s or view.semantics.round_s > 0
        rows = np.sort(np.concatenate([view.running, view.waiting])) if begins else view.waiting
        attained = view.attained_gpu_s(rows) if self.two_dimensional else view.service_s(rows)
        plan = view.preemptive_schedule if begins else view.list_schedule
        yield from plan(rows[np.argsort(attained, kind="stable")], self.placement)
        yield Wait((rounds + 1) * self.round_s)


class TiresiasReference(Estimating, Tiresias):
    """All jobs by queue, and within it by first start, entry or Gittins index."""

    def reset(self, view: ClusterView) -> None:
        if self.estimator:
            super().reset(view)
        jobs = len(view.simulation.instance.workload)
        self.forgiven_s, self.waits_since_s, self.held_s, self.entered_s = (np.zeros(jobs) for _ in range(4))
        self.queued, self.checked_s = np.zeros(jobs, np.int64), 0.0
        self.upper = np.array([*self.thresholds, math.inf])
        self.sizes = np.sort(self.history) if self.history else published_sizes()

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        waiting = view.waiting
        self.held_s[view.running] += view.now_s - self.checked_s
        self.checked_s = view.now_s
        if not len(waiting):
            return
        starved = waiting[self.promotion_s(view, waiting) <= view.now_s]
        self.forgiven_s[starved] = self.seconds(view, starved)
        self.waits_since_s[starved] = view.now_s
        rows = np.sort(np.concatenate([view.running, waiting]))
        attained = self.attained(view, rows)
        queue = self.queue(view, rows, attained)
        moved = rows[queue != self.queued[rows]]
        self.queued[rows], self.entered_s[moved] = queue, view.now_s
        order = rows[np.lexsort((*self.ranks(view, rows, attained, queue), queue))]
        skewed = (view.skew[order] > self.packlimit) & (view.gpus[order] > 1)
        rules = np.where(skewed, rule_number("consolidate"), rule_number(self.placement))
        yield from view.preemptive_schedule(order, rules.astype(np.int32))
        running = view.running
        attained = self.attained(view, running)
        begin_s = np.full(len(running), view.now_s)
        if self.demote_on == "progress":
            begin_s = np.maximum(view.progress_since_s(running), begin_s)
        upper = self.upper[self.queue(view, running, attained)]
        demotion_s = begin_s + (upper - attained) / view.gpus[running]
        if self.estimator and not self.clairvoyant:
            revised_s = np.maximum(view.progress_since_s(running), view.now_s) + self.revised_in_s(view, running)
            revised_s = passes_s(float(revised_s[np.isfinite(upper)].min(initial=math.inf)))
            demotion_s = np.append(demotion_s, revised_s)
        changes_s = np.concatenate([demotion_s, self.promotion_s(view, view.waiting)])
        yield Wait(max(float(changes_s.min(initial=math.inf)), math.nextafter(view.now_s, math.inf)))

    def seconds(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        return view.service_s(rows) if self.demote_on == "progress" else self.held_s[rows]

    def attained(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        return view.gpus[rows] * (self.seconds(view, rows) - self.forgiven_s[rows])

    def queue(self, view: ClusterView, rows: np.ndarray, attained: np.ndarray) -> np.ndarray:
        whole = view.gpus[rows] * self.ideal_s(view, rows) if self.estimator else attained
        return np.searchsorted(self.upper[:-1] - 1e-6, np.maximum(attained, whole), side="right")

    def promotion_s(self, view: ClusterView, waiting: np.ndarray) -> np.ndarray:
        if math.isinf(self.knob):
            return np.full(len(waiting), math.inf)
        executed_s = self.seconds(view, waiting) - self.forgiven_s[waiting]
        since_s = np.maximum(view.last_stop_s[waiting], self.waits_since_s[waiting])
        demoted = self.queue(view, waiting, view.gpus[waiting] * executed_s) > 0
        return np.where(demoted, since_s + self.knob * executed_s, math.inf)

    def ranks(self, view: ClusterView, rows: np.ndarray, attained: np.ndarray, queue: np.ndarray) -> list[np.ndarray]:
        keys = [self.entered_s[rows] if self.policy == "entry" else view.first_start_s[rows]]
        if self.policy == "gittins":
            keys.append(-rounded_keys(gittins_index(self.sizes, attained, self.upper[queue])))
        if self.incumbents_first:
            keys.append(~np.isin(rows, view.running))
        return keys


def gittins_index(sizes: np.ndarray, attained: np.ndarray, quantum: np.ndarray) -> np.ndarray:
    """P(S - a <= D | S > a) / E[min(S - a, D) | S > a] for each attained service a and quantum D."""
    total = np.concatenate([[0.0], np.cumsum(sizes)])
    begin, end = (np.searchsorted(sizes, limit, side="right") for limit in (attained, attained + quantum))
    beyond = len(sizes) - end
    beyond_s = np.multiply(beyond, quantum, out=np.zeros(len(attained)), where=beyond > 0)
    spent = total[end] - total[begin] - (end - begin) * attained + beyond_s
    return np.divide(end - begin, spent, out=np.zeros(len(attained)), where=spent > 0)


class BsbfReference(SjfBsbf):
    """Waiting jobs by size or arrival, each where the search finds a place."""

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        order = view.waiting
        if not len(order):
            return
        if self.round_s > 0 and view.semantics.round_s == 0:
            rounds = max(math.floor(view.now_s / self.round_s) - 1, 0)
            for _ in range(3):  # the division may round up or down
                rounds += (rounds + 1) * self.round_s <= view.now_s
            yield Wait((rounds + 1) * self.round_s)
            if rounds * self.round_s != view.now_s:
                return
        if self.order == "sjf":
            order = order[np.argsort(view.remaining_s(order), kind="stable")]
        yield from view.shared_schedule(
            order, self.benefit_test, self.sub_batch_search, self.running_time == "measured", self.placement,
            is_strict(view, self.strict),
        )  # fmt: skip


REFERENCES = {
    Fifo: FifoReference, ShortestJobFirst: SjfReference, ShortestRemainingFirst: SrtfReference,
    LeastAttainedService: LasReference, Tiresias: TiresiasReference, SjfBsbf: BsbfReference,
}  # fmt: skip


def reference(spec: str) -> Scheduler:
    """The scheduler of a spec, played by plain Python."""
    scheduler = make_scheduler(spec)
    scheduler.__class__ = REFERENCES[type(scheduler)]
    return scheduler
