"""Twins of clusters with Kueue: their quotas are known, and tell which jobs of a snapshot it does not admit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from gpusched_env.baselines.queues.state import largest_gangs, rows_of
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.problem.tenants import ROOT, Tenants, tree_of
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
    GpuschedError : the quotas are missing, or lack a queue to which jobs belong, or the log is not Kueue's
    """
    if CLUSTER_QUEUE not in workload.attributes:
        raise GpuschedError(
            "--quotas: the log tells no ClusterQueue of a job: give one of Kueue, or leave out --quotas"
        )
    if quotas is None:
        raise GpuschedError(
            f"twin: the log is Kueue's, whose quotas decide who waits: give --quotas quotas.json ({EXPORT})"
        )
    known = _leaves(quotas.tenants)
    names, jobs = np.unique(leaf_names(workload, (CLUSTER_QUEUE,)), return_counts=True)
    for name, count in zip(names.tolist(), jobs.tolist(), strict=True):
        if name not in known:
            what = f"--quotas: {count:,} jobs of the log belong to ClusterQueue {name!r}, which the file lacks"
            raise GpuschedError(f"{what}: export all queues ({EXPORT}), or add it by hand")
    return replace(quotas.tenants, priority="")  # the twin knows the classes


def _leaves(tenants: Tenants) -> set[str]:
    return {one.name for one in tenants.tree} - {one.parent for one in tenants.tree}


def stops(stopped: dict[str, str]) -> tuple[str, ...]:
    """Tell which queues are stopped."""
    names = ", ".join(f"{name} ({policy})" for name, policy in stopped.items())
    told = f"queues are stopped now: {names}. Forecasts start none of their jobs; replays of the log do"
    return (told,) if names else ()


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
            jobs.append(replace(job, queue=twin.local_queues.get(job.queue, job.queue)))
    running, queued = (tuple(job for job in jobs if job.waits is waits) for waits in (False, True))
    past = history.workload
    local, names = (leaf_names(past, columns) for columns in (("namespace", "queue"), (CLUSTER_QUEUE,)))
    queues = np.where(np.isin(local, list(twin.local_queues)), local, names).tolist()
    refused = np.array(list(_refusals(twin, zip(queues, past.jobs["gpus"].tolist(), strict=True))), str)
    if (refused != "").all():
        raise GpuschedError(
            f"--history: Kueue admits no such jobs ({refused[0]}): give a log of Kueue with these queues"
        )
    return (
        replace(snapshot, running=running, queued=queued, held=tuple(held), reasons=reasons),
        replace(history, workload=past.select(np.flatnonzero(refused == ""))),
    )


def with_quota(twin: Twin, name: str, gpus: int) -> Twin:
    """Return the twin in which a queue or cohort, "" = the only one without parent, and those above have more quota."""
    tree = twin.tenants.tree if twin.tenants else ()
    parent = {tenant.name: tenant.parent for tenant in tree}
    tops = [top for top, above in parent.items() if above == ROOT]
    at = tops[0] if not name and len(tops) == 1 else name
    if at not in parent:
        known = unknown_name("queue or cohort", at, parent)
        raise GpuschedError(f"--add-nodes: {known}: quotas decide who may use new machines; name one, as in NAME:4x8")
    grow = set[str]()
    while at != ROOT:
        grow.add(at)
        at = parent[at]
    grown = tuple(replace(one, quota=one.quota + gpus) if one.name in grow else one for one in tree)
    return replace(twin, tenants=replace(twin.tenants or Tenants(), tree=grown))


def _refusals(twin: Twin, jobs: Iterable[tuple[str, int]]) -> Iterable[str]:
    """Yield for each queue and number of GPUs why Kueue admits no such job, in words; "" = it may."""
    tree, _ = tree_of(twin.tenants, np.array([], str))
    largest = largest_gangs(rows_of(tree, twin.gpus), twin.gpus, by_quota=True)
    most, leaves = dict(zip(tree.names, largest.tolist(), strict=True)), _leaves(twin.tenants or Tenants())
    for queue, gpus in jobs:
        name = twin.local_queues.get(queue, queue)
        stopped = [f"stopPolicy {twin.stopped[one]} of {one}" for one in (queue, name) if one in twin.stopped]
        if name not in leaves:
            yield f"no ClusterQueue of {name or 'the job'} in the quotas"
        else:
            yield stopped[0] if stopped else f"above the quota of {name}" if gpus > most[name] else ""
