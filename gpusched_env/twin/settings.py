"""What a forecast plays: the twin of a cluster, or machines and a policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partitions, Reservation
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import TENANT, Profiles, Workload
from gpusched_env.twin.model import Pool, Problem, leaf_names
from gpusched_env.twin.placing import names_in
from gpusched_env.twin.snapshot import Snapshot


class Setting(Protocol):
    """Machines and policy, which turn jobs into playable problems; a Twin is one."""

    @property
    def tenant_columns(self) -> tuple[str, ...]:
        """Attributes of a job whose values, joined by "/", are the name of its tenant."""

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The machines."""

    def problems(self, workload: Workload) -> Sequence[Problem]:
        """Return a problem for each pool that has jobs."""

    def with_pools(self, pools: Sequence[Pool]) -> Setting:
        """Return the setting with the reservations of these pools, which are its own otherwise."""


def closing(setting: Setting, snapshot: Snapshot, start_s: float, end_s: float) -> Setting:
    """Return the setting in which nothing starts on the closed nodes of a snapshot in a period [s]; jobs there run on.

    Raises
    ------
    GpuschedError : the machines have no nodes of these names
    """
    if not snapshot.closed:
        return setting
    pools, known = [], False
    for pool in setting.pools:
        named = dataclasses.replace(pool, node_names=names_in(pool, snapshot)).numbers
        nodes = sorted(number for name in snapshot.closed for number in named.get(name, ()))
        known |= bool(nodes)
        one = Reservation("closed nodes", start_s, end_s, ",".join(map(str, nodes)), drain=True)
        pools.append(dataclasses.replace(pool, reservations=(*pool.reservations, *[one] * bool(nodes))))
    if not known:
        raise GpuschedError(
            f"snapshot: node {snapshot.closed[0]} is closed, but no machine has this name: name the nodes by --cluster "
            "FORMAT:PATH, by a twin that was fitted with --conf, or by node_names"
        )
    return setting.with_pools(pools)


@dataclass(frozen=True)
class Plain:
    """One pool of machines, and a policy; without tenants, one for each value of ``tenant_columns``."""

    cluster: Cluster
    scheduler: str
    tenants: Tenants | None = None
    tenant_columns: tuple[str, ...] = ("account", "user")
    node_names: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The machines."""
        return (Pool("all", self.cluster.groups, reservations=self.reservations, node_names=self.node_names),)

    def with_pools(self, pools: Sequence[Pool]) -> Plain:
        """Return the setting with the reservations of the pool."""
        return dataclasses.replace(self, reservations=pools[0].reservations)

    def problems(self, workload: Workload) -> list[Problem]:
        """Return one problem with all jobs that fit into the cluster."""
        rooms = self.pools[0].room_of(workload, np.full(len(workload), ""))
        rows = np.flatnonzero(workload.jobs["gpus"] <= rooms)
        if not len(rows):
            return []
        chosen = workload if len(rows) == len(workload) else workload.select(rows)
        attributes = chosen.attributes
        if TENANT not in attributes:
            attributes = {**attributes, TENANT: leaf_names(chosen, self.tenant_columns)}
        jobs = chosen.jobs.copy()
        jobs["profile"] = 0
        chosen = dataclasses.replace(
            chosen, jobs=jobs, profiles=Profiles.unit(*self.cluster.gpu_types), attributes=attributes
        )
        sets = Partitions(reservations=self.reservations) if self.reservations else None
        rules = Semantics(checkpoint_s=0.0)
        instance = Instance(self.cluster, chosen, semantics=rules, tenants=self.tenants, partitions=sets)
        return [Problem.of(self.pools[0], instance, chosen, rows, self.scheduler)]
