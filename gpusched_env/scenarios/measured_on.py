"""Where the run times of jobs were measured, so that jobs keep their iterations on every network and cluster."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from gpusched_env.errors import GpuschedError, ScenarioError, WorkloadError, unknown_name
from gpusched_env.network import NETWORK_PRESETS, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.partitions import Partitions
from gpusched_env.problem.performance import ClassTable
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload


class MeasuredOn(NamedTuple):
    """The network and the machines on which run times were measured; None = the machines that are played."""

    topology: TopologySpec
    cluster: Cluster | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``NETWORK`` or ``NETWORK/CLUSTER``: a preset of networks, and machines as for Cluster.parse."""
        network, slash, machines = str(text).partition("/")
        if network not in NETWORK_PRESETS:
            raise ScenarioError(f"measured_on: {unknown_name('preset of networks', network, NETWORK_PRESETS)}")
        try:
            return cls(NETWORK_PRESETS[network].topology, Cluster.parse(machines) if slash else None)
        except GpuschedError as error:
            raise ScenarioError(f"measured_on {text!r}: {error}") from None

    def table(self, played: ClassTable) -> ClassTable:
        """Return the times of job classes where the run times were measured; ``played`` = those of the problem."""
        return ClassTable(self.cluster or played.cluster, played.network.with_topology(self.topology))


def with_iterations(
    workload: Workload, table: ClassTable, tenants: Tenants | None = None, partitions: Partitions | None = None
) -> Workload:
    """Give all jobs by iterations: run time / iteration time on the ideal placement of the cluster of ``table``.

    Tenants and partitions are those of this cluster. It is an error if no job is given by its run time.
    """
    jobs = workload.jobs.copy()
    if np.isnan(jobs["duration_s"]).all():
        raise WorkloadError(
            f"measured_on: the jobs of workload {workload.name!r} are given by iterations, which are the same on every "
            "network; leave it out"
        )
    try:
        there = Instance(table.cluster, workload, table.network, None, None, table, None, tenants, partitions)
    except GpuschedError as error:
        raise WorkloadError(f"measured_on: {error}") from error
    here, sorted_there = (np.argsort(one["id"], kind="stable") for one in (jobs, there.workload.jobs))
    jobs["iterations"][here] = there.iterations[sorted_there]
    jobs["duration_s"] = np.nan
    return workload.unchecked_replace(jobs=jobs)
