"""The observation array ``cluster``."""

from __future__ import annotations

from typing import Final

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.columns import SEATS_OF_CLUSTER, SHARE, Column, indices
from gpusched_env.envs.observation.registry import ALWAYS, Shown, observation_array

CLUSTER_COLUMNS: Final = (
    Column("free", "free GPUs / GPUs of the cluster", SHARE),
    Column("empty_nodes", "entirely free nodes / nodes", SHARE),
    Column("largest_node", "most free GPUs on one node / GPUs of the largest node", SHARE),
    Column("fragmentation", "fraction of the free GPUs that are on partly used nodes", SHARE),
    Column("waiting", "waiting jobs", "x / (32 + x)"),
    Column("beyond_window", "waiting jobs that are in no queue slot", "x / (32 + x)"),
    Column("queued_demand", "GPUs demanded by waiting jobs", "x / (GPUs of the cluster + x)"),
    Column("running", f"gangs that hold GPUs / {SEATS_OF_CLUSTER}", SHARE),
    Column("arrived", "arrived jobs / all jobs", SHARE),
    Column("finished", "finished jobs / all jobs", SHARE),
    Column("checkpointing", f"GPUs held by gangs that are being checkpointed / {SEATS_OF_CLUSTER}", SHARE),
)
CLUSTER: Final = indices(CLUSTER_COLUMNS)


@observation_array("cluster", CLUSTER_COLUMNS, (), ALWAYS)
@kernel
def write_cluster(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Describe the whole cluster; :func:`nodes.write_nodes`, which comes before, has counted the free machines."""
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
