"""The quotas of Kueue as a tree of tenants: ClusterQueues are leaves, Cohorts the tenants above them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Final

from gpusched_env.errors import ScenarioError, TraceError
from gpusched_env.problem.tenants import ROOT, Tenant, Tenants
from gpusched_env.traces.kubernetes.objects import (
    GPU_RESOURCE,
    REPAIR,
    Table,
    gpus,
    kubernetes_objects,
    labels,
    quantity,
    table,
    tables,
    text,
)
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

KINDS: Final = ("ClusterQueue", "Cohort")
OTHER: Final = "object of another kind than ClusterQueue and Cohort"
FLAVORS: Final = "queues with quota on several flavors, which are added up: GPU types count alike"
STOPPED: Final = "queues whose stopPolicy holds their jobs; their quota counts all the same"
WEIGHTLESS: Final = "weights of 0, taken as 1e-6"
LEAST: Final = 1e-6  # weight in place of 0, because a tenant has a weight > 0


def read_kueue_tenants(*paths: Path | str, gpu_resource: str = GPU_RESOURCE) -> tuple[Tenants, ReadReport]:
    """Read ClusterQueues and Cohorts as the tree of tenants of the jobs that the format ``kueue`` reads.

    A ClusterQueue has the quota ``nominalQuota``, and borrows and lends at most ``borrowingLimit`` and
    ``lendingLimit``, summed over the flavors; a limit that one flavor lacks is none. The quota of a cohort includes
    those below it. What has no cohort neither borrows nor lends. A cohort that no object describes has no quota of its
    own. A cohort with the name of a ClusterQueue is called ``NAME (cohort)``. Source: the API reference of Kueue.

    Parameters
    ----------
    paths : files of objects in any order; those of other kinds are counted
    gpu_resource : name of the resource that is a GPU

    Raises
    ------
    TraceError : damaged JSON, a malformed field, an object that occurs twice, a cycle of cohorts, or no ClusterQueue
    """
    report = ReadReport("kueue", ", ".join(map(str, paths)), unit="record", things="queues and cohorts")
    queues: dict[str, Tenant] = {}
    cohorts: dict[str, Tenant] = {}
    for path in paths:
        for place, record in kubernetes_objects(Path(path)):
            report.rows += 1
            kind = table(place, record).get("kind")
            if kind not in KINDS:
                report.drop(OTHER, place.number)
                continue
            tenant = _tenant(place, record, gpu_resource, report)
            known = queues if kind == "ClusterQueue" else cohorts
            if tenant.name in known:
                place.refuse("metadata.name", tenant.name, f"this {kind} occurs twice; remove one of the two")
            known[tenant.name] = tenant
            report.kept += 1
    if not queues:
        raise TraceError(f"{report.path}: no ClusterQueue.\n{report.describe()}\nCheck that this is the right file")
    try:
        return Tenants(_tree(queues, cohorts), by="cluster_queue", priority="priority"), report
    except ScenarioError as error:
        raise TraceError(f"{report.path}: {error}; correct the cohorts") from error


def _tenant(place: Place, record: Table, gpu_resource: str, report: ReadReport) -> Tenant:
    """Return a ClusterQueue or Cohort with its own quota; its parent is the cohort that it names."""
    name, _, _ = labels(place, record)
    spec = table(place, record, "spec")
    keys = ("cohort", "cohortName", "parentName", "parent")  # of v1beta1, v1beta2, and Cohorts of v1beta1 and v1alpha1
    parent = next((found for key in keys if (found := text(place, spec, key))), ROOT)
    if text(place, spec, "stopPolicy") in ("Hold", "HoldAndDrain"):
        report.note(STOPPED, place.number)
    quotas: dict[str, list[int | None]] = {"nominalQuota": [], "borrowingLimit": [], "lendingLimit": []}
    for group in tables(place, spec, "resourceGroups"):
        for flavor in tables(place, group, "flavors"):
            for resource in tables(place, flavor, "resources"):
                if text(place, resource, "name") == gpu_resource:
                    for key, values in quotas.items():
                        values.append(gpus(place, resource, key))
    if len(quotas["nominalQuota"]) > 1:
        report.note(FLAVORS, place.number)
    return Tenant(
        name,
        parent,
        _weight(place, spec, report),
        sum(value or 0 for value in quotas["nominalQuota"]),
        _limit(quotas["borrowingLimit"]),
        _limit(quotas["lendingLimit"]),
    )


def _limit(values: list[int | None]) -> int | None:
    """Return the sum of the limits; None if a flavor has none."""
    told = [value for value in values if value is not None]
    return sum(told) if values and len(told) == len(values) else None


def _weight(place: Place, spec: Table, report: ReadReport) -> float:
    told = table(place, spec, "fairSharing").get("weight")
    if told is None:
        return 1.0
    weight = quantity(told) if isinstance(told, str | int | float) and not isinstance(told, bool) else math.nan
    if not 0 <= weight < math.inf:
        place.refuse("weight", told, f"expected a weight >= 0; {REPAIR}")
    if not weight:
        report.note(WEIGHTLESS, place.number)
    return weight or LEAST


def _tree(queues: dict[str, Tenant], cohorts: dict[str, Tenant]) -> tuple[Tenant, ...]:
    """Return cohorts with the quotas below them, then queues; what is below the root neither borrows nor lends."""
    parents = [tenant.parent for tenant in (*queues.values(), *cohorts.values()) if tenant.parent != ROOT]
    cohorts = {name: Tenant(name) for name in dict.fromkeys(parents) if name not in cohorts} | cohorts
    Tenants(tuple(dataclasses.replace(tenant, quota=0) for tenant in cohorts.values()))  # refuses a cycle
    names = {name: f"{name} (cohort)" if name in queues else name for name in cohorts} | {ROOT: ROOT}
    quotas = {name: tenant.quota for name, tenant in cohorts.items()}
    for tenant in (*queues.values(), *cohorts.values()):
        above = tenant.parent
        while above != ROOT:
            quotas[above] += tenant.quota
            above = cohorts[above].parent
    found = [dataclasses.replace(one, name=names[name], quota=quotas[name]) for name, one in cohorts.items()]
    found = [
        dataclasses.replace(one, parent=names[one.parent], **({"borrow": 0, "lend": 0} if one.parent == ROOT else {}))  # type: ignore[arg-type]
        for one in (*found, *queues.values())
    ]
    return tuple(found)
