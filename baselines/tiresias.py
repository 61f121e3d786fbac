"""Tiresias: discretised two-dimensional least attained service, or Gittins index, with skew-based consolidation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.gittins import gittins_index, published_sizes
from gpusched_env.baselines.listed.keys import QUEUES
from gpusched_env.baselines.listed.run import ListedRun, ListRules, listed_run
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Simulation, Wait, rule_number

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
    placement : placement rule of the other models; "most-free" is that of Pollux' simulator for its Tiresias
    incumbents_first : running jobs lead their queue, and go by first start like all others. Not published. In the
        authors' repository they lead, too, but running and waiting jobs each keep the order of its list, which is that
        of their coming into the queue
    history : GPU-seconds of past jobs for "gittins"; never those of the jobs played. Empty = quantiles of the
        log-normal fit (8.15, 2.12) to the 10,000 GPU times that the authors published

    Notes
    -----
    Demotions and promotions are exact timers, not polls. The queue follows from the attained service, which counts
    productive seconds since the last promotion. O(n log n) a decision point, n jobs in the system.

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
        if any(not low < high for low, high in itertools.pairwise(bounds)):
            raise SchedulerError(f"tiresias: thresholds {self.thresholds} must be above 0 and ascend [GPU s]")
        if not self.knob > 0:
            raise SchedulerError(f"tiresias: knob is {self.knob}: it must be > 0 (inf = no promotion)")

    @property
    def name(self) -> str:
        """tiresias-L or tiresias-G."""
        return "tiresias-G" if self.policy == "gittins" else "tiresias-L"

    def reset(self, view: ClusterView) -> None:
        """Put every job into the first queue."""
        self._forgiven_s = np.zeros(64)  # executed seconds before the last promotion
        self._waits_since_s = np.zeros(64)  # the latest promotion; the wait is counted from it
        self._sample = np.sort(self.history) if self.history else published_sizes()
        self._upper = np.array([*self.thresholds, math.inf])

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Give the compiled loop; there is none for Gittins indices and promotion."""
        if type(self) is not Tiresias or self.policy != "las" or math.isfinite(self.knob):
            return None
        rules = ListRules(
            QUEUES,
            self.placement,
            preempts=True,
            thresholds=self.thresholds,
            packlimit=self.packlimit,
            incumbents=self.incumbents_first,
        )
        return listed_run(self, simulation, rules)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Promote, let the best jobs hold the GPUs, and ask to be woken when a job changes its queue."""
        waiting = view.waiting
        if not len(waiting):
            return
        self._grow(view.arrived)
        starved = waiting[self._promotion_s(view, waiting) <= view.now_s]
        self._forgiven_s[starved] = view.service_s(starved)
        self._waits_since_s[starved] = view.now_s
        rows = np.sort(np.concatenate([view.running, waiting]))
        attained = self._attained(view, rows)
        queue = self._queue(attained)
        order = rows[np.lexsort((*self._ranks(view, rows, attained, queue), queue))]
        yield from view.preemptive_schedule(order, self._rules(view, order))

        # As of now, after the starts and preemptions.
        running, waiting = view.running, view.waiting
        attained = self._attained(view, running)
        begin = np.maximum(view.progress_since_s(running), view.now_s)
        demotion = begin + (self._upper[self._queue(attained)] - attained) / view.gpus[running]
        changes = np.concatenate([demotion, self._promotion_s(view, waiting)])
        # a change closer than the clock can tell is still a change
        yield Wait(max(float(changes.min(initial=math.inf)), math.nextafter(view.now_s, math.inf)))

    def _grow(self, jobs: int) -> None:
        if jobs > len(self._forgiven_s):
            extra = max(jobs, 2 * len(self._forgiven_s)) - len(self._forgiven_s)
            self._forgiven_s = np.pad(self._forgiven_s, (0, extra))
            self._waits_since_s = np.pad(self._waits_since_s, (0, extra))

    def _attained(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Attained service since the last promotion [GPU s]."""
        return view.gpus[rows] * (view.service_s(rows) - self._forgiven_s[rows])

    def _queue(self, attained: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._upper[:-1] - _TOLERANCE, attained, side="right")

    def _promotion_s(self, view: ClusterView, waiting: np.ndarray) -> np.ndarray:
        """When each waiting job will have starved [s]; inf in the first queue."""
        if math.isinf(self.knob):
            return np.full(len(waiting), math.inf)
        executed = view.service_s(waiting) - self._forgiven_s[waiting]
        since = np.maximum(view.last_stop_s[waiting], self._waits_since_s[waiting])
        demoted = self._queue(view.gpus[waiting] * executed) > 0
        return np.where(demoted, since + self.knob * executed, math.inf)

    def _ranks(self, view: ClusterView, rows: np.ndarray, attained: np.ndarray, queue: np.ndarray) -> list[np.ndarray]:
        """Sort keys inside a queue, least important first; equal keys keep the order of rows."""
        keys = [view.first_start_s[rows]]
        if self.policy == "gittins":
            keys.append(-rounded_keys(gittins_index(self._sample, attained, self._upper[queue])))
        if self.incumbents_first:
            keys.append(~np.isin(rows, view.running))
        return keys

    def _rules(self, view: ClusterView, order: np.ndarray) -> np.ndarray:
        skewed = (view.skew[order] > self.packlimit) & (view.gpus[order] > 1)
        return np.where(skewed, rule_number("consolidate"), rule_number(self.placement)).astype(np.int32)
