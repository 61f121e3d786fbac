"""Tenants: the tree of accounts, queues or virtual clusters that share a cluster, and the leaf of each job."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError, WorkloadError, unknown_name
from gpusched_env.portable.arrays import total
from gpusched_env.problem.partitions import PARTITION, QUEUE, only_partition, refuse_twice
from gpusched_env.problem.qos import LARGEST, QOS, Qos, ranks_of
from gpusched_env.problem.workload import TENANT, Workload
from gpusched_env.support.plain_data import set_fields

__all__ = ["Resource", "Tenant", "Tenants"]

ROOT: Final = ""  # name of the root, which stands for the whole cluster
PRIORITY: Final = "priority_class"  # one of workload.REQUESTED
QUEUE_RULES: Final = ("queueing", "within", "reclaim", "borrow_within", "threshold")  # parameters of ``kueue``
UNLIMITED: Final = -1
NO_LIMIT: Final = 1 << 40  # [GPU] more than any cluster has
_DRAW: Final = 0x7E4A47  # separates these draws from others with the same seed


@dataclass(frozen=True)
class Tenant:
    """One node of the tree.

    Parameters
    ----------
    name : name, unique in the tree
    parent : name of the tenant above it; default the root
    weight : share relative to the tenants with the same parent, > 0
    quota : guaranteed GPUs [GPU]; 0 = none
    borrow : GPUs that it may take from others beyond its quota [GPU]; None = any number
    lend : GPUs of its quota that others may take [GPU]; None = all
    most : GPUs that its jobs may hold at any time [GPU]; None = any number
    jobs : jobs of it that may run at any time; None = any number. Only ``slurm`` knows this limit
    rules : those of QUEUE_RULES, parameters of ``kueue``, for the jobs of this leaf, as in a spec:
        "queueing=strict,within=lower"; empty = those of the scheduler. Other schedulers know no rules of queues and
        ignore them
    demand : share of the jobs of a generated workload that belong to this leaf, relative to other leaves; a log that
        names the tenants of its jobs needs none
    """

    name: str
    parent: str = ROOT
    weight: float = 1.0
    quota: int = 0
    borrow: int | None = None
    lend: int | None = None
    most: int | None = None
    jobs: int | None = None
    demand: float = 0.0
    rules: str = ""

    def __post_init__(self) -> None:
        """Check the values."""
        if self.name == ROOT:
            raise ScenarioError("name is empty: the empty name is that of the root; give the tenant a name")
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise ScenarioError(f"tenant {self.name!r}: weight is {self.weight}: give a finite number > 0")
        for field in ("quota", "borrow", "lend", "most"):
            value = getattr(self, field)
            if value is not None and not 0 <= value <= LARGEST:
                raise ScenarioError(f"tenant {self.name!r}: {field} is {value}: give a number of GPUs from 0 to 2**53")
        if self.jobs is not None and not 1 <= self.jobs <= LARGEST:
            raise ScenarioError(f"tenant {self.name!r}: jobs is {self.jobs}: give a number of jobs from 1 to 2**53")
        if not (self.demand >= 0 and math.isfinite(self.demand)):
            raise ScenarioError(f"tenant {self.name!r}: demand is {self.demand}: give a finite number >= 0")
        for rule in self.rules.split(",") if self.rules else ():
            name, equals, value = rule.partition("=")
            where = f"tenant {self.name!r}, rules {self.rules!r}"
            if not (name and equals and value):
                raise ScenarioError(f"{where}: {rule!r} is not of the form rule=value")
            if name not in QUEUE_RULES:
                raise ScenarioError(f"{where}: {unknown_name('rule of a queue', name, QUEUE_RULES)}")


@dataclass(frozen=True)
class Resource:
    """A resource besides GPUs. ``drf`` counts it for the whole cluster; it lies on no particular machine.

    Parameters
    ----------
    name : attribute of the workload with what each job needs of it while it runs, a whole number >= 0
    amount : what the cluster has of it, a whole number from 1 to 2**53 in the same unit
    """

    name: str
    amount: int

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.name:
            raise ScenarioError("resource: the name is empty; name an attribute of the workload")
        if not 1 <= self.amount <= LARGEST or self.amount % 1:
            where = f"resource {self.name!r}: amount is {self.amount}"
            raise ScenarioError(f"{where}: give a whole number from 1 to {LARGEST}, in a larger unit if need be")


@dataclass(frozen=True)
class Tenants:
    """The tenants of a scenario.

    Parameters
    ----------
    tree : the tenants below the root, in any order; empty = one tenant for each name that occurs in the jobs
    by : attribute of the workload that names the leaf of each job, such as ``virtual_cluster`` or ``user``
    priority : attribute of the workload that is the priority class of each job, a number; empty = that of its QOS
    burst : mean number of jobs that arrive one after another from the same tenant, if tenants are drawn; >= 1
    qos : qualities of service, in any order; empty = jobs have none
    qos_by : attribute of the workload that names the QOS of each job; jobs with an empty name have none
    resources : resources besides GPUs that count in the shares of ``drf``
    """

    tree: tuple[Tenant, ...] = ()
    by: str = TENANT
    priority: str = ""
    burst: float = 1.0
    qos: tuple[Qos, ...] = ()
    qos_by: str = QOS
    resources: tuple[Resource, ...] = ()

    def __post_init__(self) -> None:
        """Check that the tenants form a tree."""
        if not (self.burst >= 1 and math.isfinite(self.burst)):
            raise ScenarioError(f"tenants.burst is {self.burst}: give a finite number of jobs >= 1")
        _in_order(self.tree)
        parents = {tenant.parent for tenant in self.tree}
        for tenant in self.tree:
            if tenant.rules and tenant.name in parents:
                what = f"tenant {tenant.name!r}: rules {tenant.rules!r} have no effect, as it is no leaf"
                raise ScenarioError(f"{what}; give them to the tenants below it that have jobs")
        ranks_of(self.qos)

    def assign(self, workload: Workload, seed: int) -> Workload:
        """Return the workload with the attributes TENANT and PRIORITY, which schedulers see.

        If the workload does not name tenants, the leaf of each job, or of each burst, is drawn with probability
        ``demand`` / sum of the demands.
        """
        found: dict[str, np.ndarray] = {}
        if self.by in workload.attributes:
            found[TENANT] = workload.attributes[self.by].astype(str)
        elif self.by == QUEUE and PARTITION in workload.attributes:
            raise ScenarioError(f"tenants.by: {only_partition(self.by)}")
        elif any(tenant.demand for tenant in self.tree):
            found[TENANT] = self._drawn(len(workload), seed)
        else:
            known = unknown_name("attribute", self.by, workload.attributes)
            raise ScenarioError(f"tenants.by: {known}; choose one of them, or give tenants a demand to draw from")
        if not self.priority and self.qos and self.qos_by in workload.attributes:
            names, of_job = np.unique(workload.attributes[self.qos_by].astype(str), return_inverse=True)
            classes = {one.name: one.priority for one in self.qos}
            found[PRIORITY] = np.array([classes.get(name, 0.0) for name in names.tolist()])[of_job]
        tree_of(self, found[TENANT])  # refuses unknown names
        return self.classify(workload.unchecked_replace(attributes={**workload.attributes, **found}))

    def classify(self, workload: Workload) -> Workload:
        """Return the workload with the attribute PRIORITY if the field ``priority`` names another one.

        Raises
        ------
        ScenarioError : the workload lacks the attribute
        WorkloadError : a priority class is not a number
        """
        if not self.priority:
            return workload
        if self.priority not in workload.attributes:
            known = unknown_name("attribute", self.priority, workload.attributes)
            raise ScenarioError(f"tenants.priority: {known}; name one that the workload has, or leave priority empty")
        classes = workload.attributes[self.priority]
        if np.array_equal(classes, workload.attributes.get(PRIORITY, np.empty(0))):
            return workload
        return dataclasses.replace(workload, attributes={**workload.attributes, PRIORITY: classes})  # checks

    def _drawn(self, jobs: int, seed: int) -> np.ndarray:
        leaves = [tenant for tenant in self.tree if tenant.demand]
        ends = np.cumsum([tenant.demand for tenant in leaves])
        uniform, again = np.random.default_rng([_DRAW, seed]).random((2, jobs))
        begins = again * self.burst < 1.0  # a burst is geometric: each job begins a new one with probability 1 / burst
        begins[:1] = True
        uniform = uniform[np.maximum.accumulate(np.where(begins, np.arange(jobs), 0))]
        drawn = np.minimum(np.searchsorted(ends, uniform * ends[-1], side="right"), len(leaves) - 1)
        return np.array([tenant.name for tenant in leaves])[drawn]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; fields with their default values are left out of tenants."""
        rows = [set_fields(tenant) for tenant in self.tree]
        data: dict[str, Any] = {"tree": rows, "by": self.by, "priority": self.priority, "burst": self.burst}
        if self.qos:
            data |= {"qos": [set_fields(one) for one in self.qos], "qos_by": self.qos_by}
        if self.resources:
            data["resources"] = [dataclasses.asdict(one) for one in self.resources]
        return data

    def needs(self, workload: Workload) -> np.ndarray:
        """int64 [J, R]: what each job needs of each of the resources.

        Raises
        ------
        ScenarioError : the workload lacks an attribute
        WorkloadError : a number is not whole, is negative, or is more than there is
        """
        found = np.zeros((len(workload), len(self.resources)), np.int64)
        for column, one in enumerate(self.resources):
            if one.name not in workload.attributes:
                raise ScenarioError(f"tenants.resources: {unknown_name('attribute', one.name, workload.attributes)}")
            amounts = workload.told(one.name)
            bad = ~((amounts >= 0) & (amounts <= one.amount) & (amounts == np.floor(amounts)))
            if bad.any():
                row = int(np.argmax(bad))
                raise WorkloadError(
                    f"workload {workload.name!r}, job {workload.jobs['id'][row]}: {one.name} is {amounts[row]:g}: give "
                    f"a whole number from 0 to {one.amount}, the amount of the cluster"
                )
            found[:, column] = amounts
        return found


class TenantTree(NamedTuple):
    """The tree as arrays of length Q. Row 0 is the root; parents come before their children.

    Siblings are in the order in which the scenario lists them; without a list, in the order of their names.
    """

    names: tuple[str, ...]
    parent: np.ndarray  # int32, row of the tenant above; -1 = it is the root
    weight: np.ndarray  # float64, relative to siblings
    quota: np.ndarray  # int64 [GPU] guaranteed
    borrow: np.ndarray  # int64 [GPU] UNLIMITED = any number
    lend: np.ndarray  # int64 [GPU] UNLIMITED = the whole quota
    most: np.ndarray  # int64 [GPU] UNLIMITED = any number
    jobs: np.ndarray  # int64, jobs that may run; UNLIMITED = any number
    rules: tuple[str, ...]  # parameters of the scheduler for its jobs; "" = those of all

    @property
    def leaves(self) -> np.ndarray:
        """int64: rows without children."""
        return np.setdiff1d(np.arange(len(self.names)), self.parent)

    @property
    def shares(self) -> np.ndarray:
        """float64: part of the cluster for each tenant if each one divides its part by weight among those below it."""
        share = np.ones(len(self.names))
        for parent in np.unique(self.parent[1:]).tolist():  # parents come first
            below = self.parent == parent
            share[below] = share[parent] * self.weight[below] / total(self.weight[below])
        return share

    @property
    def limits(self) -> np.ndarray:
        """int64 [GPU]: GPUs that the jobs of each tenant may hold by its own fields; NO_LIMIT = any number.

        It is the smaller of ``most`` and quota + ``borrow``. The quota of an inner tenant is at least the sum of those
        below it.
        """
        quota, below = self.quota.copy(), np.zeros_like(self.quota)
        for row in range(len(self.names) - 1, 0, -1):
            quota[row] = max(quota[row], below[row])
            below[self.parent[row]] += quota[row]
        most = np.where(self.most == UNLIMITED, NO_LIMIT, self.most)
        return np.minimum(most, np.where(self.borrow == UNLIMITED, NO_LIMIT, quota + self.borrow))


def tree_of(tenants: Tenants | None, leaves: np.ndarray) -> tuple[TenantTree, np.ndarray]:
    """Return the tree, and the row of each job's leaf.

    Parameters
    ----------
    tenants : the tenants of the scenario; None = one for each name that occurs in ``leaves``
    leaves : str [J], name of each job's leaf

    Returns
    -------
    tree, of_job : int32 [J]
    """
    names, of_job = np.unique(leaves.astype(str), return_inverse=True)
    listed = tenants.tree if tenants is not None and tenants.tree else tuple(Tenant(str(name)) for name in names)
    ordered = _in_order(listed)
    rows = {ROOT: 0} | {tenant.name: row for row, tenant in enumerate(ordered, 1)}

    def limits(field: str) -> np.ndarray:
        values = [getattr(tenant, field) for tenant in ordered]
        return np.array([UNLIMITED, *(UNLIMITED if value is None else value for value in values)], np.int64)

    tree = TenantTree(
        (ROOT, *(tenant.name for tenant in ordered)),
        np.array([-1, *(rows[tenant.parent] for tenant in ordered)], np.int32),
        np.array([1.0, *(tenant.weight for tenant in ordered)]),
        np.array([0, *(tenant.quota for tenant in ordered)], np.int64),
        limits("borrow"), limits("lend"), limits("most"), limits("jobs"), ("", *(tenant.rules for tenant in ordered)),
    )  # fmt: skip
    known = {tree.names[row] for row in tree.leaves}
    for name in names.tolist():
        if name not in known:
            raise ScenarioError(f"tenants.tree: a job has an {unknown_name('leaf', name, known)}; list it as a tenant")
    row_of_name = np.array([rows[name] for name in names.tolist()], np.int32)
    return tree, row_of_name[of_job]


def _in_order(listed: Sequence[Tenant]) -> list[Tenant]:
    """Return the tenants with parents before children, in the listed order otherwise; refuse what is no tree."""
    names = [tenant.name for tenant in listed]
    refuse_twice("tenants: ", names, "each tenant")
    placed, ordered, left = {ROOT}, list[Tenant](), list(listed)
    while left:
        ready = [tenant for tenant in left if tenant.parent in placed]
        if not ready:
            known = {ROOT, *names}
            lost = next((tenant for tenant in left if tenant.parent not in known), None)
            if lost is not None:
                parent = unknown_name("parent", lost.parent, names)
                raise ScenarioError(f"tenants: {lost.name!r}: {parent}")
            raise ScenarioError(f"tenants: {left[0].name!r} is above itself; its parents form a cycle")
        ordered += ready
        placed |= {tenant.name for tenant in ready}
        left = [tenant for tenant in left if tenant not in ready]
    return ordered
