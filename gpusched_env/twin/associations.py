"""Accounts, users, their shares and their limits, from text that ``sacctmgr`` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError, TraceError
from gpusched_env.problem.tenants import ROOT, Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.twin.tables import most_gpus, most_jobs, table_rows

COMMAND: Final = (
    "sacctmgr --parsable2 list associations "
    "format=Cluster,Account,User,ParentName,Partition,Share,GrpTRES,GrpJobs,MaxJobs"
)
TOP: Final = "root"  # Slurm's name of the top account
LEAST_SHARE: Final = 1e-6  # replaces a share of 0, because weights are above 0
PARENT: Final = "parent"  # in Slurm, a user with this share has the factor of the account; here, the share is 1


def read_associations(path: str | Path) -> Tenants:
    """Read accounts and users: parents, shares, and the GPUs and jobs that they may have at once.

    These are GrpTRES and GrpJobs of an account or a user, and MaxJobs of a user, its own or else that of the nearest
    account that has one. An account is a tenant of its name, and a user is a leaf ``account/user``. Associations of a
    user with particular partitions are left out if there is another one, and of several the first counts.
    """
    tree: dict[str, Tenant] = {}
    each: dict[str, int | None] = {}  # MaxJobs of each tenant
    clusters: set[str] = set()
    rows = list(table_rows(path, ("account", "user", "parentname", "share"), COMMAND))
    rows.sort(key=lambda row: bool(row[1].get("partition")))
    for place, row in rows:
        clusters.add(row.get("cluster", ""))
        if len(clusters) > 1:
            raise TraceError(f"{path}: it has several clusters; keep the rows of one")
        account, user, share = row["account"], row["user"], row["share"]
        name = f"{account}/{user}" if user else account
        above = account if user else row["parentname"]
        if name in each:
            continue
        each[name] = most_jobs(place, "maxjobs", row)
        if name == TOP:
            continue
        weight = 1.0 if share in ("", PARENT) else place.amount("Share", share, "shares")
        above = ROOT if above in ("", TOP) else above
        most, jobs = most_gpus(place, "grptres", row), most_jobs(place, "grpjobs", row)
        try:
            tree[name] = Tenant(name, above, max(weight, LEAST_SHARE), most=most, jobs=jobs)
        except ScenarioError as error:
            place.refuse("Account", name, f"{error}; correct or remove the row")
    try:
        tenants = Tenants(tree=tuple(tree.values()))
        return dataclasses.replace(tenants, tree=tuple(_with_own_jobs(tenant, tree, each) for tenant in tenants.tree))
    except ScenarioError as error:
        raise TraceError(f"{path}: {error}") from error


def _with_own_jobs(tenant: Tenant, tree: Mapping[str, Tenant], each: Mapping[str, int | None]) -> Tenant:
    """Return a user with the smaller of its GrpJobs and of MaxJobs, its own or else of the nearest account above."""
    if "/" not in tenant.name:
        return tenant
    most, at = each[tenant.name], tenant.parent
    while most is None and at != ROOT:
        most, at = each.get(at), tree[at].parent
    limits = [value for value in (tenant.jobs, each.get(TOP) if most is None else most) if value is not None]
    return dataclasses.replace(tenant, jobs=min(limits)) if limits else tenant


def with_room(tenants: Tenants, leaf: np.ndarray, workload: Workload) -> tuple[Tenants, tuple[str, ...]]:
    """Raise limits below the largest job that ran, as limits may have changed; return the names of these tenants."""
    parent = {tenant.name: tenant.parent for tenant in tenants.tree}
    largest: dict[str, int] = {}
    for name in np.unique(leaf).tolist():
        gpus, at = int(workload.jobs["gpus"][leaf == name].max()), name
        while at in parent:
            largest[at] = max(largest.get(at, 0), gpus)
            at = parent[at]
    raised = tuple(
        tenant.name for tenant in tenants.tree if tenant.most is not None and tenant.most < largest.get(tenant.name, 0)
    )
    tree = tuple(
        dataclasses.replace(tenant, most=largest[tenant.name]) if tenant.name in raised else tenant
        for tenant in tenants.tree
    )
    return dataclasses.replace(tenants, tree=tree), raised
