"""Carry out a new allocation of GPUs to elastic jobs: resize, move, start and preempt gangs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gpusched_env.baselines.gang_plans import counts_of
from gpusched_env.simulator import ClusterView, Decision, Preempt, Resize, Start

Counts = dict[int, np.ndarray]  # job -> int64 [N], number of GPUs of each node


def movable(view: ClusterView) -> np.ndarray:
    """Return the rows of the jobs among which GPUs are divided, ascending: those that wait, or run in no checkpoint."""
    return np.sort(np.concatenate([view.running[~view.checkpointing], view.waiting]))


def supply(view: ClusterView) -> np.ndarray:
    """Return the GPUs of each node that no gang in a checkpoint holds; int64 [N]."""
    counts: np.ndarray = view.cluster.nodes["gpus"].astype(np.int64)
    if (checkpointing := view.checkpointing).any():
        ending = np.isin(view.holders, view.running[checkpointing])
        counts -= np.bincount(view.cluster.node_of_gpu[ending], minlength=len(counts))
    return counts


def held_counts(view: ClusterView) -> Counts:
    """Return the number of GPUs of each node that each running job holds."""
    running = view.running
    return dict(zip(running.tolist(), counts_of(view, running).astype(np.int64), strict=True))


def on_most_free(view: ClusterView, sizes: Mapping[int, int]) -> Counts:
    """Place jobs: those whose size stays keep their GPUs; each other takes the nodes with most free GPUs, in order.

    References
    ----------
    petuum/adaptdl, branch osdi21-artifact, ``simulator/optimus.py`` and ``simulator/tiresias.py``.
    """
    free, held, able = supply(view), held_counts(view), able_nodes(view, list(sizes))
    placed = {job: held[job] for job, size in sizes.items() if job in held and held[job].sum() == size}
    for nodes in placed.values():
        free -= nodes
    for job, size in sizes.items():
        if job in placed or size == 0:
            continue
        room = np.where(able[job], free, 0)
        first = np.argsort(-room, kind="stable")
        nodes = np.zeros(len(free), np.int64)
        nodes[first] = np.clip(size - (np.cumsum(room[first]) - room[first]), 0, room[first])
        if nodes.sum() == size:
            placed[job] = nodes
            free -= nodes
    return placed


def able_nodes(view: ClusterView, jobs: list[int]) -> dict[int, np.ndarray]:
    """Return job -> bool [N], the nodes whose GPU type can run the job."""
    nodes = view.cluster.nodes
    able = view.able_gpus(np.array(jobs, np.int32))
    if able is None:
        return dict.fromkeys(jobs, np.ones(len(nodes), bool))
    return {job: able[i][nodes["first_gpu"]] for i, job in enumerate(jobs)}


def reallocate(view: ClusterView, wanted: Counts, changed: Iterable[int] | None = None) -> Iterable[Decision]:
    """Yield decisions after which each job holds the wanted number of GPUs of each node.

    ``wanted`` : job -> int64 [N]; unlisted running jobs are preempted, gangs in a checkpoint excepted. ``changed`` :
    the listed jobs that may hold other GPUs than wanted, in order; None = all.

    Gangs that must change wait for each other's GPUs. Changes that fit are made first. If none fits, the first gang is
    preempted, and starts again when its GPUs are free; without a checkpoint, this is at the same time. While a gang is
    in a checkpoint, no gang is preempted for its place: the next decision point, when its GPUs are free, goes on.
    """
    held = held_counts(view)
    ending = set(view.running[view.checkpointing].tolist())
    yield from (Preempt(job) for job in held if job not in wanted and job not in ending)
    todo = [
        job
        for job in (wanted if changed is None else changed)
        if job not in ending and not _same(held.get(job), wanted[job])
    ]
    while todo:
        holders, node_of_gpu = view.holders, view.cluster.node_of_gpu
        fitting = next((job for job in todo if _fits(holders, node_of_gpu, job, wanted[job])), None)
        if fitting is None:
            if view.checkpointing.any():
                return
            running = set(view.running[~view.checkpointing].tolist())
            victim = next((job for job in todo if job in running), None)
            if victim is None:
                return
            yield Preempt(victim)
            if view.refusal:
                todo.remove(victim)
            continue
        gpus = _choose(holders, view.cluster.nodes["first_gpu"], fitting, wanted[fitting])
        todo.remove(fitting)
        if (holders == fitting).any():
            yield Resize(fitting, len(gpus), gpus=gpus)
        else:
            yield Start(fitting, gpus=gpus, size=len(gpus))


def _same(held: np.ndarray | None, wanted: np.ndarray) -> bool:
    return held is not None and bool((held == wanted).all())


def _fits(holders: np.ndarray, node_of_gpu: np.ndarray, job: int, wanted: np.ndarray) -> bool:
    usable = (holders == -1) | (holders == job)
    return bool((np.bincount(node_of_gpu[usable], minlength=len(wanted)) >= wanted).all())


def _choose(holders: np.ndarray, first_gpu: np.ndarray, job: int, wanted: np.ndarray) -> tuple[int, ...]:
    """Choose GPUs of the wanted nodes: those that the job holds first, then free ones, each by ascending id."""
    chosen: list[int] = []
    ends = [*first_gpu[1:].tolist(), len(holders)]
    for node in np.flatnonzero(wanted).tolist():
        begin, end = int(first_gpu[node]), ends[node]
        of_node = holders[begin:end].tolist()
        own = [begin + i for i, holder in enumerate(of_node) if holder == job]
        free = [begin + i for i, holder in enumerate(of_node) if holder == -1]
        chosen += (own + free)[: wanted[node]]
    return tuple(chosen)
