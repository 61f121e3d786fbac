"""A sharing index as a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gpusched_env.agents.searched import SearchedRule
from gpusched_env.agents.sharing_index.rule import SharingRule
from gpusched_env.agents.sharing_index.state import MEMORY_DTYPE, SharingState
from gpusched_env.agents.sharing_index.walk import next_start
from gpusched_env.simulator import CompiledScheduler, Simulation


@dataclass
class SharingIndex(SearchedRule, CompiledScheduler):
    """Start jobs by remaining time and size, on free GPUs or beside partners that a score chooses; never preempt.

    The key of a job is ln(remaining time) + gang x ln(gang size); small keys come first. A waiting job starts on free
    GPUs if there are enough. Otherwise it takes the free GPUs, and GPUs of the running gangs beside which its score is
    above 0, best score first, at the largest sub-batch for which there is room. If that is not enough, it waits.

    Notes
    -----
    Ties: the lower row; among partners the lower GPU. A decision point takes O(waiting x (running + GPUs)).
    """

    policy: ClassVar = next_start
    kind: ClassVar = "sharing index"
    load = SharingRule.load
    clairvoyant: bool = field(init=False, default=True)
    knows_partitions = False  # it expects that no gang is preempted

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
