"""Tiresias: discretised two-dimensional least attained service, or Gittins index, with skew-based consolidation."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gpusched_env.baselines.estimates import EstimatingScheduler, no_estimates
from gpusched_env.baselines.list_policies.gittins import published_sizes
from gpusched_env.baselines.list_policies.keys import QUEUES
from gpusched_env.baselines.list_policies.scheduler import ListRules, ListScheduler
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.prediction.levels import quantile_left_s
from gpusched_env.simulator import Simulation

POLICIES: Final = ("las", "gittins", "entry")
DEMOTE_ON: Final = ("progress", "held")
DEMOTED: Final = ("ordered", "tail")


@dataclass
class Tiresias(ListScheduler, EstimatingScheduler):
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
    demoted : place of a job that changes its queue: "ordered" (default) = where ``policy`` orders it; "tail" = behind
        all jobs of that queue, as in the controller of Muri's testbed. With "tail", jobs stay in the order in which
        they came, but after each decision the running jobs of a queue move ahead of its waiting ones
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
    estimator, sigma, estimator_seed : source of run times, see :class:`EstimatingScheduler`. The queue of a job then
        follows from gang size x estimated run time if that exceeds its attained service, so a job that seems long
        begins in a later queue. The estimate of a predictor is the 0.25 quantile of the run times, so three of four
        such jobs need more; what it learns may also return a job to an earlier queue. Default empty = none. Not with
        ``knob`` or "tail"

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

    left_s = staticmethod(partial(quantile_left_s, share=0.25))

    policy: str = "las"  # type: ignore[misc]  # that of the base class is :meth:`policy_kernel`
    thresholds: tuple[float, ...] = (3600.0,)
    knob: float = math.inf
    packlimit: float = 0.3
    placement: str = "pack"
    incumbents_first: bool = False
    history: tuple[float, ...] = ()
    demote_on: str = "progress"
    demoted: str = "ordered"
    estimator: str = field(default="", kw_only=True)
    sigma: float = field(default=0.5, kw_only=True)
    estimator_seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        """Check the parameters."""
        self._history = None
        if self.estimator:
            super().__post_init__()
            if self.knob < math.inf or self.demoted == "tail":
                raise SchedulerError("tiresias: estimator chooses the queues; leave out knob and demoted=tail")
        for name, known in (("policy", POLICIES), ("demote_on", DEMOTE_ON), ("demoted", DEMOTED)):
            if getattr(self, name) not in known:
                raise SchedulerError(f"tiresias: {unknown_name(name, getattr(self, name), known)}")
        if self.demoted == "tail" and (self.policy != "las" or self.incumbents_first):
            raise SchedulerError("tiresias: demoted=tail orders the queues; leave out policy and incumbents_first")
        bounds = (0.0, *self.thresholds)
        if any(not low < high for low, high in itertools.pairwise(bounds)):
            raise SchedulerError(f"tiresias: thresholds {self.thresholds} must be above 0 and ascend [GPU s]")
        if not self.knob > 0:
            raise SchedulerError(f"tiresias: knob is {self.knob}: it must be > 0 (inf = no promotion)")

    @property
    def name(self) -> str:
        """Name in tables: ``tiresias-L`` or ``tiresias-G``."""
        return "tiresias-G" if self.policy == "gittins" else "tiresias-L"

    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules."""
        history: tuple[float, ...] = ()
        if self.policy == "gittins":
            history = tuple(sorted(self.history)) or tuple(published_sizes().tolist())
        return ListRules(
            QUEUES,
            self.placement,
            preempts=True,
            thresholds=self.thresholds,
            packlimit=self.packlimit,
            incumbents=self.incumbents_first,
            history=history,
            by_entry=self.policy == "entry" or self.demoted == "tail",
            tail=self.demoted == "tail",
            by_held=self.demote_on == "held",
            by_claims=bool(self.estimator),
            knob=self.knob,
            estimates=self.estimates(simulation) if self.estimator else no_estimates(),
        )
