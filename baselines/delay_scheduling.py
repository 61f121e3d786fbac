"""Classic delay scheduling: a job that is offered GPUs too far apart declines them for a while."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.cluster import MACHINE, NETWORK
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable.elementary import log, power
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start, Wait, rule_number

CLOCKS: Final = ("declining", "waiting", "offers")
# Which rule takes the tightest free place, but none beyond a tier: a machine, a rack, the network.
_RULE_WITHIN: Final = np.array([rule_number("consolidate"), rule_number("rack"), rule_number("pack")], np.int32)
# A wait is a sum of differences of clock times, which may round either way.
_TOLERANCE_S: Final = 1e-6  # [s]


@dataclass
class DelayScheduling(Scheduler):
    """Start jobs in fair-share order on the tightest tier; after a wait a tier further out will do.

    Parameters
    ----------
    waits : W1 and W2, what a job waits for a machine before it takes a rack, and then for a rack before it goes
        anywhere; the waits are stacked [s], or [offers] = D of the paper's skip counts
    clock : what a wait counts: "declining" = seconds in which enough GPUs are free and the job declines them
        (Zaharia); "waiting" = all seconds since it came (Spark: ``spark.locality.wait``); "offers" = how often GPUs
        came free and it was offered enough: it takes the W1-th offer within a rack, the (W1 + W2)-th anywhere

    Notes
    -----
    The job is the unit: a gang is placed once and as a whole. "Local" is the tightest tier that can hold it on the
    empty cluster, so a gang larger than a machine begins at its rack and waits W2 only, as Spark leaves out levels
    without tasks. Fair sharing puts the job with the fewest running tasks first; a waiting gang runs none, so equals
    are served by arrival, and a job that declines is passed by the others. The paper's skip count takes the offer
    after the D-th; here it takes the D-th, because declined GPUs stay free and would be offered again at once. Nothing
    is preempted. Expiries are exact timers, not heartbeats, unless the scenario plays in rounds. The default is Spark's
    3 s for each level; seconds suit short tasks, not gangs that stay for hours. O(waiting) a decision point.

    References
    ----------
    M. Zaharia et al., "Delay scheduling: a simple technique for achieving locality and fairness in cluster
    scheduling", EuroSys 2010, algorithms 1 and 2, section 4.1.
    """

    waits: tuple[float, ...] = (3.0, 3.0)
    clock: str = "declining"

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.clock not in CLOCKS:
            raise SchedulerError(f"delay-zaharia: {unknown_name('clock', self.clock, CLOCKS)}")
        if len(self.waits) != NETWORK or not all(wait >= 0 for wait in self.waits):
            raise SchedulerError(
                f"delay-zaharia: waits are {self.waits}: give two numbers >= 0, before a rack and before the network"
            )

        # Row = tightest tier of a job, column = tier: the sum of the waits between them.
        self._limits = np.array(
            [[sum(self.waits[own:tier]) for tier in range(NETWORK + 1)] for own in range(NETWORK + 1)]
        )

    @property
    def name(self) -> str:
        """Name in tables."""
        return "delay-zaharia"

    def reset(self, view: ClusterView) -> None:
        """Nobody has waited."""
        self._waited = np.zeros(64)  # [s] or [offers], by job row
        self._declining = np.empty(0, np.int32)  # rows that stood declining since the last decision point
        self._asked_s = 0.0
        self._free_before = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Bring the waits up to date, start whoever finds a place near enough, and wake when a wait is over."""
        waiting, free = view.waiting, view.free_gpus
        if view.arrived > len(self._waited):
            self._waited = np.pad(self._waited, (0, max(view.arrived, 2 * len(self._waited)) - len(self._waited)))
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
        in_turn = free - np.cumsum(np.where(started, gangs, 0))  # what those before it left each waiting job
        if self.clock == "offers" and free > self._free_before:
            self._waited[waiting[~started & (gangs > in_turn)]] -= 1  # it was offered nothing
        self._asked_s, self._free_before = view.now_s, view.free_gpus
        self._declining = waiting[~started & (gangs <= view.free_gpus)]
        if self.clock != "offers":
            _, left = self._reach(view, self._declining)
            wake_s = view.now_s + float(left.min(initial=math.inf))
            # an expiry closer than the clock can tell is still an expiry
            yield Wait(max(wake_s, math.nextafter(view.now_s, math.inf)))

    def _reach(self, view: ClusterView, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the widest tier that each of the jobs ``rows`` takes by now, and what it still waits for the next."""
        tightest = view.cluster.tightest_tier(view.gpus[rows])
        tightest = np.where(tightest > NETWORK, MACHINE, tightest)  # inside a machine nothing is waited for
        limits = self._limits[tightest]
        waited = self._waited[rows][:, None]
        over = limits <= waited + _TOLERANCE_S
        left = np.where(over, math.inf, limits - waited).min(axis=1, initial=math.inf)
        return over.sum(axis=1) - 1, left


def skips_for_locality(machines: float, replicas: float, locality: float, tasks: float) -> float:
    """Give D: how many offers each job must decline for a share ``locality`` of its tasks to be local.

    Parameters
    ----------
    machines, replicas : each task can be local on ``replicas`` of so many machines
    locality : share of local tasks that is wanted, 0 <= locality < 1
    tasks : tasks of a job, which wants fewer and fewer machines as they are launched

    References
    ----------
    M. Zaharia et al., EuroSys 2010, section 4.1.
    """
    rest = (1.0 - locality) * tasks
    return machines / replicas * log((1.0 + rest) / rest)


def chance_of_no_local_offer(local: float, offers: float) -> float:
    """Probability that none of so many independent offers is local, if each is with probability ``local``."""
    return power(1.0 - local, offers)
