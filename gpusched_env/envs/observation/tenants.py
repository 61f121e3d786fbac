"""Kernels that write the observation arrays about tenants."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.time_scale import scaled_time

Array = np.ndarray


@helper
def copy_tenants(env: EnvArrays, slots: Array, out: Array) -> None:
    """Copy to the row of each slot that of its job's tenant; the row of an empty slot is 0."""
    for i in range(len(slots)):
        row = slots[i]
        for c in range(out.shape[1]):
            out[i, c] = env.out_tenants[env.leaf[row] - 1, c] if row >= 0 else 0.0


@kernel(lazy=True)
def write_tenants(sim: Run, env: EnvArrays) -> None:
    """Write all arrays of tenant_columns.TENANT_TABLES; call it after :func:`tenant_limits.count_tenants`.

    Row q of ``tenants`` is row q + 1 of the tree.
    """
    gpus = sim.world["gpus"]
    shown = len(env.tenants) - 1
    for q in range(shown):
        tenant = env.tenants[q + 1]
        if tenant["parent"] < 0:  # the tree has fewer tenants
            break
        env.out_tenants[q, 0] = (q + 1.0) / shown
        env.out_tenants[q, 1] = tenant["quota"]
        env.out_tenants[q, 2] = tenant["deserved"]
        env.out_tenants[q, 3] = min(tenant["held"] / gpus, 1.0)
        env.out_tenants[q, 4] = min(tenant["room"] / gpus, 1.0)
        env.out_tenants[q, 5] = tenant["waiting"] / (32.0 + tenant["waiting"])
        env.out_tenants[q, 6] = tenant["demand"] / (gpus + tenant["demand"])
        env.out_tenants[q, 7] = scaled_time(tenant["waited_s"])
    copy_tenants(env, env.queue, env.out_queue_tenants)
    copy_tenants(env, env.victims, env.out_running_tenants)
