"""Twins of clusters with Kueue: their quotas are known, and tell which jobs of a snapshot it does not admit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

import numpy as np

from gpusched_env.baselines.queues.state import largest_gangs, rows_of
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.tenants import Tenants, tree_of
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.kubernetes.quotas import DRAIN, Quotas
from gpusched_env.twin.history import History
from gpusched_env.twin.model import CLUSTER_QUEUE, Twin, leaf_names
from gpusched_env.twin.snapshot import Snapshot

FAIRNESS: Final = {"classic preemption": "kueue", "fair sharing": "kueue:fair=True"}  # kind -> policy
EXPORT: Final = "kubectl get clusterqueues,cohorts,localqueues -A -o json > quotas.json"


def queues_of(quotas: Quotas | None, workload: Workload) -> Tenants:
    """Return the tenants of a log of Kueue.

    Raises
    ------
    GpuschedError : the quotas are missing, or lack a queue to which jobs belong
    """
    if quotas is None:
        raise GpuschedError(
            f"twin: the log is Kueue's, whose quotas decide who waits: give --quotas quotas.json ({EXPORT})"
        )
    known = {tenant.name for tenant in quotas.tenants.tree}
    names, jobs = np.unique(leaf_names(workload, (CLUSTER_QUEUE,)), return_counts=True)
    for name, count in zip(names.tolist(), jobs.tolist(), strict=True):
        if name not in known:
            what = f"--quotas: {count:,} jobs of the log belong to ClusterQueue {name!r}, which the file lacks"
            raise GpuschedError(f"{what}: export all queues ({EXPORT}), or add it by hand")
    return dataclasses.replace(quotas.tenants, priority="")  # the twin knows the classes


def stops(stopped: dict[str, str]) -> tuple[str, ...]:
    """Tell which queues are stopped."""
    names = ", ".join(f"{name} ({policy})" for name, policy in stopped.items())
    return (f"queues are stopped now: {names}. Forecasts start none of their jobs; replays of the log do",) * bool(
        names
    )


def admitted_by(twin: Twin, snapshot: Snapshot, history: History) -> tuple[Snapshot, History]:
    """Return the snapshot with the ClusterQueue of each job, and the history, without what Kueue does not admit now.

    Such jobs are held, with the reason; running ones only if their queue is drained. In the history, jobs that Kueue
    would not admit are left out, so that none like them arrive.
    """
    if not twin.of_kueue:
        return snapshot, history
    jobs, reasons, held = [], dict(snapshot.reasons), list(snapshot.held)
    present = (*snapshot.running, *snapshot.queued)
    for job, reason in zip(present, _refusals(twin, ((job.queue, job.gpus) for job in present)), strict=True):
        if reason and (job.waits or DRAIN in reason):
            reasons[job.id] = reason
            held.append(job.id)
        else:
            jobs.append(dataclasses.replace(job, queue=twin.local_queues.get(job.queue, job.queue)))
    running, queued = (tuple(job for job in jobs if job.waits is waits) for waits in (False, True))
    past = history.workload
    local, names = (leaf_names(past, columns) for columns in (("namespace", "queue"), (CLUSTER_QUEUE,)))
    queues = np.where(np.isin(local, list(twin.local_queues)), local, names).tolist()
    refused = np.array(list(_refusals(twin, zip(queues, past.jobs["gpus"].tolist(), strict=True))), str)
    return (
        dataclasses.replace(snapshot, running=running, queued=queued, held=tuple(held), reasons=reasons),
        dataclasses.replace(history, workload=past.select(np.flatnonzero(refused == ""))),
    )


def _refusals(twin: Twin, jobs: Iterable[tuple[str, int]]) -> Iterable[str]:
    """Yield for each queue and number of GPUs why Kueue admits no such job, in words; "" = it may."""
    tree, _ = tree_of(twin.tenants, np.array([], str))
    largest = largest_gangs(rows_of(tree, twin.gpus), twin.gpus, by_quota=True)
    most = dict(zip(tree.names, largest.tolist(), strict=True))
    for queue, gpus in jobs:
        name = twin.local_queues.get(queue, queue)
        stopped = [f"stopPolicy {twin.stopped[one]} of {one}" for one in (queue, name) if one in twin.stopped]
        if name not in most:
            yield f"no ClusterQueue of {name or 'the job'} in the quotas"
        else:
            yield stopped[0] if stopped else f"above the quota of {name}" if gpus > most[name] else ""
