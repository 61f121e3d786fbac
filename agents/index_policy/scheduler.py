"""An index policy as a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusched_env.agents.index_policy.allocation import allocate_index
from gpusched_env.agents.index_policy.decisions import next_index
from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.simulator import CompiledScheduler, Simulation


@dataclass
class IndexPolicy(SearchedRule, CompiledScheduler):
    """Give the GPUs to the jobs with the smallest scores; a small network has written the scores into a table.

    The score of a job depends on its gang size, on the time for which it has made progress, and on the service of jobs
    of the same gang size that were submitted shortly before and after it. No run time is known. A waiting gang accepts
    only the fewest machines at first, later one rack, later any GPUs: its patience grows with what a wider placement
    costs. A gang that has lost much time by a wide placement moves as soon as a tighter one is free.

    Registered as ``learned:general``, the agent of the package; it is also played as ``learned`` without a name.

    Notes
    -----
    Scores are step functions of elapsed times. The policy wakes when the progress of a running job takes its score
    above that of a waiting job, and when a gang loses its patience. What a wait and the progress of similar jobs change
    counts from the next event on. Scores are rounded to six decimals, and ties go to the lower row. A decision point
    takes O(n log n), n = number of jobs in the system.
    """

    policy: ClassVar = next_index
    kind: ClassVar = "index policy"
    load = IndexRule.load

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Make the table of scores for the job classes of a run."""
        return allocate_index(simulation.instance, self.rule)
