"""What a forecast plays: the twin of a cluster, or machines and a policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import TENANT, Profiles, Workload
from gpusched_env.twin.model import leaf_names


class Playable(Protocol):
    """Jobs of one pool of machines, ready to be played."""

    @property
    def instance(self) -> Instance:
        """The jobs and machines."""

    @property
    def rows(self) -> np.ndarray:
        """int64: row of each job of the instance in the workload that was asked about."""

    @property
    def spec(self) -> str:
        """Policy."""

    @property
    def name(self) -> str:
        """Name of the pool."""


class Setting(Protocol):
    """Machines and policy, which turn jobs into playable problems; a Twin is one."""

    @property
    def tenant_columns(self) -> tuple[str, ...]:
        """Attributes of a job whose values, joined by "/", are the name of its tenant."""

    def problems(self, workload: Workload) -> Sequence[Playable]:
        """Return a problem for each pool that has jobs."""


class OnePool(NamedTuple):
    """The only pool of a :class:`Plain` setting; the fields are those of :class:`Playable`."""

    instance: Instance
    rows: np.ndarray
    spec: str
    name: str = "all"


@dataclass(frozen=True)
class Plain:
    """One pool of machines, and a policy; without tenants, one for each value of ``tenant_columns``."""

    cluster: Cluster
    scheduler: str
    tenants: Tenants | None = None
    tenant_columns: tuple[str, ...] = ("account", "user")

    def problems(self, workload: Workload) -> list[OnePool]:
        """Return one problem with all jobs that fit into the cluster."""
        rows = np.flatnonzero(workload.jobs["gpus"] <= self.cluster.gpus)
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
        instance = Instance(self.cluster, chosen, semantics=Semantics(checkpoint_s=0.0), tenants=self.tenants)
        order = np.argsort(chosen.jobs["id"], kind="stable")
        back = order[np.searchsorted(chosen.jobs["id"][order], instance.workload.jobs["id"])]
        return [OnePool(instance, rows[back], self.scheduler)]
