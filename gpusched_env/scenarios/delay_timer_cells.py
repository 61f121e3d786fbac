"""Scenarios in which the right delay timers differ: the network, the load and the sizes of gangs are parameters."""

from __future__ import annotations

from typing import Final

from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.network_sensitive import JOBS, MEAN_DURATION_S, network
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

FREE: Final = "free"  # communication costs nothing
BELOW, ABOVE = "below", "above"
# Racks have 32 GPUs. Most gangs fill neither machines nor racks, so waiting for one rack leaves GPUs idle: a rack holds
# only one gang of 20 GPUs (choice).
GANGS: Final = {
    BELOW: {"4": 0.10, "8": 0.20, "12": 0.30, "20": 0.25, "24": 0.15},
    ABOVE: {"6": 0.20, "8": 0.20, "20": 0.30, "40": 0.20, "48": 0.10},
}
MACHINES: Final = 32
RACK_MACHINES: Final = 4


def build(network: str | float, load: float, gangs: str, jobs: int) -> Scenario:
    """Build a scenario with Poisson arrivals on 256 GPUs in eight racks."""
    parameters = {"mean_duration_s": MEAN_DURATION_S, "demand": GANGS[gangs]}
    return Scenario(
        name="dally-cells",
        description="Gangs below or above a rack, on a network from free to heavily oversubscribed.",
        groups=(NodeGroup(MACHINES, 8, nodes_per_rack=RACK_MACHINES),),
        workload=WorkloadSpec("synthetic:poisson", parameters, jobs=jobs, load=load),
        network=_network(network),
    )


def _network(name: str | float) -> Network:
    return Network("none") if name == FREE else network(float(name), "normal")


_NETWORKS: Final = (FREE, 1, 2, 4, 8, 16, 20)
CELLS: Final = ScenarioFamily(
    "dally-cells-v0",
    build,
    (
        Parameter("network", 4, "oversubscription of the racks' uplinks; free = no cost at all", values=_NETWORKS),
        Parameter("load", 0.9, "offered load: ideal GPU time / GPU time of the cluster", least=0.01, most=10),
        Parameter("gangs", BELOW, "below = up to 24 GPUs; above = up to 48, more than a rack", values=tuple(GANGS)),
        Parameter("jobs", JOBS, "jobs of an episode", least=2, most=1_000_000, whole=True),
    ),
)
