"""The observation arrays ``nodes``, ``links`` where the network is priced by tiers, and ``cluster``."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.network.settling import beside_company
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.column import COUNT, SHARE, Column, indices
from gpusched_env.envs.observation.jobs import observed_tier
from gpusched_env.envs.observation.registry import ALWAYS, Shown, clear_row, observation_array
from gpusched_env.problem.cluster import TIERS

_SEATS: Final = "(GPUs of the cluster x jobs that may share one GPU)"
NODES_COLUMNS: Final = (
    Column("free", "free GPUs / GPUs of the node", SHARE),
    Column("size", "GPUs of the node / GPUs of the largest node", SHARE),
    Column("rack_free", "free GPUs of its rack / GPUs of its rack", SHARE),
    Column("rack", "index of its rack / number of racks", SHARE),
)
NODES: Final = indices(NODES_COLUMNS)
CRASHES_COLUMNS: Final = (
    Column("down", "1 if the node is down", SHARE),
    Column("crashes", "crashes of the node so far", "x / (4 + x)"),
)
CRASHES: Final = indices(CRASHES_COLUMNS)
TIER_LINKS_COLUMNS: Final = (
    Column("gpus", f"GPUs held by gangs of this tier / {_SEATS}", SHARE),
    Column("gangs", "gangs whose placement is of this tier", COUNT),
    Column("loss", "mean over these gangs of (1 - ideal iteration time / iteration time), at least 0", SHARE),
)
TIER_LINKS: Final = indices(TIER_LINKS_COLUMNS)
_TIERS: Final = len(TIERS)
CLUSTER_COLUMNS: Final = (
    Column("free", "free GPUs / GPUs of the cluster", SHARE),
    Column("empty_nodes", "entirely free nodes / nodes", SHARE),
    Column("largest_node", "most free GPUs on one node / GPUs of the largest node", SHARE),
    Column("fragmentation", "fraction of the free GPUs that are on partly used nodes", SHARE),
    Column("waiting", "waiting jobs", "x / (32 + x)"),
    Column("beyond_window", "waiting jobs that are in no queue slot", "x / (32 + x)"),
    Column("queued_demand", "GPUs demanded by waiting jobs", "x / (GPUs of the cluster + x)"),
    Column("running", f"gangs that hold GPUs / {_SEATS}", SHARE),
    Column("arrived", "arrived jobs / all jobs", SHARE),
    Column("finished", "finished jobs / all jobs", SHARE),
    Column("checkpointing", f"GPUs held by gangs that are being checkpointed / {_SEATS}", SHARE),
)
CLUSTER: Final = indices(CLUSTER_COLUMNS)


@observation_array("nodes", NODES_COLUMNS, "nodes", ALWAYS, "one row per node")
@kernel
def write_nodes(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows whose free GPUs, or those of their rack, have changed."""
    for n in range(sim.world["nodes"]):
        before = env.seen_free[n]
        now = sim.free[n]
        if now != before:
            gpus = sim.nodes[n]["gpus"]
            if before == UNSEEN:
                out.values[n, NODES.size] = gpus / sim.world["node_gpus"]
                out.values[n, NODES.rack] = sim.nodes[n]["rack"] / sim.world["racks"]
            if before == gpus:
                env.seen["machines"] -= 1
                env.seen["gpus"] -= gpus
            if now == gpus:
                env.seen["machines"] += 1
                env.seen["gpus"] += gpus
            env.seen_free[n] = now
            out.values[n, NODES.free] = now / gpus
    first_rack = sim.world["nodes"]
    for r in range(sim.world["racks"]):
        rack_free = sim.free[first_rack + r]
        if rack_free != env.seen_free[first_rack + r]:
            env.seen_free[first_rack + r] = rack_free
            rack = sim.racks[r]
            for n in range(rack["first_node"], rack["first_node"] + rack["nodes"]):
                out.values[n, NODES.rack_free] = rack_free / rack["gpus"]


@observation_array("crashes", CRASHES_COLUMNS, "nodes", None, "one row per node; 0 where nodes do not fail")
@kernel(lazy=True)
def write_crashes(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write all rows."""
    for n in range(sim.world["nodes"] if sim.world["recovers"] else 0):
        crashes = sim.nodes[n]["crashes"]
        out.values[n, CRASHES.down] = sim.down[n] & 1  # not if only a power cap closes it
        out.values[n, CRASHES.crashes] = crashes / (4.0 + crashes)


@helper
def add_to_tier(sim: Run, env: EnvArrays, number: int) -> None:
    """Add a gang to the sums of its tier: GPUs, gangs, losses."""
    r = sim.replicas[number]
    t = observed_tier(r["tier"])
    ideal_s = env.classes[r["job_class"]]["ideal_iteration_s"]
    env.tier_sums[t, TIER_LINKS.gpus] += r["gpus"]
    env.tier_sums[t, TIER_LINKS.gangs] += 1.0
    env.tier_sums[t, TIER_LINKS.loss] += max(
        1.0 - ideal_s / beside_company(sim, number), 0.0
    )  # copies can be faster than ideal


@observation_array("links", TIER_LINKS_COLUMNS, "tiers", ALWAYS, "one row per tier: machine, rack, network")
@kernel
def write_tiers(sim: Run, env: EnvArrays, out: Shown) -> None:
    """If no time has passed and only one gang has started, only the row of its tier changes."""
    w = sim.world
    sums = env.tier_sums
    came, left = w["starts"] - env.seen["starts"], w["returns"] - env.seen["returns"]
    first, end = 0, _TIERS
    if env.changed["same_time"] and w["sharing"] == 0 and came <= 1 and left == 0:
        end = 0
        if came == 1:
            number = sim.running[w["running"] - 1]
            add_to_tier(sim, env, number)
            first = observed_tier(sim.replicas[number]["tier"])
            end = first + 1
    else:
        for t in range(_TIERS):
            clear_row(sums, t)
        for i in range(w["running"]):
            add_to_tier(sim, env, sim.running[i])
    env.seen["starts"] = w["starts"]
    env.seen["returns"] = w["returns"]
    for t in range(first, end):
        gpus, gangs, loss = sums[t, TIER_LINKS.gpus], sums[t, TIER_LINKS.gangs], sums[t, TIER_LINKS.loss]
        out.values[t, TIER_LINKS.gpus] = gpus / (w["gpus"] * w["gpu_jobs"])
        out.values[t, TIER_LINKS.gangs] = gangs / (1.0 + gangs)
        out.values[t, TIER_LINKS.loss] = loss / gangs if gangs > 0.0 else 0.0


@observation_array("cluster", CLUSTER_COLUMNS, (), ALWAYS)
@kernel
def write_cluster(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Describe the whole cluster; :func:`write_nodes`, which comes before, has counted the free machines."""
    w = sim.world
    shown = out.values
    largest = 0
    for n in range(w["nodes"]):
        largest = max(largest, sim.free[n])
    beyond = max(w["waiting"] - len(env.queue), 0)
    supply = w["free_gpus"]
    shown[0, CLUSTER.free] = supply / w["gpus"]
    shown[0, CLUSTER.empty_nodes] = env.seen["machines"] / w["nodes"]
    shown[0, CLUSTER.largest_node] = largest / w["node_gpus"]
    shown[0, CLUSTER.fragmentation] = 1.0 - env.seen["gpus"] / supply if supply > 0 else 0.0
    shown[0, CLUSTER.waiting] = w["waiting"] / (32.0 + w["waiting"])
    shown[0, CLUSTER.beyond_window] = beyond / (32.0 + beyond)
    shown[0, CLUSTER.queued_demand] = w["waiting_gpus"] / (w["gpus"] + w["waiting_gpus"])
    shown[0, CLUSTER.running] = w["running"] / (w["gpus"] * w["gpu_jobs"])
    shown[0, CLUSTER.arrived] = w["entered"] / w["jobs"]
    shown[0, CLUSTER.finished] = w["finished"] / w["jobs"]
    shown[0, CLUSTER.checkpointing] = w["checkpointing_gpus"] / (w["gpus"] * w["gpu_jobs"])
