"""Accounts, users and QOS with their shares and limits, from text that ``sacctmgr`` prints with ``--parsable2``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError, TraceError
from gpusched_env.problem.qos import QOS, Qos, ranks_of
from gpusched_env.problem.tenants import ROOT, Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import span_s, tres_gpus


def table_rows(path: str | Path, needed: Sequence[str], command: str) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield the fields of each row by the names of the header in lower case; ``command`` prints such a file."""
    header: list[str] = []
    with open_trace(Path(path)) as stream:
        for number, raw in enumerate(stream, 1):
            try:
                cells = [cell.strip() for cell in raw.decode("utf-8").rstrip("\r\n").split("|")]
            except UnicodeDecodeError:
                raise TraceError(f"{path}, line {number}: not UTF-8 text; export it again") from None
            if not any(cells):
                continue
            if not header:
                header = [cell.lower() for cell in cells]
                if missing := [name for name in needed if name not in header]:
                    raise TraceError(f"{path}, line {number}: no column {missing[0]}; write the file with {command}")
            elif len(cells) != len(header):
                raise TraceError(
                    f"{path}, line {number}: {len(cells)} fields where the header has {len(header)}: correct or remove "
                    "the row"
                )
            else:
                yield Place(str(path), number), dict(zip(header, cells, strict=True))
    if not header:
        raise TraceError(f"{path}: it is empty; write the file with {command}")


def most_jobs(place: Place, column: str, row: Mapping[str, str]) -> int | None:
    """Return a limit of jobs; None = no limit. So is 0: it admits no job, and the log has some."""
    text = row.get(column, "")
    return None if text in ("", "-1") else place.whole(column, text, "jobs") or None


def most_gpus(place: Place, column: str, row: Mapping[str, str]) -> int | None:
    """Return a limit of GPUs among trackable resources; None = no limit."""
    text = row.get(column, "")
    found = tres_gpus(place, column, text)
    return None if found is None or "gres/gpu" not in text else found.number


ASSOCIATIONS: Final = (
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
    rows = list(table_rows(path, ("account", "user", "parentname", "share"), ASSOCIATIONS))
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


SHOW_QOS: Final = "sacctmgr --parsable2 show qos"
GPUS: Final = {"most": "grptres", "most_per_user": "maxtrespu", "most_per_job": "maxtres"}  # field -> column
JOBS: Final = {"jobs": "grpjobs", "jobs_per_user": "maxjobspu"}


def read_qos(path: str | Path) -> tuple[Qos, ...]:
    """Read the QOS: priorities, limits of GPUs, jobs and time, and which others each may preempt.

    A limit of 0 is left out, because it admits no job. Of the modes of preemption only OFF is kept.
    """
    listed = []
    try:
        for place, row in table_rows(path, ("name", "priority"), SHOW_QOS):
            listed.append(_qos_of(place, row))
        ranks_of(listed)
    except ScenarioError as error:
        raise TraceError(f"{path}: {error}") from error
    return tuple(listed)


def _qos_of(place: Place, row: Mapping[str, str]) -> Qos:
    longest_s = span_s(place, "MaxWall", row.get("maxwall", ""))
    return Qos(
        row["name"],
        place.amount("Priority", row["priority"] or "0", "priority"),
        **{field: most_gpus(place, column, row) or None for field, column in GPUS.items()},
        **{field: most_jobs(place, column, row) for field, column in JOBS.items()},
        max_time_s=longest_s or math.inf,
        preempts=tuple(name for name in row.get("preempt", "").split(",") if name),
        preempt_mode="off" if row.get("preemptmode", "").lower() == "off" else "requeue",
        grace_s=span_s(place, "GraceTime", row.get("gracetime", "")) or 0.0,
    )


def qos_for(listed: Sequence[Qos], workload: Workload) -> tuple[tuple[Qos, ...], tuple[str, ...]]:
    """Return the QOS with those that only the jobs name, and with room for each job; and the names of changed ones.

    Limits below the largest job, or below its time limit, are raised to it, because limits may have changed.
    """
    names, of_job = np.unique(workload.attributes[QOS].astype(str), return_inverse=True)
    own = {name: workload.jobs[of_job == at] for at, name in enumerate(names.tolist())}
    grown, raised = [], []
    for one in (*listed, *(Qos(name) for name in own if name and name not in {one.name for one in listed})):
        changes: dict[str, float] = {}
        if one.name in own:
            gpus, longest_s = int(own[one.name]["gpus"].max()), np.nan_to_num(own[one.name]["estimate_s"]).max()
            changes = {name: gpus for name in GPUS if (getattr(one, name) or gpus) < gpus}
            if one.max_time_s < longest_s:
                changes["max_time_s"] = float(longest_s)
        grown.append(dataclasses.replace(one, **changes))  # type: ignore[arg-type]
        raised += [one.name] if changes else []
    return tuple(grown), tuple(raised)
