"""A sharing index as a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.sharing_index.rule import SharingRule
from gpusched_env.agents.sharing_index.state import MEMORY_DTYPE, SharingState
from gpusched_env.agents.sharing_index.walk import next_start
from gpusched_env.simulator import CompiledScheduler, Simulation


@dataclass
class SharingIndex(CompiledScheduler):
    """Start jobs by remaining time and size, on free GPUs or beside partners that a score chooses; never preempt.

    The key of a job is ln(remaining time) + gang x ln(gang size); small keys come first. A waiting job starts on free
    GPUs if there are enough. Otherwise it takes the free GPUs, and GPUs of the running gangs beside which its score is
    above 0, best score first, at the largest sub-batch for which there is room. If that is not enough, it waits.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that ``python -m studies.index_search.sharing_index`` has written

    Raises
    ------
    SchedulerError : neither or both are given, or the file is missing or damaged

    Notes
    -----
    Ties: the lower row; among partners the lower GPU. A decision point takes O(waiting x (running + GPUs)).
    """

    policy: ClassVar = next_start
    agent: str = ""
    path: str = ""
    clairvoyant: bool = field(init=False, default=True)
    knows_partitions = False  # it expects that no gang is preempted
    rule: SharingRule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the weights."""
        self.rule = SharingRule.load(file_of("sharing index", self.agent, self.path))

    @classmethod
    def playing(cls, rule: SharingRule) -> SharingIndex:
        """Return a scheduler that plays a rule that is in no file."""
        policy = cls.__new__(cls)
        policy.agent, policy.path, policy.clairvoyant, policy.rule = "", "", True, rule
        return policy

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def begin(self, simulation: Simulation, alone: bool) -> SharingState:
        """Return the arrays of a run."""
        jobs = len(simulation.instance.workload)
        memory = np.zeros((), MEMORY_DTYPE)
        memory["gang"] = self.rule.gang
        return SharingState(
            memory=memory,
            weights=np.array(self.rule.weights),
            order=np.zeros(jobs, np.int32),
            scratch=np.zeros(jobs, np.int32),
            keys=np.zeros(jobs),
            ranks=np.zeros(jobs),
        )
