"""The cluster divided among its tenants: each tenant alone on the nodes of its quota."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import Interval, bootstrap_ratio, job_times
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import simulate

WEEK_S: Final = 7 * 86_400.0


def partitions(instance: Instance) -> dict[int, Instance]:
    """Return the problem of each tenant alone: its jobs, on as many nodes as its quota.

    The key is the row of the leaf. Tenants without jobs have no problem. The racks of a partition hold as many nodes as
    those of the first group of the cluster.
    """
    tree, leaf = instance.tenancy
    groups = instance.cluster.groups
    first = groups[0]
    if len(groups) > 1 or instance.topology is not None:
        raise GpuschedError(
            "partitions: a cluster of several node groups or with a topology cannot be divided by quotas; use one "
            "group and a network priced by tiers"
        )
    jobs = instance.workload.jobs["gpus"]
    parts: dict[int, Instance] = {}
    for row in tree.leaves.tolist():
        rows = np.flatnonzero(leaf == row)
        if not len(rows):
            continue
        quota, name = int(tree.quota[row]), tree.names[row]
        nodes, rest = divmod(quota, first.gpus)
        if rest or not nodes:
            raise GpuschedError(
                f"partitions: the quota of {name!r} is {quota} GPUs: give a multiple of {first.gpus}, those of a node"
            )
        if (largest := int(jobs[rows].max())) > quota:
            raise GpuschedError(
                f"partitions: a job of {name!r} has {largest} GPUs, and its quota is {quota}; raise it, or drop such "
                "jobs with --max-gpus"
            )
        rack = None if first.nodes_per_rack is None else min(first.nodes_per_rack, nodes)
        cluster = Cluster((dataclasses.replace(first, count=nodes, nodes_per_rack=rack),))
        parts[row] = Instance(
            cluster, instance.workload.select(rows), instance.network, instance.semantics, instance.sharing
        )
    return parts


def pooling(instances: Sequence[Instance], scheduler: str, seeds: Sequence[int]) -> dict[int, Interval]:
    """Return what each tenant loses or wins if the cluster is pooled: mean JCT pooled / mean JCT on its partition.

    Below 1, the tenant wins. The interval is a percentile bootstrap over the weeks of all seeds in which its jobs
    arrived. The key is the row of the leaf; -1 = all jobs of tenants together.
    """
    pooled: dict[int, list[np.ndarray]] = {}
    alone: dict[int, list[np.ndarray]] = {}
    for instance, seed in zip(instances, seeds, strict=True):
        jct, leaf = _jct(instance, scheduler, seed), instance.tenancy[1]
        week = (instance.workload.jobs["arrival_s"] // WEEK_S).astype(np.int64)
        apart = np.empty(len(jct))
        for row, part in partitions(instance).items():
            apart[leaf == row] = _jct(part, scheduler, seed)
        for row in [-1, *np.unique(leaf).tolist()]:
            rows = np.ones(len(leaf), bool) if row < 0 else leaf == row
            pooled.setdefault(row, []).append(np.bincount(week[rows], jct[rows]))
            alone.setdefault(row, []).append(np.bincount(week[rows], apart[rows]))
    return {row: bootstrap_ratio(np.concatenate(pooled[row]), np.concatenate(alone[row])) for row in sorted(pooled)}


def _jct(instance: Instance, scheduler: str, seed: int) -> np.ndarray:
    """float64 [J] [s]: completion time of each job."""
    log = simulate(instance, make_scheduler(scheduler), seed=seed)
    jct: np.ndarray = job_times(instance, log)["jct_s"]
    if np.isnan(jct).any():
        raise GpuschedError(f"pooling: {np.isnan(jct).sum()} jobs do not finish under {scheduler}; give no time limit")
    return jct
