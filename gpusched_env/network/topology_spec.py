"""The parameters of a topology in a scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.checks import check_count, check_number
from gpusched_env.network.compiling import compile_graph
from gpusched_env.network.topologies import TOPOLOGIES
from gpusched_env.network.topology import Topology
from gpusched_env.problem.cluster import Cluster
from gpusched_env.support.files import file_digest

CHECKS: Final[dict[tuple[str, ...], Callable[[object, str], float]]] = {
    ("gpu_GBps", "nic_GBps", "host_bus_GBps"): partial(check_number, positive=True),
    ("gpu_latency_s", "nic_latency_s", "hop_latency_s", "gpu_depth_s", "nic_depth_s"): check_number,
    ("switch_share",): partial(check_number, most=1.0),
    ("oversubscription", "pod_oversubscription"): partial(check_number, least=1.0),
    ("nics", "uplinks", "pod_uplinks", "racks_per_pod"): check_count,
}
LATENCIES: Final = ("steps", "measured")
OF_KINDS: Final = frozenset(name for kind in TOPOLOGIES.values() for name in kind.fields)


@dataclass(frozen=True)
class TopologySpec:
    """The links between the servers of a cluster and inside a server; all rates are one-way.

    Parameters
    ----------
    kind : a name in TOPOLOGIES. A field below that ends with kinds in brackets must be left out for all other kinds
    gpu_GBps : rate of a GPU's port inside its server [1e9 byte/s]
    gpu_latency_s : latency of one step of a collective inside a server [s]
    nic_GBps : summed rate of all NICs of a server [1e9 byte/s]
    nic_latency_s : latency of one step between two servers under one switch [s]
    nics : number of NICs of a server; if it is above 1, a job uses at most one NIC for each of its GPUs on the server
    hop_latency_s : latency that each link between switches adds to a step [s]
    host_bus_GBps : rate of a bus that all jobs with two or more GPUs on a server share [1e9 byte/s]; None = no bus
    oversubscription : summed rate of a rack's servers / summed rate of its uplinks (leaf-spine, three-tier,
        rail-optimised, clos-table)
    uplinks : number of uplinks of a rack (for rail-optimised: of a rail switch); their rates are equal (leaf-spine,
        three-tier, rail-optimised, clos-table)
    racks_per_pod : number of consecutive racks in a pod; the last pod may have fewer racks (three-tier)
    pod_oversubscription : summed rate of the uplinks of a pod's racks / summed rate of the pod's own uplinks
        (three-tier, clos-table)
    pod_uplinks : number of uplinks from a pod to the core (three-tier, clos-table)
    path : path of the topology file; a relative path stays relative to the working directory (graph, clos-table)
    names_per_parent : True = switches with equal names below different switches are different switches (clos-table)
    switch_share : share of ``gpu_GBps`` that a gang reaches while the switch of its server reduces (NVLink SHARP); 0 =
        switches do not reduce
    latency : "steps" = a gang takes the latency of each step; "measured" = latencies are those of a whole collective
    gpu_depth_s, nic_depth_s : depth of the pipeline of a collective, on one server and on several [s] (measured)

    Notes
    -----
    The default values describe a server with NVLink of the V100 generation and one 100 Gb/s NIC. The effective rates
    and latencies come from NVIDIA/nccl, topo.h and tuning.cc.
    """

    kind: str = "leaf-spine"
    gpu_GBps: float = 120.0
    gpu_latency_s: float = 3.4e-6
    nic_GBps: float = 12.0
    nic_latency_s: float = 14e-6
    nics: int = 1
    hop_latency_s: float = 0.0
    host_bus_GBps: float | None = None
    oversubscription: float = 1.0
    uplinks: int = 8
    racks_per_pod: int | None = None
    pod_oversubscription: float = 1.0
    pod_uplinks: int = 8
    path: str | None = None
    names_per_parent: bool = False
    switch_share: float = 0.0
    latency: str = "steps"
    gpu_depth_s: float = 0.0
    nic_depth_s: float = 0.0

    def __post_init__(self) -> None:
        """Check every field; the file is not opened."""
        if not isinstance(self.kind, str) or self.kind not in TOPOLOGIES:
            raise ScenarioError(f"topology.kind: {unknown_name('topology', str(self.kind), TOPOLOGIES)}")
        for names, check in CHECKS.items():
            for name in names:
                value = getattr(self, name)
                if value is not None or getattr(TopologySpec, name) is not None:
                    object.__setattr__(self, name, check(value, f"topology.{name}"))
        if not (self.path is None or (isinstance(self.path, str) and self.path)):
            raise ScenarioError(f"topology.path is {self.path!r}: it must be the path of a file")
        if not isinstance(self.names_per_parent, bool):
            raise ScenarioError(f"topology.names_per_parent is {self.names_per_parent!r}: it must be true or false")
        if self.latency not in LATENCIES:
            raise ScenarioError(f"topology.latency: {unknown_name('value', str(self.latency), LATENCIES)}")
        if self.latency == "steps" and self.gpu_depth_s + self.nic_depth_s > 0.0:
            raise ScenarioError("topology: a depth has an effect only with latency 'measured'; leave it out")
        used = TOPOLOGIES[self.kind].fields
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if item.name in used and value is None:
                raise ScenarioError(f"topology.{item.name} is missing; {self.kind!r} needs it")
            if item.name in OF_KINDS and item.name not in used and value != item.default:
                raise ScenarioError(
                    f"topology.{item.name} is {value!r}, but {self.kind!r} does not use it (its own fields: "
                    f"{', '.join(used) or 'none'}); leave it out"
                )
        if self.kind == "rail-optimised" and self.nics == 1:
            raise ScenarioError("topology.nics is 1: 'rail-optimised' needs two or more, one for each rail")

    def file_digest(self) -> str | None:
        """Return the SHA-256 of the file at ``path``; None if there is no file."""
        return None if self.path is None else file_digest(Path(self.path), ScenarioError)


def build_topology(spec: TopologySpec, cluster: Cluster, duplex: bool = True) -> Topology:
    """Build the topology of ``spec`` for a cluster.

    Parameters
    ----------
    spec : parameters of the topology
    cluster : the cluster, whose nodes are the servers of the topology
    duplex : True = if the network is a tree, both directions of a link share one row; False = each direction has a row

    Raises
    ------
    ScenarioError : the kind does not fit the cluster (a fat tree of another size, a graph with more or fewer servers),
        or the graph cannot be compiled, see :func:`gpusched_env.network.compiling.compile_graph`
    TraceError : the file cannot be read
    """
    graph = TOPOLOGIES[spec.kind].build(cluster, spec)
    try:
        return compile_graph(graph, spec, len(cluster.nodes), duplex)
    except ScenarioError as error:
        if spec.path is None:
            raise
        raise ScenarioError(f"{spec.path}: {error}") from error
