"""Least attained service: preemptive, in rounds, without known run times."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.baselines.checking import Range, check
from gpusched_env.baselines.list_policies.keys import ATTAINED
from gpusched_env.baselines.list_policies.scheduler import ListRules, ListScheduler
from gpusched_env.problem.instance import SHORTEST_ROUND_S
from gpusched_env.simulator import Simulation
from gpusched_env.support.units import LATEST_S


@dataclass
class LeastAttainedService(ListScheduler):
    """In each round, give the GPUs to the jobs that have run least so far.

    A job that has run little may well be short. Serving such jobs first gives short jobs small completion times,
    although no run time is known. Long jobs are preempted whenever newer jobs need their GPUs.

    Productive seconds are the time during which a job makes progress.

    * ``las``: attained service = productive seconds.
    * ``las-2d``: attained service = gang size x productive seconds (2D-LAS of the Tiresias paper).

    Parameters
    ----------
    two_dimensional : True = sort by gang size x productive seconds [GPU s]; default False = by productive seconds [s]
    round_s : length of a round [s], default 60; jobs are preempted only at multiples of this time
    placement : placement rule of all jobs; default best fit

    Notes
    -----
    Between two rounds, waiting jobs start on free GPUs in order of attained service, without preemption. In a scenario
    with rounds, every decision point is a round. Ties: earliest arrival, then lowest id; running jobs do not come
    before waiting ones. Without rounds, LAS would preempt jobs of equal service in turn for ever. Results therefore
    depend on ``round_s``, and only results of the same ``round_s`` are comparable. Preemptions that take longer than a
    round might keep all gangs from working for ever. Once rounds have found none at work for 10 times a checkpoint, a
    restore and a round, LAS preempts only when all gangs have worked for ``round_s`` since a restore (our choice).
    A decision point takes O(n log n), n = number of jobs in the system.

    References
    ----------
    M. Nuyens, A. Wierman, "The foreground-background queue: a survey", Performance Evaluation 65, 2008; J. Gu et al.,
    "Tiresias: A GPU cluster manager for distributed deep learning", NSDI 2019, section 3.2 (2D-LAS).
    """

    two_dimensional: bool = False
    round_s: float = 60.0
    placement: str = "pack"

    def __post_init__(self) -> None:
        """Check the length of a round."""
        round_s = Range(SHORTEST_ROUND_S, LATEST_S, f"{SHORTEST_ROUND_S:g} to {LATEST_S:g} seconds")
        check("las", self, round_s=round_s)
        self.needs = ("gangs",) if self.two_dimensional else ()

    @property
    def name(self) -> str:
        """Name in tables: ``las`` or ``las-2d``."""
        return "las-2d" if self.two_dimensional else "las"

    def rules(self, simulation: Simulation) -> ListRules:
        """Return the rules."""
        return ListRules(ATTAINED, self.placement, by_gpus=self.two_dimensional, round_s=self.round_s)
