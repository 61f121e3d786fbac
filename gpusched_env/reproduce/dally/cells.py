"""The cells of the comparison. A cell is a scenario with a cost of the top tier, a load, a size and a rate of links."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.registry import FAMILIES

CONGESTION: Final = 5.0  # factor by which top=congested multiplies the oversubscription in these scenarios


class Conditions(Protocol):
    """The conditions under which runs are compared. An object is hashable, and ``str`` returns a heading."""

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of its runs."""

    @property
    def congested(self) -> bool:
        """Whether the top tier is congested."""

    def problem(self) -> Scenario:
        """Build the scenario."""


@dataclass(frozen=True)
class Cell:
    """One cell of the comparison: conditions in the suite's scenarios.

    Parameters
    ----------
    scenario : name of a scenario of the family ``dally-...-v1``
    top, oversubscription, load, gpus : parameters of the scenario; load None = the default load
    links : factor on all rates between servers
    jobs : number of jobs; None = the usual number. Not a label: quick runs have fewer jobs and the same tables
    """

    scenario: str
    top: str = "normal"
    oversubscription: float = 4.0
    load: float | None = None
    gpus: int = 256
    links: float = 1.0
    jobs: int | None = None

    def __post_init__(self) -> None:
        """Replace the usual load by None, so that equal conditions compare equal."""
        if self.load == usual_load(self.scenario):
            object.__setattr__(self, "load", None)

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of its runs."""
        own = {**dataclasses.asdict(self), "load": self.load or usual_load(self.scenario)}
        del own["jobs"]
        return own

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

    def problem(self) -> Scenario:
        """Build the scenario."""
        names = ("gpus", "oversubscription", "top", "load", "jobs")
        parameters = {name: getattr(self, name) for name in names}
        written = ",".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
        scenario = get_scenario(f"dally-{self.scenario}-v1:{written}")
        if self.links == 1.0:
            return scenario
        topology = scenario.network.topology
        assert topology is not None
        topology = dataclasses.replace(topology, nic_GBps=topology.nic_GBps * self.links)
        network = dataclasses.replace(scenario.network, topology=topology)
        return scenario.replace(network=network, name=f"{scenario.name}, links x {self.links:g}")


def usual_load(scenario: str) -> float | None:
    """Return the default load of a scenario; None = it has no load, because all jobs arrive at once."""
    defaults = {parameter.name: parameter.default for parameter in FAMILIES[f"dally-{scenario}-v1"].parameters}
    load = defaults.get("load")
    return None if load is None else float(load)


SCENARIOS: Final = ("batch", "poisson", "trace", "drift")
TOPS: Final = ("normal", "congested")
COSTS: Final = (("normal", 1.0), ("normal", 2.0), ("normal", 4.0), ("normal", 8.0), ("congested", 4.0))
LOADS: Final = (0.7, 0.9, 1.1)
OVERLOADS: Final = (1.5, 2.0, 3.0)  # only for variants: loads at which jobs queue for longer than the timers last
LINKS: Final = (0.25, 0.5, 2.0, 4.0)


def by_cost(scenario: str) -> list[Cell]:
    """Sweep the cost of the top tier."""
    return [Cell(scenario, *cost) for cost in COSTS]


def by_load(top: str) -> list[Cell]:
    """Sweep the load of the Poisson process."""
    return [Cell("poisson", top, load=load) for load in LOADS]


USUAL: Final = tuple(Cell(scenario, top) for scenario, top in itertools.product(SCENARIOS, TOPS))
LARGE: Final = (Cell("poisson", "congested", gpus=512),)
# Cells that all policies run; a cell that is in two sweeps is run once.
EVERYONES: Final = tuple(
    dict.fromkeys((*USUAL, *LARGE, *by_cost("poisson"), *(c for top in TOPS for c in by_load(top))))
)
# Further cells, which only the policies FEW run.
OTHER_COSTS: Final = tuple(c for scenario in SCENARIOS for c in by_cost(scenario) if c not in EVERYONES)
SUITE: Final = EVERYONES + OTHER_COSTS
