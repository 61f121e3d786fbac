"""The quotas of Kueue as a tree of tenants: ClusterQueues are leaves, Cohorts the tenants above them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpusched_env.errors import ScenarioError, TraceError
from gpusched_env.problem.tenants import ROOT, Tenant, Tenants
from gpusched_env.traces.kubernetes.objects import (
    AMD,
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
    whole,
)
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

QUEUE, COHORT, LOCAL, FLAVOR = "ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor"
OTHER: Final = "object of another kind than ClusterQueue, Cohort and LocalQueue"
FLAVOR_READ: Final = "ResourceFlavor: quotas tell the flavors"
FLAVORS: Final = "queues with quota on several flavors, which are added up: GPU types count alike"
WEIGHTLESS: Final = "weights of 0, taken as 1e-6"
IGNORED: Final = "queues with {}, which is ignored"
# Fields of the specs that are read, and those that have a note of their own; others share one
READ: Final = frozenset(
    {
        *("resourceGroups", "cohort", "cohortName", "parent", "parentName", "clusterQueue", "queueingStrategy"),
        *("preemption", "stopPolicy", "fairSharing"),
    }
)
UNREAD: Final = (
    "admissionChecks",
    "admissionChecksStrategy",
    "admissionScope",
    "flavorFungibility",
    "namespaceSelector",
)
LEAST: Final = 1e-6  # weight in place of 0, because a tenant has a weight > 0
# Parameter of ``kueue`` -> where a ClusterQueue tells it -> its values, "" = the default of Kueue and of ``kueue``
RULES: Final[dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "queueing": (("queueingStrategy",), {"BestEffortFIFO": "", "StrictFIFO": "strict"}),
    "within": (
        ("preemption", "withinClusterQueue"),
        {"Never": "", "LowerPriority": "lower", "LowerOrNewerEqualPriority": "newer"},
    ),
    "reclaim": (("preemption", "reclaimWithinCohort"), {"Never": "", "LowerPriority": "lower", "Any": "any"}),
    "borrow_within": (("preemption", "borrowWithinCohort", "policy"), {"Never": "", "LowerPriority": "lower"}),
}
DRAIN: Final = "HoldAndDrain"  # stopPolicy
STOPS: Final = {"None": "", "Hold": "Hold", DRAIN: DRAIN}


class Quotas(NamedTuple):
    """What objects of Kueue tell.

    Parameters
    ----------
    tenants : the ClusterQueues and Cohorts
    local_queues : ``namespace/name`` of each LocalQueue -> its ClusterQueue
    stopped : ClusterQueue, or ``namespace/name`` of a LocalQueue -> its stopPolicy, Hold or HoldAndDrain
    """

    tenants: Tenants
    local_queues: dict[str, str]
    stopped: dict[str, str]


def read_kueue_quotas(*paths: Path | str, gpu_resource: str = GPU_RESOURCE) -> tuple[Quotas, ReadReport]:
    """Read ClusterQueues and Cohorts as the tree of tenants of the jobs that the format ``kueue`` reads.

    A ClusterQueue has the quota ``nominalQuota``, and borrows and lends at most ``borrowingLimit`` and
    ``lendingLimit``, summed over the flavors; a limit that one flavor lacks is none. The quota of a cohort includes
    those below it. What has no cohort neither borrows nor lends. A cohort that no object describes has no quota of its
    own. A cohort with the name of a ClusterQueue is called ``NAME (cohort)``. The field ``rules`` of a tenant has the
    strategy and the preemption policies of its ClusterQueue. Source: the API reference of Kueue.

    Parameters
    ----------
    paths : files of objects in any order; those of other kinds are counted
    gpu_resource : name of the resource that is a GPU
    """
    report = ReadReport("kueue", ", ".join(map(str, paths)), unit="record", things="queues and cohorts")
    found: dict[str, dict[str, Any]] = {QUEUE: {}, COHORT: {}, LOCAL: {}}
    stopped: dict[str, str] = {}
    for path in paths:
        for place, record in kubernetes_objects(Path(path)):
            report.rows += 1
            kind = text(place, table(place, record), "kind")
            if kind not in found:
                report.drop(FLAVOR_READ if kind == FLAVOR else OTHER, place.number)
                continue
            name, namespace, _ = labels(place, record)
            name = f"{namespace}/{name}" if kind == LOCAL else name
            if name in found[kind]:
                place.refuse("metadata.name", name, f"this {kind} occurs twice; remove one of the two")
            spec = table(place, record, "spec")
            past = {
                key if key in UNREAD else "a field of another name" for key in spec if key not in READ and spec[key]
            }
            for key in sorted(past):
                report.note(IGNORED.format(key), place.number)
            queue = text(place, spec, "clusterQueue")
            found[kind][name] = queue if kind == LOCAL else _tenant(place, name, spec, gpu_resource, report)
            if kind != COHORT and (stop := _word(place, spec, ("stopPolicy",), STOPS)):
                stopped[name] = stop
            report.kept += 1
    queues, cohorts, local = found.values()
    if not queues:
        raise TraceError(f"{report.path}: no ClusterQueue.\n{report.describe()}\nCheck that this is the right file")
    try:
        tenants = Tenants(_tree(queues, cohorts), by="cluster_queue", priority="priority")
    except ScenarioError as error:
        raise TraceError(f"{report.path}: {error}; correct the cohorts") from error
    return Quotas(tenants, local, stopped), report


def _tenant(place: Place, name: str, spec: Table, gpu_resource: str, report: ReadReport) -> Tenant:
    """Return a ClusterQueue or Cohort with its own quota; its parent is the cohort that it names."""
    keys = ("cohort", "cohortName", "parentName", "parent")  # of v1beta1, v1beta2, and Cohorts of v1beta1 and v1alpha1
    parent = next((found for key in keys if (found := text(place, spec, key))), ROOT)
    names = (gpu_resource, AMD) if gpu_resource == GPU_RESOURCE else (gpu_resource,)
    quotas: dict[str, list[int | None]] = {"nominalQuota": [], "borrowingLimit": [], "lendingLimit": []}
    for group in tables(place, spec, "resourceGroups"):
        for flavor in tables(place, group, "flavors"):
            for resource in tables(place, flavor, "resources"):
                if text(place, resource, "name") in names:
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
        rules=_rules(place, spec),
    )


def _rules(place: Place, spec: Table) -> str:
    """Return the parameters of ``kueue`` that a ClusterQueue tells, as in a spec."""
    told = {name: _word(place, spec, keys, words) for name, (keys, words) in RULES.items()}
    borrows = table(place, spec, "preemption", "borrowWithinCohort")
    if borrows.get("maxPriorityThreshold") is not None:
        told["threshold"] = str(whole(place, borrows, "maxPriorityThreshold", 0))
    return ",".join(f"{name}={value}" for name, value in told.items() if value)


def _word(place: Place, spec: Table, keys: tuple[str, ...], words: dict[str, str]) -> str:
    """Return what the word under these keys means; "" if it is missing."""
    found = text(place, table(place, spec, *keys[:-1]), keys[-1])
    if found and found not in words:
        place.refuse(keys[-1], found, f"expected one of {', '.join(words)}; {REPAIR}")
    return words.get(found, "")


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
