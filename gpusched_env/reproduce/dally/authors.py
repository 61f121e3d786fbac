"""The second part: the authors' simulator, its rivals and its links, as the scenario ``dally-authors-v1`` has them."""

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
    """One set of conditions in the authors' simulator.

    Parameters
    ----------
    network : links of the dimensions, as the profile rules name them; which ones the paper used is unknown
    arrivals : "poisson" as in the files with one process over a week, or "batch" = all at time 0
    jobs : of an episode; None = the usual number. No label: a quick run has fewer of them and the same tables
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
        """Whether its links between racks are those of an earlier revision, 10 GB/s and 50 ms."""
        return self.network.startswith("congested")

    def __str__(self) -> str:
        """Heading."""
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
# The learned timers were trained in the suite's scenarios, so they have no place here.
AUTHORS_POLICIES: Final = {
    name: Policy(policy.heading, add_parameters(policy.spec, PRESET))
    for name, policy in VARIANTS.items()
    if name != "learned"
} | {
    "authors-tiresias": Policy("Tiresias of that simulator", add_parameters("tiresias-dally", PRESET)),
    "authors-gandiva": Policy("Gandiva of that simulator", add_parameters("gandiva-dally", PRESET)),
}
