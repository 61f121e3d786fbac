"""An index policy as a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gpusched_env.agents.cards import file_of
from gpusched_env.agents.index_policy.allocation import allocate_index
from gpusched_env.agents.index_policy.decisions import next_index
from gpusched_env.agents.index_policy.rule import IndexRule
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.simulator import CompiledScheduler, Simulation


@dataclass
class IndexPolicy(CompiledScheduler):
    """Give the GPUs to the jobs with the smallest scores; a small network has written the scores into a table.

    The score of a job depends on its gang size, on the time for which it has made progress, and on the service of jobs
    of the same gang size that were submitted shortly before and after it. No run time is known. A waiting gang accepts
    only the fewest machines at first, later one rack, later any GPUs: its patience grows with what a wider placement
    costs. A gang that has lost much time by a wide placement moves as soon as a tighter one is free.

    Registered as ``learned:general``, the agent of the package; it is also played as ``learned`` without a name.

    Parameters
    ----------
    agent : name of an agent of the package
    path : instead, a file that ``python -m studies.index_search.index_policy`` has written

    Raises
    ------
    SchedulerError : neither or both are given, or the file is missing or damaged

    Notes
    -----
    Scores are step functions of elapsed times. The policy wakes when the progress of a running job takes its score
    above that of a waiting job, and when a gang loses its patience. What a wait and the progress of similar jobs change
    counts from the next event on. Scores are rounded to six decimals, and ties go to the lower row. A decision point
    takes O(n log n), n = number of jobs in the system.
    """

    policy: ClassVar = next_index
    agent: str = ""
    path: str = ""
    rule: IndexRule = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the weights."""
        self.rule = IndexRule.load(file_of("index policy", self.agent, self.path))

    @classmethod
    def playing(cls, rule: IndexRule) -> IndexPolicy:
        """Return a scheduler that plays a rule that is in no file."""
        policy = cls.__new__(cls)
        policy.agent, policy.path, policy.rule = "", "", rule
        return policy

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"learned:{self.agent}" if self.agent else "learned"

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Make the table of scores for the job classes of a run."""
        return allocate_index(simulation.instance, self.rule)
