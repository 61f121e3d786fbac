"""What tenants hold and ask for now, and which starts and resizes their limits forbid."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import TENANT_DTYPE, EnvArrays
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.metrics.tenants import entitlements
from gpusched_env.problem.instance import Instance

NO_TENANT: Final = -1  # parent of the root, and of rows beyond the tree


@kernel(lazy=True)
def count_held(sim: Run, env: EnvArrays) -> None:
    """Count the GPUs that each tenant holds, and those that its jobs may still take.

    A gang counts with its size, also while it is being checkpointed or shares its GPUs.
    """
    tenants = env.tenants
    for q in range(len(tenants)):
        tenants[q]["held"] = 0
    for i in range(sim.world["running"]):
        r = sim.replicas[sim.running[i]]
        tenants[env.leaf[r["job"]]]["held"] += r["gpus"]
    for q in range(len(tenants) - 1, 0, -1):  # parents come first
        if tenants[q]["parent"] >= 0:
            tenants[tenants[q]["parent"]]["held"] += tenants[q]["held"]
    tenants[0]["room"] = tenants[0]["most"] - tenants[0]["held"]
    for q in range(1, len(tenants)):
        if tenants[q]["parent"] >= 0:
            own = tenants[q]["most"] - tenants[q]["held"]
            tenants[q]["room"] = max(min(own, tenants[tenants[q]["parent"]]["room"]), 0)


@kernel(lazy=True)
def count_tenants(sim: Run, env: EnvArrays) -> None:
    """Count what the jobs of each tenant hold and ask for."""
    count_held(sim, env)
    w = sim.world
    tenants = env.tenants
    for q in range(len(tenants)):
        tenants[q]["waiting"] = 0
        tenants[q]["demand"] = 0
        tenants[q]["waited_s"] = 0.0
    for i in range(w["waiting"]):
        row = sim.waiting[w["first_waiting"] + i]
        leaf = env.leaf[row]
        tenants[leaf]["waiting"] += 1
        tenants[leaf]["demand"] += sim.jobs[row]["gpus"]
        tenants[leaf]["waited_s"] = max(tenants[leaf]["waited_s"], w["clock_s"] - sim.jobs[row]["last_stop_s"])
    for q in range(len(tenants) - 1, 0, -1):
        above = tenants[q]["parent"]
        if above >= 0:
            tenants[above]["waiting"] += tenants[q]["waiting"]
            tenants[above]["demand"] += tenants[q]["demand"]
            tenants[above]["waited_s"] = max(tenants[above]["waited_s"], tenants[q]["waited_s"])
        tenants[q]["shown_wait"] = scaled_time(tenants[q]["waited_s"])


@kernel(lazy=True)
def exceeds_limits(sim: Run, env: EnvArrays, row: int) -> bool:
    """Return whether a waiting job, on the size that it requests, would exceed a limit."""
    count_held(sim, env)
    return sim.jobs[row]["gpus"] > env.tenants[env.leaf[row]]["room"]


@kernel(lazy=True)
def forbid_beyond_limits(sim: Run, env: EnvArrays) -> int:
    """Unmark the starts and resizes that would exceed a limit; return how many stay marked.

    Call it after :func:`count_tenants`.
    """
    choices = 0
    sizes = len(env.gang_sizes)
    columns = env.config["options"]
    slot_starts = (len(env.rules) + len(env.partners)) * columns
    for k in range(len(env.queue)):
        row = env.queue[k]
        if row < 0:
            break
        room = env.tenants[env.leaf[row]]["room"]
        for p in range(slot_starts):
            gang = env.gang_sizes[p % columns] if sizes > 0 else sim.jobs[row]["gpus"]
            if gang > room:
                env.mask[k * slot_starts + p] = 0
            choices += env.mask[k * slot_starts + p]
    if sizes == 0:
        return choices
    at = len(env.queue) * slot_starts
    for v in range(len(env.victims)):
        row = env.victims[v]
        room = env.tenants[env.leaf[row]]["room"] if row >= 0 else 0
        for p in range(len(env.rules) * sizes):
            if row >= 0 and env.gang_sizes[p % sizes] - sim.jobs[row]["gpus"] > room:
                env.mask[at + p] = 0
            choices += env.mask[at + p]
        at += len(env.rules) * sizes
    return choices


def tenant_table(instance: Instance) -> np.ndarray:
    """TENANT_DTYPE [tenants, the root first]: the fixed columns of the tree."""
    tree, _ = instance.tenancy
    table = np.zeros(len(tree.names), TENANT_DTYPE)
    table["parent"] = tree.parent
    table["most"] = tree.limits
    table["quota"] = np.minimum(tree.quota / instance.cluster.gpus, 1.0)
    table["deserved"][tree.leaves] = entitlements(instance)
    for row in range(len(table) - 1, 0, -1):
        table["deserved"][tree.parent[row]] += table["deserved"][row]
    table["deserved"] = np.minimum(table["deserved"], 1.0)  # above 1 by rounding
    return table
