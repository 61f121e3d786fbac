"""Cells of the comparison: the suite's scenarios by cost of the top tier, load, size and links; the authors' own."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.scenarios import FAMILIES, Scenario, get_scenario

CONGESTION: Final = 5.0  # factor by which top=congested multiplies the oversubscription in these scenarios


@dataclass(frozen=True)
class Cell:
    """One cell of the comparison: conditions in the suite's scenarios.

    Parameters
    ----------
    scenario : name of a scenario of the family ``dally-...-v1``
    top, oversubscription, load, gpus : parameters of the scenario; load None = the default load
    links : factor on all rates between servers
    """

    scenario: str
    top: str = "normal"
    oversubscription: float = 4.0
    load: float | None = None
    gpus: int = 256
    links: float = 1.0

    def __post_init__(self) -> None:
        """Replace the usual load by None, so that equal conditions compare equal."""
        if self.load == usual_load(self.scenario):
            object.__setattr__(self, "load", None)

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of its runs."""
        return {**dataclasses.asdict(self), "load": self.load or usual_load(self.scenario)}

    @property
    def congested(self) -> bool:
        """Whether the uplinks are congested."""
        return self.top == "congested"

    @property
    def cost(self) -> float:
        """Oversubscription of the uplinks, congestion included."""
        return self.oversubscription * (CONGESTION if self.congested else 1.0)

    def __str__(self) -> str:
        """Heading in tables: what differs from the usual conditions."""
        parts = [self.scenario, "congested" if self.congested else f"{self.oversubscription:g}:1"]
        parts += [f"load {self.load:g}"] if self.load is not None else []
        parts += [f"{self.gpus} GPUs"] if self.gpus != Cell.gpus else []
        return ", ".join(parts)

    def problem(self, jobs: int | None = None) -> Scenario:
        """Build the scenario; ``jobs`` None = the usual number."""
        names = ("gpus", "oversubscription", "top", "load")
        parameters = {name: getattr(self, name) for name in names} | {"jobs": jobs}
        written = ",".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
        scenario = get_scenario(f"dally-{self.scenario}-v1:{written}")
        if self.links == 1.0:
            return scenario
        topology = scenario.network.topology
        assert topology is not None
        topology = dataclasses.replace(topology, nic_GBps=topology.nic_GBps * self.links)
        network = dataclasses.replace(scenario.network, topology=topology)
        return scenario.replace(network=network, name=f"{scenario.name}, links x {self.links:g}")


@dataclass(frozen=True)
class AuthorsCell:
    """One cell of the comparison: conditions in the authors' simulator, ``dally-authors-v1``.

    Parameters
    ----------
    network : links of each dimension, under the name of the profile rule; which links the paper used is unknown.
        "congested-50": the links between racks are those of an earlier revision, 10 GB/s and 50 ms
    arrivals : "poisson" = one process over a week, as in the authors' files; "batch" = all jobs at time 0
    """

    network: str
    arrivals: str

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of its runs."""
        return {"scenario": "authors", "network": self.network, "arrivals": self.arrivals}

    @property
    def congested(self) -> bool:
        """Whether the links between racks are congested."""
        return self.network.startswith("congested")

    def __str__(self) -> str:
        """Heading in tables."""
        return f"authors, {self.network}, {self.arrivals}"

    def problem(self, jobs: int | None = None) -> Scenario:
        """Build the scenario; ``jobs`` None = the usual number."""
        scenario = get_scenario("dally-authors-v1")
        rule = "dally" if self.network == "nvswitch" else f"dally-{self.network}"
        parameters = {**scenario.workload.parameters, **({"mean_gap_s": 0.0} if self.arrivals == "batch" else {})}
        jobs = jobs or scenario.workload.jobs
        workload = dataclasses.replace(scenario.workload, jobs=jobs, profiles=rule, parameters=parameters)
        return scenario.replace(workload=workload, name=f"{scenario.name}, {self.network}, {self.arrivals}")


def usual_load(scenario: str) -> float | None:
    """Return the default load of a scenario; None = it has no load, because all jobs arrive at once."""
    defaults = {parameter.name: parameter.default for parameter in FAMILIES[f"dally-{scenario}-v1"].parameters}
    load = defaults.get("load")
    return None if load is None else float(load)


SCENARIOS: Final = ("batch", "poisson", "trace", "drift")
TOPS: Final = ("normal", "congested")
LOADS: Final = (0.7, 0.9, 1.1)
COSTS: Final = (("normal", 1.0), ("normal", 2.0), ("normal", 4.0), ("normal", 8.0), ("congested", 4.0))


def by_cost(scenario: str) -> list[Cell]:
    """Sweep the cost of the top tier."""
    return [Cell(scenario, *cost) for cost in COSTS]


def by_load(top: str) -> list[Cell]:
    """Sweep the load of the Poisson process."""
    return [Cell("poisson", top, load=load) for load in LOADS]


USUAL: Final = tuple(Cell(scenario, top) for scenario, top in itertools.product(SCENARIOS, TOPS))
LARGE: Final = Cell("poisson", "congested", gpus=512)
# Cells that all policies run; a cell that is in two sweeps is run once.
EVERYONES: Final = tuple(
    dict.fromkeys((*USUAL, LARGE, *by_cost("poisson"), *(c for top in TOPS for c in by_load(top))))
)
# Further cells, which only the variants and Tiresias run.
OTHER_COSTS: Final = tuple(c for scenario in SCENARIOS for c in by_cost(scenario) if c not in EVERYONES)
SUITE: Final = EVERYONES + OTHER_COSTS
AUTHORS_CELLS: Final = tuple(
    itertools.starmap(AuthorsCell, itertools.product(("nvswitch", "congested-50"), ("batch", "poisson")))
)
