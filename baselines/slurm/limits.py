"""Limits on what runs at a time: of accounts and users (GrpTRES, GrpJobs, MaxJobs), and of QOS.

A *counter* counts running jobs, and their GPUs, of a tenant's subtree, a QOS, or a user in a QOS. Jobs of the same
tenant, QOS and user are a *group*: they add to the same counters, and must keep the same limits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from gpusched_env.problem.instance import Instance
from gpusched_env.problem.qos import Qos
from gpusched_env.problem.tenants import UNLIMITED, TenantTree


def limits_of(instance: Instance) -> dict[str, np.ndarray]:
    """Return the arrays of SlurmState about limits; they have no entries if nothing is limited."""
    tree, leaf = instance.tenancy
    table = instance.qos
    listed: tuple[Qos | None, ...] = (None,)
    quality = user = np.zeros(1, np.int64)
    if table is None and (tree.most == UNLIMITED).all() and (tree.jobs == UNLIMITED).all():
        leaf = np.zeros_like(leaf)  # one group, which is found faster
    if table is not None:
        listed, quality = (*table.listed, None), table.of_job
        each = [one is not None and (one.most_per_user or one.jobs_per_user) for one in listed]
        user = np.where(np.array(each, bool)[quality], table.user, 0)
    users = int(user.max(initial=0)) + 1
    groups, of_job = np.unique((leaf.astype(np.int64) * len(listed) + quality) * users + user, return_inverse=True)
    counters: dict[Hashable, int] = {}
    rows: list[tuple[int, int, int]] = []
    first = [0]
    for number in groups.tolist():
        rest, own_user = divmod(number, users)
        own_leaf, own_quality = divmod(rest, len(listed))
        for key, most, jobs in _limits(tree, own_leaf, listed[own_quality], own_user):
            rows.append((counters.setdefault(key, len(counters)), most, jobs))
        first.append(len(rows))
    limits = np.array(rows, np.int64).reshape(-1, 3)
    return {
        "group": of_job.astype(np.int32),
        "first_limit": np.array(first, np.int32),
        "counter": limits[:, 0].astype(np.int32),
        "most": limits[:, 1].copy(),
        "most_jobs": limits[:, 2].copy(),
    }


def _limits(tree: TenantTree, leaf: int, qos: Qos | None, user: int) -> Iterator[tuple[Hashable, int, int]]:
    """Yield a name for each counter of a group, and its limits of GPUs and of jobs for this group.

    A limit of the QOS replaces those of the same kind of the tenants; these still count the job.
    """
    replaces_most = qos is not None and qos.most is not None
    replaces_jobs = qos is not None and qos.jobs is not None
    node = leaf
    while node >= 0:
        most, jobs = int(tree.most[node]), int(tree.jobs[node])
        if most != UNLIMITED or jobs != UNLIMITED:
            of_user = node == leaf and qos is not None and qos.jobs_per_user is not None
            yield node, UNLIMITED if replaces_most else most, UNLIMITED if replaces_jobs or of_user else jobs
        node = int(tree.parent[node])
    if qos is None:
        return
    for key, told in (
        (qos.name, (qos.most, qos.jobs)),
        ((qos.name, user), (qos.most_per_user, qos.jobs_per_user)),
    ):  # fmt: skip
        if told != (None, None):
            most, jobs = (UNLIMITED if value is None else value for value in told)
            yield key, most, jobs
