"""Topologies for tests: from a recipe, from a graph, and two switches with two servers each."""

from __future__ import annotations

from typing import Any

import networkx as nx

from gpusched_env.network import (
    LINK_TIERS,
    Topology,
    TopologySpec,
    build_topology,
)
from gpusched_env.network.compiling import compile_graph
from gpusched_env.problem.cluster import Cluster


def topology(spec: TopologySpec, cluster: str, duplex: bool = True) -> Topology:
    return build_topology(spec, Cluster.parse(cluster), duplex)


def compiled(graph: Any, duplex: bool = True, **fields: Any) -> Topology:
    servers = sum(1 for _, server in graph.nodes(data="server") if server is not None and server is not False)
    return compile_graph(graph, TopologySpec("single-switch", **fields), servers, duplex)


def rows(network: Topology, tier: str) -> list[tuple[str, float, int]]:
    """Name, capacity of a member [1e9 byte/s] and members of the rows of a tier."""
    found = network.links[network.links["tier"] == LINK_TIERS.index(tier)]
    return [(str(row["name"]), float(row["capacity"]) / 1e9, int(row["members"])) for row in found]


def two_switches() -> Any:
    graph = nx.Graph()
    for server in range(4):
        graph.add_node(f"h{server}", server=server)
        graph.add_edge(f"h{server}", f"s{server // 2}", GBps=10.0)
    graph.add_edge("s0", "s1", GBps=5.0, members=2, latency_s=2e-6)
    return graph
