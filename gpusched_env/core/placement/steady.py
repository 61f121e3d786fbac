"""The placement rule "steady": machines that crash often are the last choice."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.pack import pack_within
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.core.placement.taking import fill, rack_place
from gpusched_env.core.state import Run

FLAKY: Final = 3  # estimated rate of a machine / mean rate of the cluster from which it is avoided (choice)


@helper
def is_flaky(sim: Run, node: int, crashes: int) -> bool:
    """Return whether the estimated crash rate of a machine is at least FLAKY times that of the cluster.

    The prior of each rate is a gamma distribution of shape 1 whose mean is the cluster's rate. After n crashes of the
    machine, where c are the mean of all, the posterior mean is (1 + n) / (1 + c) times the prior's: whatever the time.
    """
    nodes = sim.world["nodes"]
    return (1 + sim.nodes[node]["crashes"]) * nodes >= FLAKY * (nodes + crashes)


@placement_rule(
    "steady",
    "as pack, on machines that have not crashed much more often than the mean; on others what must",
    anywhere=True,
)
@kernel(lazy=True)
def place_steady(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    """Place a gang by best fit on steady machines; if they are too few, on all of their GPUs and on others."""
    nodes, crashes, hidden = sim.world["nodes"], 0, 0
    for node in range(nodes):
        crashes += sim.nodes[node]["crashes"]
    for node in range(nodes):
        sim.nodes[node]["gangs"] = 0  # here: the GPUs that are put aside
        if sim.free[node] > 0 and is_flaky(sim, node, crashes):
            sim.nodes[node]["gangs"] = sim.free[node]
            sim.free[rack_place(sim, node)] -= sim.free[node]
            hidden += sim.free[node]
            sim.free[node] = 0
    steady = supply - hidden
    at = pack_within(sim, gang, at, 2) if gang <= steady else fill(sim, 0, nodes, steady, at)
    for node in range(nodes):
        sim.free[node] += sim.nodes[node]["gangs"]
        sim.free[rack_place(sim, node)] += sim.nodes[node]["gangs"]
    return at if gang <= steady else pack_within(sim, gang - steady, at, 2)
