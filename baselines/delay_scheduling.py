"""Classic delay scheduling: for a limited time, a job declines GPUs that are too far apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.baselines.checking import check
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.cluster import MACHINE, NETWORK
from gpusched_env.simulator import RULE_NUMBER, ClusterView, Decision, Scheduler, Start, Wait

CLOCKS: Final = ("declining", "waiting", "offers")
# Placement rules, by the loosest tier that a job accepts (machine, rack, network). A rule takes the tightest placement
# that is free.
_RULE_WITHIN: Final = np.array([RULE_NUMBER[name] for name in ("consolidate", "rack", "pack")], np.int32)
# Tolerance for rounding errors: a wait is a sum of differences of clock times.
_TOLERANCE_S: Final = 1e-6  # [s]


@dataclass
class DelayScheduling(Scheduler):
    """Start jobs by arrival on the tightest tier; accept a looser tier only after a wait.

    A job that takes whatever is free may get GPUs that are far apart, and then runs slowly. If the job waits a little,
    GPUs that are closer together often come free. So a job first declines all GPUs beyond its tightest tier. It accepts
    GPUs of one rack after a wait of W1, and any GPUs after W1 + W2. Other jobs may use the GPUs that a job declines.

    Parameters
    ----------
    waits : W1 and W2. W1 is the wait before the job accepts a rack, W2 the additional wait before it accepts any GPUs.
        The unit is seconds, or offers (D of the paper) if ``clock`` is "offers". Default 3 and 3, as in Spark
    clock : what a wait counts. "declining" (default) = seconds in which enough GPUs are free and the job declines them
        (Zaharia et al.); "waiting" = all seconds since the job arrived (Spark: ``spark.locality.wait``); "offers" = the
        number of times that GPUs came free and were enough for the job. With "offers", the job accepts a rack at the
        W1-th offer and any GPUs at the (W1 + W2)-th

    Notes
    -----
    The paper schedules the small tasks of large jobs. This scheduler places each gang once and as a whole. The
    differences are:

    - "Local" means the tightest tier on which the empty cluster can hold the gang. A gang larger than a machine
      therefore begins with the tier "rack" and waits only W2, just as Spark skips locality levels without tasks.
    - Jobs are served by arrival. The paper serves the job with the fewest running tasks first (fair sharing), but a
      waiting gang has no running tasks.
    - In the paper, a job accepts the offer after the D-th. Here a job accepts the D-th offer, because declined GPUs
      stay free and would be offered again at once.
    - Waits end at their exact times, not at heartbeats, unless the scenario has rounds.

    No job is preempted. Waits of a few seconds suit short tasks, but not gangs that keep their placement for hours. A
    decision point takes O(waiting).

    References
    ----------
    M. Zaharia et al., "Delay scheduling: a simple technique for achieving locality and fairness in cluster scheduling",
    EuroSys 2010, algorithms 1 and 2, section 4.1.
    """

    waits: tuple[float, ...] = (3.0, 3.0)
    clock: str = "declining"
    name = "delay-zaharia"
    needs = ("spread",)

    def __post_init__(self) -> None:
        """Check the parameters."""
        check("delay-zaharia", self, clock=CLOCKS)
        if len(self.waits) != NETWORK or not all(wait >= 0 for wait in self.waits):
            raise SchedulerError(
                f"delay-zaharia: waits are {self.waits}: give two numbers >= 0, before a rack and before the network"
            )

        # Entry [own, tier] is the total wait before a job whose tightest tier is ``own`` accepts ``tier``.
        self._limits = np.array(
            [[sum(self.waits[own:tier]) for tier in range(NETWORK + 1)] for own in range(NETWORK + 1)]
        )

    def reset(self, view: ClusterView) -> None:
        """Set all waits to 0."""
        self._waited = np.zeros(len(view.simulation.instance.workload))  # [s] or [offers], by job row
        self._declining = np.empty(0, np.int32)  # rows that have declined GPUs since the last decision point
        self._asked_s = 0.0
        self._free_before = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Update the waits, start jobs that find GPUs on an accepted tier, and ask to be woken when a wait ends."""
        waiting, free = view.waiting, view.free_gpus
        if self.clock == "declining":
            self._waited[self._declining] += view.now_s - self._asked_s
        elif self.clock == "waiting":
            self._waited[waiting] = view.now_s - view.arrival_s[waiting]
        elif free > self._free_before:
            self._waited[waiting] += 1

        tiers, _ = self._reach(view, waiting)
        starts = view.list_schedule(waiting, _RULE_WITHIN[tiers])
        yield from starts

        gangs = view.gpus[waiting]
        started = np.isin(waiting, [start.job for start in starts if isinstance(start, Start)])
        in_turn = free - np.cumsum(np.where(started, gangs, 0))  # GPUs left for each job by earlier starts
        if self.clock == "offers" and free > self._free_before:
            self._waited[waiting[~started & (gangs > in_turn)]] -= 1  # too few GPUs were left: no offer
        self._asked_s, self._free_before = view.now_s, view.free_gpus
        self._declining = waiting[~started & (gangs <= view.free_gpus)]
        if self.clock != "offers":
            _, left = self._reach(view, self._declining)
            wake_s = view.now_s + float(left.min(initial=math.inf))
            # A wait may end at the present time within rounding; the time of the next call must nevertheless be later.
            yield Wait(max(wake_s, math.nextafter(view.now_s, math.inf)))

    def _reach(self, view: ClusterView, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the loosest tier that each of the jobs ``rows`` accepts now, and its wait until the next tier."""
        tightest = view.cluster.tightest_tier(view.gpus[rows])
        tightest = np.where(tightest > NETWORK, MACHINE, tightest)  # there is no wait for a tier below the machine
        limits = self._limits[tightest]
        waited = self._waited[rows][:, None]
        over = limits <= waited + _TOLERANCE_S
        left = np.where(over, math.inf, limits - waited).min(axis=1, initial=math.inf)
        return over.sum(axis=1) - 1, left
