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
from gpusched_env.simulator import RULE_NUMBER, ClusterView, Decision, Scheduler, Simulation, Wait, rule_number

POLICIES: Final = ("las", "gittins", "entry")
DEMOTE_ON: Final = ("progress", "held")
# At a computed demotion time, the attained service may be below the threshold by a rounding error.
_TOLERANCE: Final = 1e-6  # [GPU s]


@dataclass
class Tiresias(Scheduler):
    """Serve jobs from several queues, those with little attained service first, and consolidate models with high skew.

    A job begins in the first queue. It is demoted to the next queue when its attained service, gang size x productive
    seconds, reaches the limit of the queue that the job is in. Productive seconds are the time during which a job makes
    progress. The first queue is served first, so short and small jobs finish early, although no run time is known.
    Running jobs are preempted for jobs of earlier queues. As a job changes its queue only a few times, jobs of similar
    service do not preempt each other for ever.

    * ``tiresias``: ``policy="las"``. Within a queue, jobs are ordered by first start (discretised 2D-LAS).
    * ``tiresias-g``: ``policy="gittins"``. Within a queue, jobs are ordered by their Gittins index, which is computed
      from the sizes of past jobs (discretised 2D-Gittins).

    Parameters
    ----------
    policy : order within a queue. "las" (default) = earliest first start first, and jobs that never started last;
        "gittins" = largest Gittins index first; "entry" = in the order in which they entered the queue, as in the
        simulator of Pollux
    demote_on : service that counts towards a demotion: "progress" (default) = gang size x productive seconds; "held" =
        gang size x seconds during which the gang held its GPUs, restarts included, as in the simulator of Pollux
    thresholds : limits of the attained service in all queues but the last [GPU s], ascending. The default is one limit
        of 3,600 GPU s, so there are K = 2 queues
    knob : PROMOTEKNOB of the paper. A job that has waited for ``knob`` x its productive seconds returns to the first
        queue. Default inf = no promotion
    packlimit : limit of the skew (bytes of the largest tensor / bytes of all tensors), default 0.3. A job whose model
        exceeds this limit takes the smallest possible number of machines, or waits. inf = no such rule
    placement : placement rule of the jobs whose models do not exceed ``packlimit``; default best fit. "most-free" is
        the rule that the Pollux simulator has for Tiresias
    incumbents_first : True = in each queue, running jobs come before waiting jobs, ordered by first start; default
        False. The paper has no such rule. In the authors' repository, running jobs come first too, but running and
        waiting jobs each keep the order in which they entered the queue
    history : sizes of past jobs for "gittins" [GPU s], which must not be those of the workload itself. Default empty =
        quantiles of a log-normal distribution (mu 8.15, sigma 2.12) fitted to the 10,000 GPU times that the authors
        published

    Notes
    -----
    Attained service counts from the last promotion of a job. Demotions and promotions happen at their exact times, not
    at periodic checks. The paper leaves four points open. Our choices are:

    - ``packlimit`` is 0.3.
    - There is one threshold, of 3,600 GPU s.
    - In the last queue, the quantum of the Gittins index is the largest past size minus the attained service.
    - The wait for a promotion counts from the time at which the job last ran or the time at which it was last promoted,
      whichever is later.

    A decision point takes O(n log n), n = number of jobs in the system.

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
    demote_on: str = "progress"

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.policy not in POLICIES:
            raise SchedulerError(f"tiresias: {unknown_name('policy', self.policy, POLICIES)}")
        if self.demote_on not in DEMOTE_ON:
            raise SchedulerError(f"tiresias: {unknown_name('demote_on', self.demote_on, DEMOTE_ON)}")
        bounds = (0.0, *self.thresholds)
        if any(not low < high for low, high in itertools.pairwise(bounds)):
            raise SchedulerError(f"tiresias: thresholds {self.thresholds} must be above 0 and ascend [GPU s]")
        if not self.knob > 0:
            raise SchedulerError(f"tiresias: knob is {self.knob}: it must be > 0 (inf = no promotion)")

    @property
    def name(self) -> str:
        """Name in tables: ``tiresias-L`` or ``tiresias-G``."""
        return "tiresias-G" if self.policy == "gittins" else "tiresias-L"

    def reset(self, view: ClusterView) -> None:
        """Put every job into the first queue."""
        self._forgiven_s = np.zeros(64)  # [s] productive seconds up to the last promotion
        self._waits_since_s = np.zeros(64)  # [s] time of the last promotion, from which the wait counts
        self._held_s = np.zeros(64)  # [s] time for which each job has held GPUs
        self._checked_s = 0.0  # [s] time up to which this is known
        self._queued = np.zeros(64, np.int64)  # queue of each job at the last decision point
        self._entered_s = np.zeros(64)  # [s] time at which it entered this queue, 0 = on arrival
        self._sample = self._past_sizes()
        self._upper = np.array([*self.thresholds, math.inf])

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Return the compiled loop, which exists only without promotion, entry order and demotion by held time."""
        if (
            type(self) is not Tiresias
            or self.policy == "entry"
            or math.isfinite(self.knob)
            or self.demote_on != "progress"
        ):
            return None
        rules = ListRules(
            QUEUES,
            self.placement,
            preempts=True,
            thresholds=self.thresholds,
            packlimit=self.packlimit,
            incumbents=self.incumbents_first,
            history=tuple(self._past_sizes().tolist()) if self.policy == "gittins" else (),
        )
        return listed_run(self, simulation, rules)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Promote starved jobs, give the GPUs to the first jobs, and ask to be woken when a job changes its queue."""
        waiting = view.waiting
        self._grow(view.arrived)
        self._held_s[view.running] += view.now_s - self._checked_s  # gangs start and stop only at decision points
        self._checked_s = view.now_s
        if not len(waiting):
            return
        starved = waiting[self._promotion_s(view, waiting) <= view.now_s]
        self._forgiven_s[starved] = self._service_s(view, starved)
        self._waits_since_s[starved] = view.now_s
        rows = np.sort(np.concatenate([view.running, waiting]))
        attained = self._attained(view, rows)
        queue = self._queue(attained)
        moved = rows[queue != self._queued[rows]]
        self._queued[rows] = queue
        self._entered_s[moved] = view.now_s
        order = rows[np.lexsort((*self._ranks(view, rows, attained, queue), queue))]
        yield from view.preemptive_schedule(order, self._rules(view, order))

        # State after the starts and preemptions above.
        running, waiting = view.running, view.waiting
        attained = self._attained(view, running)
        begin = np.full(len(running), view.now_s)
        if self.demote_on == "progress":
            begin = np.maximum(view.progress_since_s(running), begin)
        demotion = begin + (self._upper[self._queue(attained)] - attained) / view.gpus[running]
        changes = np.concatenate([demotion, self._promotion_s(view, waiting)])
        # A change may be at the present time within rounding; the time of the next call must nevertheless be later.
        yield Wait(max(float(changes.min(initial=math.inf)), math.nextafter(view.now_s, math.inf)))

    def _past_sizes(self) -> np.ndarray:
        return np.sort(self.history) if self.history else published_sizes()

    def _grow(self, jobs: int) -> None:
        if jobs > len(self._forgiven_s):
            extra = max(jobs, 2 * len(self._forgiven_s)) - len(self._forgiven_s)
            self._forgiven_s = np.pad(self._forgiven_s, (0, extra))
            self._waits_since_s = np.pad(self._waits_since_s, (0, extra))
            self._held_s, self._entered_s = np.pad(self._held_s, (0, extra)), np.pad(self._entered_s, (0, extra))
            self._queued = np.pad(self._queued, (0, extra))

    def _service_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Return the seconds of each of the jobs ``rows`` that count towards a demotion."""
        return view.service_s(rows) if self.demote_on == "progress" else self._held_s[rows]

    def _attained(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Return the attained service of each of the jobs ``rows`` since its last promotion [GPU s]."""
        return view.gpus[rows] * (self._service_s(view, rows) - self._forgiven_s[rows])

    def _queue(self, attained: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._upper[:-1] - _TOLERANCE, attained, side="right")

    def _promotion_s(self, view: ClusterView, waiting: np.ndarray) -> np.ndarray:
        """Return the time at which each waiting job will be promoted [s]; inf = the job is in the first queue."""
        if math.isinf(self.knob):
            return np.full(len(waiting), math.inf)
        executed = self._service_s(view, waiting) - self._forgiven_s[waiting]
        since = np.maximum(view.last_stop_s[waiting], self._waits_since_s[waiting])
        demoted = self._queue(view.gpus[waiting] * executed) > 0
        return np.where(demoted, since + self.knob * executed, math.inf)

    def _ranks(self, view: ClusterView, rows: np.ndarray, attained: np.ndarray, queue: np.ndarray) -> list[np.ndarray]:
        """Return sort keys within a queue, least significant first; jobs of equal keys keep the order of ``rows``."""
        keys = [self._entered_s[rows] if self.policy == "entry" else view.first_start_s[rows]]
        if self.policy == "gittins":
            keys.append(-rounded_keys(gittins_index(self._sample, attained, self._upper[queue])))
        if self.incumbents_first:
            keys.append(~np.isin(rows, view.running))
        return keys

    def _rules(self, view: ClusterView, order: np.ndarray) -> np.ndarray:
        skewed = (view.skew[order] > self.packlimit) & (view.gpus[order] > 1)
        return np.where(skewed, RULE_NUMBER["consolidate"], rule_number(self.placement)).astype(np.int32)
