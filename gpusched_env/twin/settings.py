"""What a forecast plays: the twin of a cluster, or machines and a policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import TENANT, Profiles, Workload
from gpusched_env.twin.model import Pool, Problem, leaf_names


class Setting(Protocol):
    """Machines and policy, which turn jobs into playable problems; a Twin is one."""

    @property
    def tenant_columns(self) -> tuple[str, ...]:
        """Attributes of a job whose values, joined by "/", are the name of its tenant."""

    def problems(self, workload: Workload) -> Sequence[Problem]:
        """Return a problem for each pool that has jobs."""


@dataclass(frozen=True)
class Plain:
    """One pool of machines, and a policy; without tenants, one for each value of ``tenant_columns``."""

    cluster: Cluster
    scheduler: str
    tenants: Tenants | None = None
    tenant_columns: tuple[str, ...] = ("account", "user")

    def problems(self, workload: Workload) -> list[Problem]:
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
        return [Problem.of(Pool("all", self.cluster.groups), instance, chosen, rows, self.scheduler)]
