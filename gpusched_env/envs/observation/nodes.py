"""The observation array ``nodes``."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.columns import SHARE, Column, indices
from gpusched_env.envs.observation.registry import ALWAYS, Shown, observation_array

NODES_COLUMNS: Final = (
    Column("free", "free GPUs / GPUs of the node", SHARE),
    Column("size", "GPUs of the node / GPUs of the largest node", SHARE),
    Column("rack_free", "free GPUs of its rack / GPUs of its rack", SHARE),
    Column("rack", "index of its rack / number of racks", SHARE),
)
NODES: Final = indices(NODES_COLUMNS)


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
