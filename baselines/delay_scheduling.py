"""Classic delay scheduling: a job declines GPUs that are too far apart for a limited time."""

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
# Index = loosest accepted tier (machine, rack, network); the rule takes the tightest free place within it.
_RULE_WITHIN: Final = np.array([rule_number("consolidate"), rule_number("rack"), rule_number("pack")], np.int32)
# A wait is a sum of differences of clock times: forgive rounding errors.
_TOLERANCE_S: Final = 1e-6  # [s]


@dataclass
class DelayScheduling(Scheduler):
    """Start jobs by arrival on the tightest tier; accept a looser tier only after a wait.

    A job that takes whatever is free now may get GPUs that are far apart and run slowly. If it waits a little, a
    tighter place often comes free. So a job first declines offers beyond its tightest tier, and accepts a rack after W1
    and the whole network after W1 + W2; other jobs may use the declined GPUs meanwhile.

    Parameters
    ----------
    waits : W1 and W2: the wait for a machine before the job accepts a rack, then the further wait before it accepts any
        GPUs. In seconds, or in offers (D of the paper) if ``clock`` is "offers". Default 3, 3, Spark's default
    clock : what a wait counts. "declining" (default) = seconds in which enough GPUs are free and the job declines them
        (Zaharia et al.); "waiting" = all seconds since its arrival (Spark: ``spark.locality.wait``); "offers" = the
        number of times that GPUs came free and the job was offered enough of them: it accepts the W1-th offer within a
        rack, the (W1 + W2)-th anywhere

    Notes
    -----
    The paper schedules small tasks of large jobs; here the unit is the gang, which is placed once and as a whole.
    "Local" means the tightest tier that can hold the gang on the empty cluster. A gang larger than a machine therefore
    begins at the rack and waits only W2, just as Spark leaves out levels without tasks. Fair sharing serves the job
    with the fewest running tasks first; a waiting gang runs none, so the order is by arrival. The paper's skip count
    accepts the offer after the D-th. Here a job accepts the D-th, because declined GPUs stay free and would be offered
    again at once. Nothing is preempted. Waits end at their exact times, not at heartbeats, unless the scenario plays in
    rounds. Waits of seconds suit short tasks, not gangs that keep their placement for hours. O(waiting) at a decision
    point.

    References
    ----------
    M. Zaharia et al., "Delay scheduling: a simple technique for achieving locality and fairness in cluster scheduling",
    EuroSys 2010, algorithms 1 and 2, section 4.1.
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

        # Entry [own, tier] = sum of the waits from a job's tightest tier ``own`` to ``tier``.
        self._limits = np.array(
            [[sum(self.waits[own:tier]) for tier in range(NETWORK + 1)] for own in range(NETWORK + 1)]
        )

    @property
    def name(self) -> str:
        """Name in tables."""
        return "delay-zaharia"

    def reset(self, view: ClusterView) -> None:
        """Set all waits to 0."""
        self._waited = np.zeros(64)  # [s] or [offers], by job row
        self._declining = np.empty(0, np.int32)  # rows that have declined GPUs since the last decision point
        self._asked_s = 0.0
        self._free_before = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Update the waits, start jobs that find a place on an accepted tier, and wake at the next end of a wait."""
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
        in_turn = free - np.cumsum(np.where(started, gangs, 0))  # GPUs that earlier starts left to each job
        if self.clock == "offers" and free > self._free_before:
            self._waited[waiting[~started & (gangs > in_turn)]] -= 1  # too few GPUs were left: this was no offer
        self._asked_s, self._free_before = view.now_s, view.free_gpus
        self._declining = waiting[~started & (gangs <= view.free_gpus)]
        if self.clock != "offers":
            _, left = self._reach(view, self._declining)
            wake_s = view.now_s + float(left.min(initial=math.inf))
            # an end within the resolution of the clock must still wake the scheduler at a later time
            yield Wait(max(wake_s, math.nextafter(view.now_s, math.inf)))

    def _reach(self, view: ClusterView, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the loosest tier that each of the jobs ``rows`` accepts now, and its remaining wait for the next."""
        tightest = view.cluster.tightest_tier(view.gpus[rows])
        tightest = np.where(tightest > NETWORK, MACHINE, tightest)  # there is no wait for a tier below the machine
        limits = self._limits[tightest]
        waited = self._waited[rows][:, None]
        over = limits <= waited + _TOLERANCE_S
        left = np.where(over, math.inf, limits - waited).min(axis=1, initial=math.inf)
        return over.sum(axis=1) - 1, left


def skips_for_locality(machines: float, replicas: float, locality: float, tasks: float) -> float:
    """Give D: how many offers each job must decline so that a share ``locality`` of its tasks is local.

    Parameters
    ----------
    machines, replicas : each task can be local on ``replicas`` of so many machines
    locality : wanted share of local tasks, 0 <= locality < 1
    tasks : tasks of a job; it wants fewer and fewer machines as they are launched

    References
    ----------
    M. Zaharia et al., EuroSys 2010, section 4.1.
    """
    rest = (1.0 - locality) * tasks
    return machines / replicas * log((1.0 + rest) / rest)


def chance_of_no_local_offer(local: float, offers: float) -> float:
    """Probability that none of ``offers`` independent offers is local, if each is local with probability ``local``."""
    return power(1.0 - local, offers)
