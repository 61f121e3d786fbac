"""Least attained service: no run times needed, preemptive, in rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpusched_env.baselines.listed.keys import ATTAINED
from gpusched_env.baselines.listed.run import ListedRun, ListRules, listed_run
from gpusched_env.errors import SchedulerError
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Simulation, Wait


@dataclass
class LeastAttainedService(Scheduler):
    """Every ``round_s``, let the jobs that have run least hold the GPUs.

    Parameters
    ----------
    two_dimensional : attained service is gang size x productive seconds (2D-LAS), else productive seconds
    round_s : quantum [s]; rounds lie at its multiples
    placement : placement rule of all jobs

    Notes
    -----
    Between rounds free GPUs are filled in the same order, without preemption. Ties by arrival, then id, running or
    not. Continuous LAS would time-share equal jobs for ever: results without the quantum are not comparable.
    O(n log n) a decision point.

    References
    ----------
    M. Nuyens, A. Wierman, "The foreground-background queue: a survey", Performance Evaluation 65, 2008;
    J. Gu et al., "Tiresias", NSDI 2019 (2D-LAS).
    """

    two_dimensional: bool = False
    round_s: float = 60.0
    placement: str = "pack"

    def __post_init__(self) -> None:
        """Check the quantum."""
        if not (self.round_s > 0 and math.isfinite(self.round_s)):
            raise SchedulerError(f"las: round_s is {self.round_s}: it must be a finite number of seconds > 0")

    @property
    def name(self) -> str:
        """Name: las or las-2d."""
        return "las-2d" if self.two_dimensional else "las"

    def player(self, simulation: Simulation) -> ListedRun | None:
        """Give the compiled loop."""
        if type(self) is not LeastAttainedService:
            return None
        rules = ListRules(ATTAINED, self.placement, by_gpus=self.two_dimensional, round_s=self.round_s)
        return listed_run(self, simulation, rules)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Re-sort at a round; only fill free GPUs otherwise."""
        waiting = view.waiting
        if not len(waiting):
            return []
        now = view.now_s
        rounds = max(math.floor(now / self.round_s) - 1, 0)
        while (rounds + 1) * self.round_s <= now:  # a division may round either way
            rounds += 1
        at_round = rounds * self.round_s == now or view.semantics.round_s > 0
        rows = np.sort(np.concatenate([view.running, waiting])) if at_round else waiting
        attained = view.attained_gpu_s(rows) if self.two_dimensional else view.service_s(rows)
        order = rows[np.argsort(attained, kind="stable")]
        plan = view.preemptive_schedule if at_round else view.list_schedule
        return [*plan(order, self.placement), Wait((rounds + 1) * self.round_s)]
