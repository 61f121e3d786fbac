"""The named topologies as networkx graphs.

Each topology has one function and one line in TOPOLOGIES. The nodes of a graph are servers and switches. A server has
the attribute ``server``, its index among the nodes of the cluster. An edge represents one or more equal parallel links,
its members. It has the attribute ``GBps``, the rate of one direction of one member [1e9 byte/s]. It may have
``members``, the number of members (default 1), and ``latency_s``, the latency of a step [s]. Equal links and switches
are bundled, so every built-in topology is a tree. Bundling is exact if traffic splits evenly over equal paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.network.graph_files import clos_table, user_graph
from gpusched_env.problem.cluster import Cluster

if TYPE_CHECKING:
    from gpusched_env.network.topology_spec import TopologySpec


class Kind(NamedTuple):
    """A kind of topology: the function that builds its graph, and the fields of TopologySpec that not all kinds use."""

    build: Callable[[Cluster, TopologySpec], Any]
    fields: tuple[str, ...] = ()


class Uplinks(NamedTuple):
    """Uplinks of a rack or a pod."""

    number: int
    oversubscription: float


def single_switch(cluster: Cluster, spec: TopologySpec) -> Any:
    """Build a graph with all servers at one non-blocking switch, so that only NICs can be bottlenecks."""
    return _servers(cluster, spec, np.zeros(len(cluster.nodes), int), "switch")


def leaf_spine(cluster: Cluster, spec: TopologySpec) -> Any:
    """Build a graph with a leaf switch for each rack and a non-blocking spine.

    The summed rate of a rack's uplinks is the summed rate of its servers / ``oversubscription``.
    """
    return _leaf_spine(cluster, spec, spec.uplinks)


def rail_optimised(cluster: Cluster, spec: TopologySpec) -> Any:
    """Build a graph in which each rack has one rail switch per NIC of a server, and a spine connects the rail switches.

    NIC i of every server in a rack is connected to rail switch i of the rack, and a collective keeps GPU i on rail i.
    So all rails carry the same load, and they are bundled into one switch with ``nics`` times as many uplinks. If a job
    has fewer GPUs than NICs on a server, the job uses one rail for each GPU there; ``nics`` of Topology models this
    limit. Two jobs that share a server use different rails. So the bundled NICs and this limit give exactly the rates
    of separate rails.
    """
    graph = _leaf_spine(cluster, spec, spec.nics * spec.uplinks)
    for rack in range(len(cluster.racks)):
        graph.nodes[f"rack{rack}"]["switches"] = spec.nics
    return graph


def three_tier(cluster: Cluster, spec: TopologySpec) -> Any:
    """Build a graph of racks below pods below a non-blocking core; uplinks of racks and pods may be oversubscribed."""
    assert spec.racks_per_pod is not None
    racks, pods = Uplinks(spec.uplinks, spec.oversubscription), Uplinks(spec.pod_uplinks, spec.pod_oversubscription)
    return _three_tier(cluster, spec, racks, spec.racks_per_pod, pods)


def fat_tree(cluster: Cluster, spec: TopologySpec) -> Any:
    """Build the graph of a k-ary fat tree (Al-Fares et al., SIGCOMM 2008), which has no oversubscription.

    It has k pods with k/2 racks each, and a rack has k/2 servers. The k/2 aggregation switches of a pod are bundled
    into one switch, and the (k/2)^2 core switches into another.
    """
    servers, half = len(cluster.nodes), int(cluster.racks["nodes"][0])
    if servers != 2 * half**3 or (cluster.racks["nodes"] != half).any():
        k = 2 * max(1, round((servers / 2) ** (1 / 3)))
        raise ScenarioError(
            f"topology.kind 'fat-tree' needs k^3/4 servers in racks of k/2, for an even k; the cluster has {servers} "
            f"in racks of {', '.join(map(str, np.unique(cluster.racks['nodes'])))}; the nearest (k = {k}) is "
            f"{k**3 // 4} servers, {k // 2} a rack; or choose 'three-tier'"
        )
    graph = _three_tier(cluster, spec, Uplinks(half, 1.0), half, Uplinks(half**2, 1.0))
    for pod in range(2 * half):
        graph.nodes[f"pod{pod}"]["switches"] = half
    graph.nodes["core"]["switches"] = half**2
    return graph


def _servers(cluster: Cluster, spec: TopologySpec, switch: np.ndarray, name: str = "rack") -> Any:
    """Build a graph with each server connected to its switch, ``switch[server]``; the NICs of a server are one link."""
    import networkx as nx

    graph = nx.Graph()
    for server, number in enumerate(switch.tolist()):
        graph.add_node(f"server{server}", server=server)
        graph.add_edge(f"server{server}", f"{name}{number}" if name == "rack" else name, GBps=spec.nic_GBps)
    return graph


def _leaf_spine(cluster: Cluster, spec: TopologySpec, uplinks: int) -> Any:
    graph = _servers(cluster, spec, cluster.nodes["rack"])
    for rack, servers in enumerate(cluster.racks["nodes"].tolist()):
        up_GBps = servers * spec.nic_GBps / spec.oversubscription
        graph.add_edge(f"rack{rack}", "spine", GBps=up_GBps / uplinks, members=uplinks)
    return graph


def _three_tier(cluster: Cluster, spec: TopologySpec, racks: Uplinks, per_pod: int, pods: Uplinks) -> Any:
    graph = _servers(cluster, spec, cluster.nodes["rack"])
    racks_GBps = cluster.racks["nodes"] * spec.nic_GBps / racks.oversubscription
    for rack, up_GBps in enumerate(racks_GBps.tolist()):
        graph.add_edge(f"rack{rack}", f"pod{rack // per_pod}", GBps=up_GBps / racks.number, members=racks.number)
    for pod, first in enumerate(range(0, len(racks_GBps), per_pod)):
        up_GBps = float(racks_GBps[first : first + per_pod].sum()) / pods.oversubscription
        graph.add_edge(f"pod{pod}", "core", GBps=up_GBps / pods.number, members=pods.number)
    return graph


_RACK: Final = ("oversubscription", "uplinks")
_POD: Final = ("pod_oversubscription", "pod_uplinks")
TOPOLOGIES: Final[dict[str, Kind]] = {
    "single-switch": Kind(single_switch),
    "leaf-spine": Kind(leaf_spine, _RACK),
    "three-tier": Kind(three_tier, (*_RACK, *_POD, "racks_per_pod")),
    "fat-tree": Kind(fat_tree),
    "rail-optimised": Kind(rail_optimised, _RACK),
    "graph": Kind(user_graph, ("path",)),
    "clos-table": Kind(clos_table, (*_RACK, *_POD, "path", "names_per_parent")),
}
