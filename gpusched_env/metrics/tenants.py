"""Metrics of each tenant, and of fairness between tenants."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import REFUSE, EventLog
from gpusched_env.metrics.fairness import finish_time_fairness
from gpusched_env.metrics.job_times import job_times
from gpusched_env.metrics.segments import end_of_run, killed_jobs, segments
from gpusched_env.metrics.series import StepFunction
from gpusched_env.metrics.summary import FAIR
from gpusched_env.portable.arrays import mean, total
from gpusched_env.problem.instance import Instance

TENANT_TIMES_DTYPE: Final = np.dtype(
    [
        ("tenant", "<i4"),  # row of the leaf in the tree
        ("jobs", "<i8"),  # number of its jobs
        ("finished", "<i8"),  # number of these that have finished
        ("entitlement", "<f8"),  # its guaranteed share of the cluster: quota / sum of quotas, or weight by level
        ("gpu_seconds", "<f8"),  # [GPU s] GPUs x time held
        ("share", "<f8"),  # gpu_seconds / those of all tenants
        ("mean_queueing_s", "<f8"),  # [s] over all its jobs, unfinished ones included
        ("mean_jct_s", "<f8"),  # [s] over its finished jobs; NaN = none
        ("p99_jct_s", "<f8"),  # [s]
        ("preemptions", "<i8"),
        ("lost_gpu_s", "<f8"),  # [GPU s] held without progress: starts, restores and checkpoints
        ("mean_rho", "<f8"),  # finish-time fairness
        ("max_rho", "<f8"),
        ("fair", "<f8"),  # share of its finished jobs with rho <= 1
        ("borrowed_gpu_s", "<f8"),  # [GPU s] held beyond its quota
        ("unused_gpu_s", "<f8"),  # [GPU s] of its quota not held while it had waiting jobs
        ("violation_gpu_s", "<f8"),  # [GPU s] held beyond its limit: ``most``, or quota + ``borrow``
        ("reclaims", "<i8"),  # times at which its jobs asked for GPUs of its quota that others held
        ("mean_reclaim_s", "<f8"),  # [s] until it then held its quota, or as much of it as it asked for; NaN = none
        ("max_reclaim_s", "<f8"),  # [s]
        ("killed", "<i8"),  # its jobs that were killed at their time limit
        ("lent_gpu_s", "<f8"),  # [GPU s] of its quota that others held beyond theirs
    ]
)
HOUR_S: Final = 3_600.0


def entitlements(instance: Instance) -> np.ndarray:
    """Return the share of the cluster to which each leaf of the tree is entitled; float64 [leaves], sum 1.

    If any leaf has a quota, it is quota / sum of the quotas. Otherwise, each level divides its parent's share by
    weight.
    """
    tree, _ = instance.tenancy
    leaves = tree.leaves
    if (tree.quota[leaves] > 0).any():
        return tree.quota[leaves] / tree.quota[leaves].sum()
    return tree.shares[leaves]


def tenant_times(instance: Instance, log: EventLog) -> np.ndarray:
    """Return the metrics of each leaf of the tree of tenants; TENANT_TIMES_DTYPE [leaves], in the order of the tree."""
    tree, leaf = instance.tenancy
    leaves = tree.leaves
    end_s = end_of_run(instance, log)
    times = job_times(instance, log, end_s)
    rho = finish_time_fairness(instance, log, times["finish_s"])
    table = np.zeros(len(leaves), TENANT_TIMES_DTYPE)
    table["tenant"], table["entitlement"] = leaves, entitlements(instance)
    held_s, held = usage(instance, log)
    waits = np.diff(held_s, append=end_s)
    demand = _demand(instance, log, times, held_s)
    killed, limits = killed_jobs(instance, log), tree.limits
    for i, row in enumerate(leaves.tolist()):
        jobs = leaf == row
        done = jobs & ~np.isnan(times["finish_s"])
        quota = int(tree.quota[row])
        jct = times["jct_s"][done]
        some = bool(done.any())
        line = table[i]
        line["jobs"], line["finished"] = jobs.sum(), done.sum()
        line["gpu_seconds"] = total(times["gpu_seconds"][jobs])
        line["mean_queueing_s"] = mean(times["queueing_s"][jobs]) if jobs.any() else np.nan
        line["mean_jct_s"] = mean(jct) if some else np.nan
        line["p99_jct_s"] = np.quantile(jct, 0.99) if some else np.nan
        line["preemptions"] = times["preemptions"][jobs].sum()
        line["lost_gpu_s"] = total(times["overhead_gpu_s"][jobs])
        line["mean_rho"] = mean(rho[done]) if some else np.nan
        line["max_rho"] = rho[done].max() if some else np.nan
        line["fair"] = (rho[done] <= FAIR).mean() if some else np.nan
        line["borrowed_gpu_s"] = total(np.maximum(held[i] - quota, 0) * waits)
        line["unused_gpu_s"] = total(np.maximum(np.minimum(quota, demand[i]) - held[i], 0) * waits)
        line["violation_gpu_s"] = total(np.maximum(held[i] - limits[row], 0) * waits)
        spells = _spells(held[i] < np.minimum(quota, demand[i]), held_s, end_s)
        line["killed"] = killed[jobs].sum()
        line["reclaims"] = len(spells)
        line["mean_reclaim_s"] = mean(spells) if len(spells) else np.nan
        line["max_reclaim_s"] = spells.max() if len(spells) else np.nan
    quotas = tree.quota[leaves][:, None]
    table["lent_gpu_s"] = [
        total(gpus * waits) for gpus in _lent(np.maximum(quotas - held, 0), np.maximum(held - quotas, 0))
    ]
    table["share"] = table["gpu_seconds"] / max(total(table["gpu_seconds"]), 1e-300)
    return table


def _lent(unused: np.ndarray, borrowed: np.ndarray) -> np.ndarray:
    """Return the GPUs that each leaf lends; float64 [leaves, S].

    What is borrowed at a time is divided among the leaves in proportion to the unused GPUs of their quotas. GPUs beyond
    the sum of all quotas belong to nobody, so more may be borrowed than is lent.
    """
    free = unused.sum(axis=0)
    lent: np.ndarray = unused * (np.minimum(borrowed.sum(axis=0), free) / np.maximum(free, 1))
    return lent


def _spells(short: np.ndarray, at_s: np.ndarray, end_s: float) -> np.ndarray:
    """float64 [spells] [s]: lengths of the longest intervals in which ``short`` holds."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], short, [False]]).astype(np.int8)))
    lengths: np.ndarray = np.diff(np.append(at_s, end_s)[change].reshape(-1, 2), axis=1)[:, 0]
    return lengths[lengths > 0]


def usage(instance: Instance, log: EventLog) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of events [S], and the GPUs that the jobs of each leaf hold from each on; [leaves, S]."""
    tree, leaf = instance.tenancy
    leaves, table = tree.leaves, segments(instance, log)
    of_segment = np.searchsorted(leaves, leaf[table["job"]])
    times, step = np.unique(
        np.concatenate([table["hold_s"], table["free_s"], log.events["time_s"]]), return_inverse=True
    )
    count = len(table)
    held = np.zeros((len(leaves), len(times)), np.int64)
    np.add.at(held, (of_segment, step[:count]), table["gpus"])
    np.add.at(held, (of_segment, step[count : 2 * count]), -table["gpus"].astype(np.int64))
    return times, held.cumsum(axis=1)


def _demand(instance: Instance, log: EventLog, times: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """int64 [leaves, S]: GPUs that the jobs in the system request from each of the times to the next."""
    tree, leaf = instance.tenancy
    leaves, gpus = tree.leaves, instance.workload.jobs["gpus"].astype(np.int64)
    row = np.searchsorted(leaves, leaf)
    demand = np.zeros((len(leaves), len(at_s) + 1), np.int64)
    np.add.at(demand, (row, np.searchsorted(at_s, times["arrival_s"])), gpus)
    left_s = times["finish_s"].copy()
    refusals = log.events[log.events["kind"] == REFUSE]
    left_s[refusals["job"]] = refusals["time_s"]
    gone = ~np.isnan(left_s)
    np.add.at(demand, (row[gone], np.searchsorted(at_s, left_s[gone])), -gpus[gone])
    return demand.cumsum(axis=1)[:, :-1]


def jain_index(table: np.ndarray) -> float:
    """Return Jain's index of use / entitlement over the tenants with jobs: 1 = all alike, 1 / tenants = one has all.

    ``table`` is that of :func:`tenant_times`.

    References
    ----------
    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.
    """
    active = table[(table["jobs"] > 0) & (table["entitlement"] > 0)]
    x = active["gpu_seconds"] / active["entitlement"]
    squares = total(x * x)
    return total(x) ** 2 / (len(x) * squares) if squares > 0 else float("nan")


def tenant_summary(instance: Instance, log: EventLog) -> dict[str, float]:
    """Return a float for each of :data:`~gpusched_env.metrics.TENANT_COLUMNS`, in that order; NaN = undefined."""
    table = tenant_times(instance, log)
    jct_s = table["mean_jct_s"][table["finished"] > 0]
    gpu_s = total(table["gpu_seconds"])
    return {
        "worst_tenant_jct_s": float(jct_s.max()) if len(jct_s) else float("nan"),
        "tenant_distance": max_min_distance(instance, log),
        "tenant_jain": jain_index(table),
        "tenant_violation": total(table["violation_gpu_s"]) / gpu_s if gpu_s > 0 else float("nan"),
    }


def max_min_distance(instance: Instance, log: EventLog) -> float:
    """Return how far use is from the max-min fair shares: sum of the differences / twice the sum of the shares.

    In each hour, the fair shares are the weighted max-min shares of the cluster for the mean demand of each tenant,
    with the entitlements as weights. 0 = use equals them in each hour. Windows of one hour are a choice.
    """
    at_s, held = usage(instance, log)
    end_s = end_of_run(instance, log)
    edges = np.arange(at_s[0], end_s + HOUR_S, HOUR_S)
    demand = _demand(instance, log, job_times(instance, log, end_s), at_s)
    used, wanted = (np.stack([StepFunction(at_s, row).binned(edges) for row in values]) for values in (held, demand))
    weight = entitlements(instance)
    fair = np.stack([max_min_shares(column, weight, instance.cluster.gpus) for column in wanted.T], axis=1)
    return total(np.abs(used - fair).ravel()) / (2.0 * total(fair.ravel()))


def max_min_shares(demand: np.ndarray, weight: np.ndarray, capacity: float) -> np.ndarray:
    """Return the weighted max-min fair shares of a capacity; float64, in the order and unit of ``demand``.

    No share exceeds its demand. What a tenant does not demand goes to the others, by weight (water filling).
    """
    share = np.zeros(len(demand))
    left, hungry = float(capacity), demand > 0
    while hungry.any() and left > 0:
        if not (share_of := total(weight[hungry])) > 0:  # tenants without entitlement share what the others leave
            weight, share_of = np.ones(len(demand)), float(np.count_nonzero(hungry))
        level = left / share_of
        full = hungry & (demand <= weight * level)
        if not full.any():
            share[hungry] = weight[hungry] * level
            break
        share[full] = demand[full]
        left -= total(demand[full])
        hungry &= ~full
    return share
