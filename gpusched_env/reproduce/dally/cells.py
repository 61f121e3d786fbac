"""Under which conditions everything is played: scenario, cost of the top tier, load, size, rate of the links."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.scenarios import Scenario, get_scenario

CONGESTION: Final = 5.0  # what top=congested means in these scenarios: times the oversubscription


@dataclass(frozen=True)
class Cell:
    """One set of conditions.

    Parameters
    ----------
    scenario : of the family ``dally-...-v0``
    oversubscription, top, load, gpus : its parameters; load None = all jobs at time 0
    links : all rates between servers are so many times the usual ones
    """

    scenario: str
    top: str = "normal"
    oversubscription: float = 4.0
    load: float | None = 0.8
    gpus: int = 256
    links: float = 1.0

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of its runs."""
        return dataclasses.asdict(self)

    @property
    def cost(self) -> float:
        """Oversubscription of the uplinks, congestion included."""
        return self.oversubscription * (CONGESTION if self.top == "congested" else 1.0)

    def __str__(self) -> str:
        """Heading: what differs from the usual."""
        usual = Cell(self.scenario)
        parts = [self.scenario, "congested" if self.top == "congested" else f"{self.oversubscription:g}:1"]
        if self.load not in (None, usual.load):
            parts.append(f"load {self.load:g}")
        if self.gpus != usual.gpus:
            parts.append(f"{self.gpus} GPUs")
        return ", ".join(parts)

    def problem(self) -> Scenario:
        """Build the scenario."""
        parameters = {"gpus": self.gpus, "oversubscription": self.oversubscription, "top": self.top, "load": self.load}
        written = ",".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
        scenario = get_scenario(f"dally-{self.scenario}-v0:{written}")
        if self.links == 1.0:
            return scenario
        topology = dataclasses.replace(
            scenario.network.topology, nic_GBps=scenario.network.topology.nic_GBps * self.links
        )
        network = dataclasses.replace(scenario.network, topology=topology)
        return scenario.replace(network=network, name=f"{scenario.name}, links x {self.links:g}")


def at_once(**parameters: Any) -> Cell:
    """Conditions of the batch, which has no load."""
    return Cell("batch", load=None, **parameters)


SCENARIOS: Final = ("batch", "poisson", "trace", "drift")
TOPS: Final = ("normal", "congested")
COSTS: Final = (("normal", 1.0), ("normal", 2.0), ("normal", 4.0), ("normal", 8.0), ("congested", 4.0))
LOADS: Final = (0.5, 0.65, 0.8, 0.95, 1.1)
OVERLOADS: Final = (1.5, 2.0)  # only for variants of Dally: what is left of waiting where queues outlast the timers
LINKS: Final = (0.25, 0.5, 2.0, 4.0)


def cell(scenario: str, top: str = "normal", oversubscription: float = 4.0) -> Cell:
    """Give a scenario at its usual load."""
    return (at_once if scenario == "batch" else lambda **given: Cell(scenario, **given))(
        top=top, oversubscription=oversubscription
    )


def by_cost(scenario: str) -> list[Cell]:
    """Sweep the cost of the top tier."""
    return [cell(scenario, *cost) for cost in COSTS]


def by_load(top: str) -> list[Cell]:
    """Sweep the load of the Poisson process."""
    return [Cell("poisson", top, load=load) for load in LOADS]


USUAL: Final = tuple(cell(scenario, top) for scenario, top in itertools.product(SCENARIOS, TOPS))
LARGE: Final = tuple(Cell("poisson", top, gpus=512) for top in TOPS)
# Every policy plays each of these; a cell of two sweeps is played once.
_SWEPT: Final = (*(by_cost(scenario) for scenario in SCENARIOS), *(by_load(top) for top in TOPS))
SUITE: Final = tuple(dict.fromkeys((*USUAL, *LARGE, *itertools.chain.from_iterable(_SWEPT))))
