"""The observation arrays about tenants."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import SHARE, TIME, Column, indices
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array

Array = np.ndarray

TENANTS_COLUMNS: Final = (
    Column("tenant", "number of the tenant, from 1 / Q; an empty row is 0", SHARE),
    Column("quota", "guaranteed GPUs / GPUs of the cluster", "at most 1"),
    Column("deserved", "its guaranteed share of the cluster: quota / sum of quotas, or weight level by level", SHARE),
    Column("used", "GPUs that its jobs hold / GPUs of the cluster", "at most 1"),
    Column(
        "room",
        "GPUs that its jobs may take under its limit and those of the tenants above it / GPUs of the cluster",
        "at most 1",
    ),
    Column("waiting", "its waiting jobs", "x / (32 + x)"),
    Column("queued_demand", "GPUs demanded by its waiting jobs", "x / (GPUs of the cluster + x)"),
    Column("waited", "the longest time since one of its waiting jobs last held GPUs, or arrived", TIME),
)
TENANTS: Final = indices(TENANTS_COLUMNS)
TENANTED: Final = Group(
    "### Where tenants are shown",
    """
    With `tenant_window` > 0. Parents come before their children; the root has no row. What a tenant above others
    holds and asks for is that of all tenants below it.
    """,
    "tenants",
)


@helper
def write_tenant(sim: Run, env: EnvArrays, leaf: int, out: Array, at: int) -> None:
    """Describe in row ``at`` a row of the tree, which :func:`tenant_limits.count_tenants` has brought up to date."""
    gpus = sim.world["gpus"]
    tenant = env.tenants[leaf]
    out[at, TENANTS.tenant] = leaf / (len(env.tenants) - 1.0)
    out[at, TENANTS.quota] = tenant["quota"]
    out[at, TENANTS.deserved] = tenant["deserved"]
    out[at, TENANTS.used] = min(tenant["held"] / gpus, 1.0)
    out[at, TENANTS.room] = min(tenant["room"] / gpus, 1.0)
    out[at, TENANTS.waiting] = tenant["waiting"] / (32.0 + tenant["waiting"])
    out[at, TENANTS.queued_demand] = tenant["demand"] / (gpus + tenant["demand"])
    out[at, TENANTS.waited] = tenant["shown_wait"]


@observation_array(
    "tenants", TENANTS_COLUMNS, "tenants", TENANTED,
    "one row per tenant (`tenant_window` = Q), in the order of the tree",
)  # fmt: skip
@kernel
def write_tenants(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all tenants; row q is row q + 1 of the tree."""
    for q in range(len(env.tenants) - 1):
        if env.tenants[q + 1]["parent"] < 0:  # the tree has fewer tenants
            break
        write_tenant(sim, env, q + 1, out.values, q)


@observation_array("running_tenants", TENANTS_COLUMNS, "running", TENANTED, "one row per running slot")
@observation_array(
    "queue_tenants", TENANTS_COLUMNS, "queue", TENANTED,
    "one row per queue slot: the row of its job's tenant in `tenants`",
)  # fmt: skip
@kernel
def write_tenants_of_jobs(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all slots: those of the tenants of their jobs; the row of an empty slot is 0."""
    for i in range(len(out.slots)):
        if out.slots[i] >= 0:
            write_tenant(sim, env, env.leaf[out.slots[i]], out.values, i)
        else:
            clear_row(out.values, i)
