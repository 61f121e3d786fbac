"""Kernels that write the observation arrays ``nodes`` and ``cluster``."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays


@kernel
def write_nodes(sim: Run, env: EnvArrays) -> None:
    """Write the rows of columns.NODES whose free GPUs, or those of their rack, have changed."""
    for n in range(sim.world["nodes"]):
        before = env.seen_free[n]
        now = sim.free[n]
        if now != before:
            gpus = sim.nodes[n]["gpus"]
            if before == gpus:
                env.seen["machines"] -= 1
                env.seen["gpus"] -= gpus
            if now == gpus:
                env.seen["machines"] += 1
                env.seen["gpus"] += gpus
            env.seen_free[n] = now
            env.out_nodes[n, 0] = now / gpus
    first_rack = sim.world["nodes"]
    for r in range(sim.world["racks"]):
        rack_free = sim.free[first_rack + r]
        if rack_free != env.seen_free[first_rack + r]:
            env.seen_free[first_rack + r] = rack_free
            rack = sim.racks[r]
            for n in range(rack["first_node"], rack["first_node"] + rack["nodes"]):
                env.out_nodes[n, 2] = rack_free / rack["gpus"]


@kernel
def write_cluster(sim: Run, env: EnvArrays) -> None:
    """Write columns.CLUSTER; call it after :func:`write_nodes`."""
    w = sim.world
    out = env.out_cluster
    largest = 0
    for n in range(w["nodes"]):
        largest = max(largest, sim.free[n])
    beyond = max(w["waiting"] - len(env.queue), 0)
    supply = w["free_gpus"]
    out[0] = supply / w["gpus"]
    out[1] = env.seen["machines"] / w["nodes"]
    out[2] = largest / w["node_gpus"]
    out[3] = 1.0 - env.seen["gpus"] / supply if supply > 0 else 0.0
    out[4] = w["waiting"] / (32.0 + w["waiting"])
    out[5] = beyond / (32.0 + beyond)
    out[6] = w["waiting_gpus"] / (w["gpus"] + w["waiting_gpus"])
    out[7] = w["running"] / (w["gpus"] * w["gpu_jobs"])
    out[8] = w["entered"] / w["jobs"]
    out[9] = w["finished"] / w["jobs"]
    out[10] = w["checkpointing_gpus"] / (w["gpus"] * w["gpu_jobs"])
