"""Columns of the observation arrays for environments that show tenants."""

from __future__ import annotations

from typing import Final

from gpusched_env.envs.observation.columns import SHARE, TIME, Column

TENANTS: Final = (
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
TENANT_TABLES: Final = {"tenants": TENANTS, "queue_tenants": TENANTS, "running_tenants": TENANTS}
