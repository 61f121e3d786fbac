"""Tiresias: discretised two-dimensional least attained service, or Gittins index, with skew-based consolidation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.gittins import gittins_index
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.simulator import RULE_NUMBER, ClusterView, Decision, Scheduler, Wait

POLICIES: Final = ("las", "gittins")
# Demotion times are computed from attained service and back: forgive rounding.
_TOLERANCE: Final = 1e-6  # [GPU s]


@dataclass
class Tiresias(Scheduler):
    """Queues by attained service; lower queues are served first, preemptively.

    Parameters
    ----------
    policy : order inside a queue: "las" = by first start, never-started jobs last; "gittins" = largest index first
    thresholds : upper bounds of all queues but the last [GPU s]; one threshold makes K = 2 queues
    knob : PROMOTEKNOB: a job that has waited knob x its executed time goes back to the first queue; inf = off
    packlimit : models with more skew are placed on the fewest possible machines or wait; inf = no such test
    placement : placement rule of the other models
    incumbents_first : running jobs lead their queue (the authors' repository), not published
    history : GPU-seconds of past jobs for "gittins"; empty = the jobs that have finished in this run

    Notes
    -----
    Demotions and promotions are exact timers, not polls. A job is demoted one queue at a time. Attained service counts
    productive seconds since the last promotion. "gittins" orders like "las" until 32 jobs have finished, if it has no
    ``history``; its sample is refreshed whenever it has grown by a tenth. O(n log n) a decision point.

    References
    ----------
    J. Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019, sections 3.2-3.3.
    """

    policy: str = "las"
    thresholds: tuple[float, ...] = (3600.0,)
    knob: float = math.inf
    packlimit: float = 0.3
    placement: str = "pack"
    incumbents_first: bool = False
    history: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.policy not in POLICIES:
            raise SchedulerError(f"tiresias: {unknown_name('policy', self.policy, POLICIES)}")
        bounds = (0.0, *self.thresholds)
        if any(not low < high for low, high in zip(bounds, bounds[1:], strict=False)):
            raise SchedulerError(f"tiresias: thresholds {self.thresholds} must be above 0 and ascend [GPU s]")
        if not self.knob > 0:
            raise SchedulerError(f"tiresias: knob is {self.knob}: it must be > 0 (inf = no promotion)")

    @property
    def name(self) -> str:
        """tiresias-L or tiresias-G."""
        return "tiresias-G" if self.policy == "gittins" else "tiresias-L"

    def reset(self, view: ClusterView) -> None:
        """Put every job into the first queue."""
        self._queue = np.zeros(64, np.int32)
        self._forgiven_s = np.zeros(64)  # executed seconds before the last promotion
        self._waits_since_s = np.zeros(64)  # the latest promotion; the wait is counted from it
        self._sample = np.sort(np.asarray(self.history, float))
        self._upper = np.array([*self.thresholds, math.inf])

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Demote, promote, then let the best jobs hold the GPUs."""
        waiting = view.waiting
        if not len(waiting):
            return []
        self._grow(view.arrived)
        running = view.running
        rows = np.sort(np.concatenate([running, waiting]))
        executed = view.service_s(rows) - self._forgiven_s[rows]
        gpus = view.gpus[rows]
        self._queue[rows] += (gpus * executed >= self._upper[self._queue[rows]] - _TOLERANCE).astype(np.int32)
        wake = self._promote(view, waiting)
        queue = self._queue[rows]
        executed = view.service_s(rows) - self._forgiven_s[rows]
        order = rows[np.lexsort((*self._ranks(view, rows, gpus * executed), queue))]

        holds = np.isin(rows, running)
        with np.errstate(invalid="ignore"):
            demotion = view.now_s + (self._upper[queue] - gpus * executed) / gpus
        if holds.any():
            wake = min(wake, float(demotion[holds].min()))
        return [*view.preemptive_schedule(order, self._rules(view, order)), Wait(wake)]

    def _grow(self, jobs: int) -> None:
        if jobs > len(self._queue):
            extra = max(jobs, 2 * len(self._queue)) - len(self._queue)
            self._queue = np.pad(self._queue, (0, extra))
            self._forgiven_s = np.pad(self._forgiven_s, (0, extra))
            self._waits_since_s = np.pad(self._waits_since_s, (0, extra))

    def _promote(self, view: ClusterView, waiting: np.ndarray) -> float:
        """Promote the starved; return when the next one will be [s]."""
        if math.isinf(self.knob):
            return math.inf
        demoted = waiting[self._queue[waiting] > 0]
        if not len(demoted):
            return math.inf
        service = view.service_s(demoted)
        since = np.maximum(view.last_stop_s[demoted], self._waits_since_s[demoted])
        limit = since + self.knob * (service - self._forgiven_s[demoted])
        starved = demoted[limit <= view.now_s]
        self._queue[starved] = 0
        self._forgiven_s[starved] = service[limit <= view.now_s]
        self._waits_since_s[starved] = view.now_s
        return float(limit[limit > view.now_s].min(initial=math.inf))

    def _ranks(self, view: ClusterView, rows: np.ndarray, attained: np.ndarray) -> list[np.ndarray]:
        """Sort keys inside a queue, least important first; equal keys keep the order of rows."""
        keys = [view.first_start_s[rows]]
        if self.policy == "gittins":
            sample = self._known_sizes(view)
            if len(sample):
                quantum = self._upper[self._queue[rows]]
                keys.append(-gittins_index(sample, attained, quantum))
        if self.incumbents_first:
            keys.append(~np.isin(rows, view.running))
        return keys

    def _known_sizes(self, view: ClusterView) -> np.ndarray:
        if not self.history:
            finished = view.finished_count
            if finished >= 32 and finished >= 1.1 * len(self._sample):
                self._sample = np.sort(view.attained_gpu_s(view.finished))
        return self._sample

    def _rules(self, view: ClusterView, order: np.ndarray) -> np.ndarray:
        skewed = (view.skew[order] > self.packlimit) & (view.gpus[order] > 1)
        return np.where(skewed, RULE_NUMBER["consolidate"], RULE_NUMBER[self.placement]).astype(np.int32)
