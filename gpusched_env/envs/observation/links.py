"""The observation arrays ``links`` and ``flows`` where the network is a topology."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.settling import alone_s
from gpusched_env.core.queries import link_load
from gpusched_env.core.state import CHECKPOINTING, Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import COUNT, SHARE, Column, indices
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array

_LINK_TIER: Final = "machine bus 1/5, machine port 2/5, rack link 3/5, pod link 4/5, link above the pods 1"
LINKS_COLUMNS: Final = (
    Column("load", "what the gangs send over the link in one direction / its capacity, at most 1", SHARE),
    Column("flows", "gangs whose rings cross the link", COUNT),
    Column("bound", "gangs whose bottleneck is this link: other gangs slow them down on it", COUNT),
    Column("capacity", "capacity of the link now / capacity of the largest link", SHARE),
    Column("tier", _LINK_TIER, SHARE),
)
LINKS: Final = indices(LINKS_COLUMNS)
FLOWS_COLUMNS: Final = (
    Column("slowdown", "1 - iteration time without the other gangs / iteration time with them", SHARE),
    Column("communication", "fraction of an iteration that is not compute", SHARE),
    Column("machines", "1 - 1 / machines that the gang spans", SHARE),
    Column("bottleneck_load", "load of the bottleneck: the link where others slow the gang down; 0 if none", SHARE),
    Column("bottleneck_flows", "gangs whose rings cross the bottleneck; 0 if none", COUNT),
    Column("bottleneck_tier", f"tier of the bottleneck: 0 if none, {_LINK_TIER}", SHARE),
)
FLOWS: Final = indices(FLOWS_COLUMNS)
TOPOLOGY: Final = Group(
    "### Where the network is a topology",
    """
    `links` then has the columns below, and the observation has `flows` as well. Links are in the order of
    `instance.links`, which holds their names. Rates are those of the gangs that hold GPUs after the latest
    decision. The contention models `none`, `flat`, `table` and `budget` have no link rates; under them, a load
    is what the gangs would send if each ran alone.
    """,
    "topology",
)


@observation_array("links", LINKS_COLUMNS, "links", TOPOLOGY, "one row per link")
@kernel
def write_links(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all links; those beyond the links of the instance stay 0."""
    shown = out.values
    for number in range(len(shown)):
        share = env.shown_links[number]["capacity"]
        if share == 0.0:
            break
        link = sim.links[number]
        bound = 0
        use = link["first_use"]
        while use >= 0:
            if sim.replicas[sim.uses[use]["replica"]]["bottleneck"] == number:
                bound += 1
            use = sim.uses[use]["next_of_link"]
        shown[number, LINKS.load] = min(link_load(sim, number) / link["capacity"], 1.0)
        shown[number, LINKS.flows] = link["flows"] / (1.0 + link["flows"])
        shown[number, LINKS.bound] = bound / (1.0 + bound)
        if link["capacity"] != link["built_Bps"]:
            share *= link["capacity"] / link["built_Bps"]
        shown[number, LINKS.capacity] = share
        shown[number, LINKS.tier] = env.shown_links[number]["tier"]


@observation_array("flows", FLOWS_COLUMNS, "running", TOPOLOGY, "one row per running slot, as in `running`")
@kernel
def write_flows(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all running slots; a gang that is being checkpointed sends nothing."""
    shown = out.values
    for v in range(len(shown)):
        clear_row(shown, v)
        if env.victims[v] < 0:
            continue
        number = sim.jobs[env.victims[v]]["replica"]
        r = sim.replicas[number]
        shown[v, FLOWS.machines] = 1.0 - 1.0 / r["machines"]
        if r["phase"] == CHECKPOINTING:
            continue
        shown[v, FLOWS.slowdown] = max(1.0 - alone_s(sim, number) / r["settled_s"], 0.0)
        shown[v, FLOWS.communication] = max(1.0 - r["compute_s"] / r["settled_s"], 0.0)
        link = r["bottleneck"]
        if link >= 0:
            flows = sim.links[link]["flows"]
            shown[v, FLOWS.bottleneck_load] = min(link_load(sim, link) / sim.links[link]["capacity"], 1.0)
            shown[v, FLOWS.bottleneck_flows] = flows / (1.0 + flows)
            shown[v, FLOWS.bottleneck_tier] = env.shown_links[link]["tier"]
