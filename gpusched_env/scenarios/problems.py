"""The problems of a scenario that varies."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple

from gpusched_env.errors import ScenarioError
from gpusched_env.network import Network
from gpusched_env.network.topologies import TOPOLOGIES
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.performance import ClassTable
from gpusched_env.scenarios.seeds import Seeds
from gpusched_env.scenarios.variation import LARGEST_SHARE, Variation, gang_shares, node_groups
from gpusched_env.scenarios.workload_spec import WorkloadSpec

GENERATOR: Final = "synthetic:drift"  # its arrivals can be bursty
_DRAWN_PARAMETERS: Final = ("mean_duration_s", "swing", "demand", "late_demand")
PROBLEMS: Final = 1 << 31  # number of seeds of a family
_KEPT: Final = 1 << 20  # seeds for validation, and for reports
FAMILY_SEEDS: Final = Seeds(
    (0, PROBLEMS - 2 * _KEPT), (PROBLEMS - 2 * _KEPT, PROBLEMS - _KEPT), (PROBLEMS - _KEPT, PROBLEMS)
)


class Parts(NamedTuple):
    """What a seed determines beside the jobs: machines and network, the mix of jobs, the cost of preemption."""

    table: ClassTable
    workload: WorkloadSpec
    semantics: Semantics


class Problems:
    """The problems that a variation of a scenario's parts draws; each cluster and network is made once."""

    def __init__(self, variation: Variation, workload: WorkloadSpec, network: Network, semantics: Semantics) -> None:
        self._variation = variation
        self._workload, self._network, self._semantics = workload, network, semantics
        self._tables: dict[tuple[Any, ...], ClassTable] = {}

    def parts(self, seed: int) -> Parts:
        """Return the parts of the problem of a seed."""
        drawn = self._variation.drawn(seed)
        table = self._table(
            drawn["racks"], drawn["rack_nodes"], drawn["node_gpus"], drawn["gpu_types"], drawn["oversubscription"]
        )
        mix = {name: drawn[name] for name in ("mean_duration_s", "swing")}
        workload = dataclasses.replace(
            self._workload,
            parameters={**self._workload.parameters, **mix, "demand": gang_shares(drawn["large_share"])},
            max_gpus=max(table.cluster.gpus // LARGEST_SHARE, 1),
            load=drawn["load"],
        )
        costs = {name: drawn[name] for name in ("checkpoint_s", "restore_s")}
        return Parts(table, workload, dataclasses.replace(self._semantics, **costs))

    def _table(self, *shape: Any) -> ClassTable:
        *of_cluster, oversubscription = shape
        if shape not in self._tables:
            assert self._network.topology is not None
            spec = dataclasses.replace(self._network.topology, oversubscription=oversubscription)
            network = dataclasses.replace(self._network, topology=spec)
            self._tables[shape] = ClassTable(Cluster(node_groups(*of_cluster)), network)
        return self._tables[shape]


def seeds_of_problem(seed: int) -> Seeds:
    """Return the seeds of one problem as a scenario: reports play its own jobs, agents train on others."""
    first = PROBLEMS
    return Seeds((first, first + 100_000), (first + 100_000, first + 100_020), (seed, seed + 1))


def check_common(workload: WorkloadSpec, network: Network, semantics: Semantics) -> None:
    """Refuse parts of a varying scenario that its variation would replace, or cannot vary."""
    if workload.source != GENERATOR:
        raise ScenarioError(f"workload.source is {workload.source!r}: a scenario that varies needs {GENERATOR!r}")
    topology = network.topology
    if topology is None or "oversubscription" not in TOPOLOGIES[topology.kind].fields:
        raise ScenarioError("network: a scenario that varies needs a topology with uplinks, such as 'leaf-spine'")
    given = {f"workload.parameters.{name}": name in workload.parameters for name in _DRAWN_PARAMETERS}
    given |= {f"workload.{name}": getattr(workload, name) is not None for name in ("load", "max_gpus")}
    given["workload.measured_on"] = workload.measured_on is not None
    given["network.topology.oversubscription"] = topology.oversubscription != 1.0
    for name in ("checkpoint_s", "restore_s"):
        given[f"semantics.{name}"] = getattr(semantics, name) != getattr(Semantics, name)
    for name, is_given in given.items():
        if is_given:
            raise ScenarioError(f"{name}: the variation draws it for each problem; leave it out")
