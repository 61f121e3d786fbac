"""The second part of the card: the authors' simulator, its rivals and its links, in scenario ``dally-authors-v1``."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.reproduce.dally.policies import VARIANTS, Policy, add_parameters
from gpusched_env.scenarios import Scenario, get_scenario

PRESET: Final = {"preset": "authors"}


@dataclass(frozen=True)
class AuthorsCell:
    """One cell of the comparison: conditions in the authors' simulator.

    Parameters
    ----------
    network : links of each dimension, under the name of the profile rule; which links the paper used is unknown
    arrivals : "poisson" = one process over a week, as in the authors' files; "batch" = all jobs at time 0
    jobs : number of jobs; None = the usual number. Not a label: quick runs have fewer jobs and the same tables
    """

    network: str
    arrivals: str
    jobs: int | None = None

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of its runs."""
        return {"scenario": "authors", "network": self.network, "arrivals": self.arrivals}

    @property
    def congested(self) -> bool:
        """Whether the links between racks are those of an earlier revision, 10 GB/s and 50 ms."""
        return self.network.startswith("congested")

    def __str__(self) -> str:
        """Heading in tables."""
        return f"authors, {self.network}, {self.arrivals}"

    def problem(self) -> Scenario:
        """Build the scenario."""
        scenario = get_scenario("dally-authors-v1")
        rule = "dally" if self.network == "nvswitch" else f"dally-{self.network}"
        parameters = {**scenario.workload.parameters, **({"mean_gap_s": 0.0} if self.arrivals == "batch" else {})}
        jobs = self.jobs or scenario.workload.jobs
        workload = dataclasses.replace(scenario.workload, jobs=jobs, profiles=rule, parameters=parameters)
        return scenario.replace(workload=workload, name=f"{scenario.name}, {self.network}, {self.arrivals}")


AUTHORS_CELLS: Final = tuple(
    AuthorsCell(network, arrivals)
    for network, arrivals in itertools.product(("nvswitch", "congested-50"), ("batch", "poisson"))
)
# Without the learned timers, which were trained in the suite's scenarios.
AUTHORS_POLICIES: Final = {
    name: Policy(policy.heading, add_parameters(policy.spec, PRESET))
    for name, policy in VARIANTS.items()
    if name != "learned"
} | {
    "authors-tiresias": Policy("Tiresias of that simulator", add_parameters("tiresias-dally", PRESET)),
    "authors-gandiva": Policy("Gandiva of that simulator", add_parameters("gandiva-dally", PRESET)),
}
