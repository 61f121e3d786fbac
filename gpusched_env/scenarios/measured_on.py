"""Where the run times of jobs were measured, so that jobs keep their iterations on every network and cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gpusched_env.errors import ClusterError, GpuschedError, ScenarioError, WorkloadError, unknown_name
from gpusched_env.network import NETWORK_PRESETS
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.partitions import Partitions
from gpusched_env.problem.performance import ClassTable
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload


@dataclass(frozen=True)
class MeasuredOn:
    """The network and the machines on which run times were measured.

    Parameters
    ----------
    network : name of a preset of networks
    cluster : the machines; None = those on which the jobs are played
    """

    network: str
    cluster: Cluster | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``NETWORK`` or ``NETWORK/CLUSTER``, such as ``dgxv-100g/16x8@V100``; CLUSTER as in Cluster.parse.

        Raises
        ------
        ScenarioError : an unknown network, or a text that is no cluster
        """
        network, slash, machines = str(text).partition("/")
        if network not in NETWORK_PRESETS:
            raise ScenarioError(f"measured_on: {unknown_name('preset of networks', network, NETWORK_PRESETS)}")
        try:
            return cls(network, Cluster.parse(machines) if slash else None)
        except ClusterError as error:
            raise ScenarioError(f"measured_on {text!r}: {error}") from None

    def table(self, played: ClassTable) -> ClassTable:
        """Return the times of job classes where the run times were measured; ``played``: those of the problem."""
        network = played.network.with_topology(NETWORK_PRESETS[self.network].topology)
        return ClassTable(self.cluster or played.cluster, network)


def with_iterations(
    workload: Workload, table: ClassTable, tenants: Tenants | None = None, partitions: Partitions | None = None
) -> Workload:
    """Give all jobs by iterations: run time / iteration time on the ideal placement of the cluster in ``table``.

    Tenants and partitions are those of this cluster.

    Raises
    ------
    WorkloadError : no job is given by its run time, or a job cannot run on this cluster
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
    order = np.argsort(there.workload.jobs["id"])
    jobs["iterations"] = there.iterations[order][np.argsort(np.argsort(jobs["id"]))]
    jobs["duration_s"] = np.nan
    return workload.unchecked_replace(jobs=jobs)
