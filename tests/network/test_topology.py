"""Topologies: links and routes by hand, unit flows on random graphs, errors, presets."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from cost import lines_run
from hypothesis import given, settings
from hypothesis import strategies as st
from topologies import compiled, rows, topology, two_switches

from gpusched_env.errors import ScenarioError
from gpusched_env.network import (
    NETWORK_PRESETS,
    TOPOLOGIES,
    Topology,
    TopologySpec,
)
from gpusched_env.network.compiling import compile_graph
from gpusched_env.problem.cluster import Cluster
from gpusched_env.scenarios.convert import build


def loads(network: Topology, rings: Sequence[Sequence[int]]) -> np.ndarray:
    """Number of ring edges on each row, in one direction, for the rings over the servers of each list."""
    crossings = np.zeros(len(network.links))
    for ring in rings:
        for a, b in zip(ring, [*ring[1:], ring[0]], strict=True):
            rows, shares = network.route(network.edge[a], network.edge[b])
            np.add.at(crossings, [network.access[a, 0], network.access[b, 1], *rows], [1.0, 1.0, *shares])
    return crossings / 2 if network.duplex else crossings


def rate_GBps(network: Topology, *rings: Sequence[int]) -> float:
    """Rate of equal rings, limited by the fullest link."""
    use = loads(network, rings)
    total = network.links["capacity"] * network.links["members"]
    return float((total[use > 0] / use[use > 0]).min() / 1e9)


def explicit_fat_tree(k: int) -> Any:
    """Every switch and link of a k-ary fat tree."""
    graph = nx.Graph()
    half = k // 2
    for server in range(k**3 // 4):
        rack = server // half
        graph.add_node(f"h{server}", server=server)
        graph.add_edge(f"h{server}", f"r{rack}", GBps=12.0)
        for up in range(half):
            graph.add_edge(f"r{rack}", f"a{rack // half}.{up}", GBps=12.0)
            for core in range(half):
                graph.add_edge(f"a{rack // half}.{up}", f"c{up}.{core}", GBps=12.0)
    return graph


# Built-in kinds, by hand


def test_single_switch_has_one_link_a_server() -> None:
    network = topology(TopologySpec("single-switch", nic_GBps=1.0, hop_latency_s=1e-6), "6x4/2")
    assert network.duplex
    assert rows(network, "nic") == [(f"server{i} -- switch", 1.0, 1) for i in range(6)]
    assert len(network.links) == 6
    assert network.access.tolist() == [[i, i] for i in range(6)]
    assert network.edge.tolist() == [0] * 6  # independent of racks
    assert network.route_at.tolist() == [0, 0]
    assert network.latency_s.tolist() == [[14e-6]]


def test_leaf_spine_links_and_routes() -> None:
    network = topology(TopologySpec("leaf-spine", oversubscription=4.0, uplinks=2, hop_latency_s=1e-6), "8x8/4")
    assert rows(network, "nic") == [(f"server{i} -- rack{i // 4}", 12.0, 1) for i in range(8)]
    assert rows(network, "rack") == [("rack0 -- spine", 6.0, 2), ("rack1 -- spine", 6.0, 2)]
    assert network.edge.tolist() == [0] * 4 + [1] * 4
    assert [part.tolist() for part in network.route(0, 1)] == [[8, 9], [1.0, 1.0]]
    assert [part.tolist() for part in network.route(1, 0)] == [[9, 8], [1.0, 1.0]]
    assert network.route(1, 1)[0].tolist() == []
    assert network.latency_s.ravel() == pytest.approx([14e-6, 16e-6, 16e-6, 14e-6], rel=1e-12)
    assert (network.gpu_Bps, network.gpu_latency_s, network.nic_Bps, network.nics) == (120e9, 3.4e-6, 12e9, 1)
    assert network.host_bus_Bps == np.inf


@pytest.mark.parametrize("duplex", [True, False])
@pytest.mark.parametrize(
    ("omega", "rings", "expected"),
    [
        (4, [(0, 1, 4, 5)], 12),
        (4, [(0, 4, 1, 5)], 6),
        (1, [(0, 4)], 12),
        (2, [(0, 4)], 12),
        (4, [(0, 4)], 12),
        (8, [(0, 4)], 6),
        (1, [(0, 4), (1, 5)], 12),
        (2, [(0, 4), (1, 5)], 12),
        (4, [(0, 4), (1, 5)], 6),
        (8, [(0, 4), (1, 5)], 3),
    ],
)
def test_ring_rates_of_a_leaf_spine(duplex: bool, omega: float, rings: list[tuple[int, ...]], expected: float) -> None:
    network = topology(TopologySpec("leaf-spine", oversubscription=float(omega), uplinks=2), "8x8/4", duplex)
    assert network.duplex is duplex
    assert rate_GBps(network, *rings) == pytest.approx(expected, rel=1e-12)


def test_links_may_have_a_row_for_each_direction() -> None:
    network = topology(TopologySpec("leaf-spine", uplinks=4), "4x8/2", duplex=False)
    assert [name for name, _, _ in rows(network, "nic")][:3] == [
        "server0 -> rack0",
        "rack0 -> server0",
        "server1 -> rack0",
    ]
    assert network.access.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [name for name, _, _ in rows(network, "rack")] == [
        "rack0 -> spine",
        "spine -> rack0",
        "rack1 -> spine",
        "spine -> rack1",
    ]
    assert network.route(0, 1)[0].tolist() == [8, 11]
    assert network.route(1, 0)[0].tolist() == [10, 9]


def test_three_tier_with_a_smaller_last_pod() -> None:
    spec = TopologySpec(
        "three-tier", oversubscription=2.0, uplinks=3, racks_per_pod=2, pod_oversubscription=4.0, pod_uplinks=5,
        hop_latency_s=1e-6,
    )  # fmt: skip
    network = topology(spec, "11x8/4")  # racks of 4, 4 and 3 servers
    assert rows(network, "rack") == [("rack0 -- pod0", 8.0, 3), ("rack1 -- pod0", 8.0, 3), ("rack2 -- pod1", 6.0, 3)]
    assert rows(network, "pod") == [
        ("pod0 -- core", pytest.approx(2.4), 5),  # (24 + 24) / 4 in five links
        ("pod1 -- core", pytest.approx(0.9), 5),
    ]
    assert network.route(0, 1)[0].tolist() == [11, 12]
    assert network.route(0, 2)[0].tolist() == [11, 14, 15, 13]
    assert network.latency_s[0] == pytest.approx([14e-6, 16e-6, 18e-6], rel=1e-12)


def test_a_bundled_fat_tree_has_the_rates_of_the_explicit_graph() -> None:
    network = topology(TopologySpec("fat-tree"), "16x8/2")
    assert rows(network, "rack") == [(f"rack{i} -- pod{i // 2}", 12.0, 2) for i in range(8)]
    assert rows(network, "pod") == [(f"pod{i} -- core", 12.0, 4) for i in range(4)]
    assert [network.graph.nodes[name]["switches"] for name in ("pod0", "core")] == [2, 4]
    explicit = compiled(explicit_fat_tree(4))
    assert not explicit.duplex
    assert len(explicit.links) == 2 * (16 + 16 + 16)
    assert np.bincount(explicit.links["tier"]).tolist() == [32, 32, 32]
    _, share = explicit.route(0, 2)  # to another pod: over 2 aggregation switches and 4 cores
    assert sorted(share.tolist()) == [0.25] * 8 + [0.5] * 4
    rng = np.random.default_rng(0)
    for _ in range(20):
        rings = [rng.permutation(16)[: rng.integers(2, 9)].tolist() for _ in range(3)]
        assert rate_GBps(network, *rings) == pytest.approx(rate_GBps(explicit, *rings), rel=1e-12)


@pytest.mark.parametrize("cluster", ["16x8", "16x8/4", "15x8/2", "24x8/2", "54x8/2"])
def test_fat_tree_refuses_other_clusters(cluster: str) -> None:
    with pytest.raises(ScenarioError, match=r"'fat-tree' needs k\^3/4 servers in racks of k/2.*nearest \(k = \d\)"):
        topology(TopologySpec("fat-tree"), cluster)


@pytest.mark.parametrize(
    ("cluster", "links"), [("2x8/1", 2 + 2 + 2), ("54x8/3", 54 + 18 + 6), ("128x8/4", 128 + 32 + 8)]
)
def test_fat_tree_takes_k_from_the_cluster(cluster: str, links: int) -> None:
    network = topology(TopologySpec("fat-tree"), cluster)
    assert len(network.links) == links
    servers = len(network.access)  # 1:1 everywhere: the fullest link of any ring over all servers is a NIC
    assert rate_GBps(network, np.random.default_rng(1).permutation(servers).tolist()) == pytest.approx(12.0)


def test_rail_optimised_bundles_the_rails_of_a_pod() -> None:
    network = topology(TopologySpec("rail-optimised", nics=4, nic_GBps=94.0, oversubscription=2.0, uplinks=8), "16x8/8")
    assert rows(network, "nic")[0] == ("server0 -- rack0", 94.0, 1)
    assert rows(network, "rack")[0] == ("rack0 -- spine", 8 * 94.0 / 2 / 32, 32)
    assert (network.nics, network.nic_Bps) == (4, 94e9)
    assert network.graph.nodes["rack1"]["switches"] == 4


@given(st.integers(1, 5), st.integers(1, 5), st.data())
@settings(max_examples=40)
def test_without_oversubscription_a_spine_is_one_switch(racks: int, servers: int, data: st.DataObject) -> None:
    cluster = f"{racks * servers}x4/{servers}"
    spine, switch = (topology(TopologySpec(kind), cluster) for kind in ("leaf-spine", "single-switch"))
    rings = data.draw(
        st.lists(st.permutations(range(racks * servers)).map(lambda order: order[: 1 + len(order) // 2]), max_size=4)
    )
    used = [sorted(ring) for ring in rings if len(ring) > 1]  # ring order follows the racks
    if used:
        assert rate_GBps(spine, *used) == pytest.approx(rate_GBps(switch, *used), rel=1e-12)


# Random graphs


@st.composite
def switch_graphs(draw: st.DrawFn, directed: bool = False) -> Any:
    """Connected switches with bundles, and servers at some of them."""
    switches = draw(st.integers(1, 8))
    graph = nx.DiGraph() if directed else nx.Graph()
    members = st.integers(1, 3)
    pairs = [(i, draw(st.integers(0, i - 1))) for i in range(1, switches)]
    pairs += draw(st.lists(st.tuples(st.integers(0, switches - 1), st.integers(0, switches - 1)), max_size=10))
    for a, b in pairs:
        if a != b:
            graph.add_edge(f"s{a}", f"s{b}", GBps=draw(st.floats(0.1, 100)), members=draw(members))
            if directed:
                graph.add_edge(f"s{b}", f"s{a}", GBps=draw(st.floats(0.1, 100)), members=draw(members))
    for server in range(draw(st.integers(1, 6))):
        graph.add_node(server, server=server)
        at = f"s{draw(st.integers(0, switches - 1))}"
        graph.add_edge(server, at, GBps=1.0)
        if directed:
            graph.add_edge(at, server, GBps=1.0)
    return graph


def expected_shares(graph: Any, start: str, end: str) -> dict[tuple[str, str], float]:
    """Shares of each link: split evenly over the members of all next links, path by path."""
    switches = graph.subgraph([name for name in graph if isinstance(name, str)])
    if start == end:
        return {}
    paths = list(nx.all_shortest_paths(switches, start, end))
    following: dict[str, set[str]] = {}
    for path in paths:
        for a, b in pairwise(path):
            following.setdefault(a, set()).add(b)
    shares: dict[tuple[str, str], float] = {}
    for path in paths:
        weight = 1.0
        for a, b in pairwise(path):
            weight *= graph.edges[a, b]["members"] / sum(graph.edges[a, other]["members"] for other in following[a])
        for a, b in pairwise(path):
            shares[a, b] = shares.get((a, b), 0.0) + weight
    return shares


@pytest.mark.parametrize("directed", [False, True])
@given(data=st.data())
@settings(max_examples=60)
def test_routes_are_unit_flows_split_evenly_over_the_shortest_paths(directed: bool, data: st.DataObject) -> None:
    graph = data.draw(switch_graphs(directed))
    network = compiled(graph, duplex=False)
    ends = [tuple(name.split(" -> ")) for name in network.links["name"].tolist()]
    place = {server: next(iter(graph[server])) for server in range(len(network.access))}
    for a, b in np.ndindex(len(place), len(place)):
        links, shares = network.route(network.edge[a], network.edge[b])
        found = {ends[link]: share for link, share in zip(links.tolist(), shares.tolist(), strict=True)}
        assert found == pytest.approx(expected_shares(graph, place[a], place[b]), rel=1e-12)
        net: dict[str, float] = {place[a]: -1.0}
        net[place[b]] = net.get(place[b], 0.0) + 1.0
        for (tail, head), share in found.items():
            net[tail] = net.get(tail, 0.0) + share
            net[head] = net.get(head, 0.0) - share
        assert all(abs(balance) < 1e-9 for balance in net.values())


@given(data=st.data())
@settings(max_examples=60)
def test_in_a_tree_a_ring_loads_both_directions_alike(data: st.DataObject) -> None:
    tree = data.draw(switch_graphs().map(lambda graph: nx.minimum_spanning_tree(graph, weight="GBps")))
    folded, both = compiled(tree), compiled(tree, duplex=False)
    assert folded.duplex
    assert 2 * len(folded.links) == len(both.links)
    servers = len(folded.access)
    ring = data.draw(st.lists(st.integers(0, servers - 1), min_size=2, max_size=8))
    by_name = dict(zip(both.links["name"].tolist(), loads(both, [ring]).tolist(), strict=True))
    for name, load in zip(folded.links["name"].tolist(), loads(folded, [ring]).tolist(), strict=True):
        a, b = name.split(" -- ")
        assert by_name[f"{a} -> {b}"] == by_name[f"{b} -> {a}"] == load


def test_a_graph_with_a_cycle_has_a_row_a_direction() -> None:
    graph = nx.cycle_graph(["a", "b", "c"])
    nx.set_edge_attributes(graph, 2.5, "GBps")
    for server, switch in enumerate("abc"):
        graph.add_node(server, server=server)
        graph.add_edge(server, switch)
    network = compiled(graph)
    assert not network.duplex
    assert len(network.links) == 2 * 6
    assert network.nic_Bps == 12e9  # nic_GBps of the recipe, where the file gives no GBps
    assert [part.tolist() for part in network.route(0, 2)] == [[8], [1.0]]
    assert network.links["name"][8] == "a -> c"


# Graphs of users


def test_parallel_edges_bundle() -> None:
    graph = nx.MultiGraph(two_switches())
    graph.add_edge("s1", "s0", GBps=5.0, members=3, latency_s=2e-6)
    network = compiled(graph)
    assert network.duplex
    assert rows(network, "rack") == [("s0 -- s1", 5.0, 5)]
    graph.add_edge("s1", "s0", GBps=6.0, latency_s=2e-6)
    with pytest.raises(ScenarioError, match="'s0' - 's1' occurs twice and differs in GBps"):
        compiled(graph)


def test_servers_in_the_order_of_the_graph_or_by_number() -> None:
    graph = two_switches()
    nx.set_node_attributes(graph, {"h0": 3, "h1": 1, "h2": 2, "h3": 0}, "server")
    assert compiled(graph).edge.tolist() == [0, 1, 0, 1]  # groups are numbered by their first server
    nx.set_node_attributes(graph, dict.fromkeys(["h0", "h1", "h2", "h3"], True), "server")
    nx.set_node_attributes(graph, dict.fromkeys(["s0", "s1"], False), "server")
    assert compiled(graph).edge.tolist() == [0, 0, 1, 1]


def test_links_of_one_server_are_a_pool() -> None:
    """Two rails as an explicit graph: every server is joined to both rail switches of its pod."""
    graph = nx.Graph()
    for server in range(4):
        graph.add_node(server, server=server)
        for rail in "xy":
            graph.add_edge(server, f"{rail}{server // 2}", GBps=24.0)
            graph.add_edge(f"{rail}{server // 2}", "spine", GBps=24.0)
    network = compiled(graph, nics=2)
    assert network.nic_Bps == 48e9
    assert network.links["name"][0] == "0 -> x0 y0"
    assert network.edge.tolist() == [0, 0, 1, 1]
    assert network.route(0, 0)[0].tolist() == []
    assert network.route(0, 1)[1].tolist() == [0.5] * 4
    graph.remove_edge(3, "y1")
    with pytest.raises(ScenarioError, match="servers 2 and 3 use some of their links more than others"):
        compiled(graph)
    graph.add_edge(3, "y1", GBps=12.0)
    with pytest.raises(ScenarioError, match="links out of it of server 3 differ in GBps"):
        compiled(graph)


def test_latency_is_that_of_the_slowest_of_the_equal_paths() -> None:
    graph = nx.Graph()
    for server, switch in enumerate(("a", "d")):
        graph.add_node(server, server=server)
        graph.add_edge(server, switch, latency_s=0.5e-6)
    for middle, latency_s in (("b", 1e-6), ("c", 4e-6)):
        graph.add_edge("a", middle, GBps=1.0, latency_s=latency_s)
        graph.add_edge(middle, "d", GBps=1.0)
    network = compiled(graph, nic_latency_s=10e-6, hop_latency_s=2e-6)
    assert network.latency_s.ravel() == pytest.approx([11e-6, 17e-6, 17e-6, 11e-6], rel=1e-12)


def test_directed_graphs_have_rates_of_their_own_each_way() -> None:
    graph = nx.DiGraph(two_switches())
    graph.edges["s1", "s0"]["GBps"] = 1.0
    network = compiled(graph)
    assert not network.duplex
    assert rows(network, "rack") == [("s0 -> s1", 5.0, 2), ("s1 -> s0", 1.0, 2)]
    graph.remove_edge("s1", "h3")
    with pytest.raises(ScenarioError, match="the server 'h3' has no link into it; the graph is directed"):
        compiled(graph)


def test_hashed_ecmp_needs_bundles() -> None:
    topology(TopologySpec("fat-tree"), "16x8/2").check_hashed_ecmp()
    with pytest.raises(ScenarioError, match="servers 0 and 2 are joined by equal-cost paths over different links"):
        compiled(explicit_fat_tree(4)).check_hashed_ecmp()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda g: g.remove_edge("s0", "s1"), r"'h0' \(and 1 more\) and 'h2' \(and 1 more\) cannot reach each other"),
        (lambda g: g.edges["s0", "s1"].update(GBps=0.0), "link 's0' - 's1': GBps is 0.0: it must be above 0"),
        (lambda g: g.edges["h0", "s0"].update(GBps=-1), "link 'h0' - 's0': GBps is -1: it must be above 0"),
        (lambda g: g.edges["s0", "s1"].update(GBps=float("inf")), "GBps is inf: it must be a number of at most 1e"),
        (lambda g: g.edges["s0", "s1"].update(GBps=float("nan")), "GBps is nan: it must be a number of at most 1e"),
        (lambda g: g.edges["s0", "s1"].update(GBps="10"), "GBps is '10': it must be a number of at most 1e"),
        (lambda g: g.edges["s0", "s1"].pop("GBps"), "link 's0' - 's1': GBps is missing"),
        (lambda g: g.edges["s0", "s1"].update(members=0), "members is 0: it must be a whole number from 1"),
        (lambda g: g.edges["s0", "s1"].update(members=1.5), "members is 1.5"),
        (lambda g: g.edges["s0", "s1"].update(members=10**30), "members is 10+: it must be .* to 1000000"),
        (lambda g: g.edges["s0", "s1"].update(GBps=10**400), "GBps is 10+: it must be a number of at most 1e"),
        (lambda g: g.edges["s0", "s1"].update(latency_s=-1e-6), "latency_s is -1e-06: it must be at least 0"),
        (lambda g: g.remove_edge("h3", "s1"), "server 'h3' has no link out of it; join it to a switch"),
        (lambda g: g.add_edge("h0", "h1", GBps=1.0), "'h0' - 'h1' joins two servers"),
        (lambda g: g.add_edge("s0", "s0", GBps=1.0), "'s0' - 's0' joins a node to itself"),
        (lambda g: g.add_node("h4", server=4), "has 5 servers but the cluster has 4 nodes"),
        (lambda g: g.remove_node("h3"), "has 3 servers but the cluster has 4 nodes"),
        (lambda g: g.nodes["h3"].update(server=7), "each whole number from 0 to 3 once"),
        (lambda g: g.nodes["h3"].update(server="3"), "that of 'h3' is '3'"),
        (lambda g: g.nodes["h3"].update(server=True), "that of 'h3' is True"),
        (lambda g: [g.nodes[name].clear() for name in g], "no node of the graph is a server"),
        (lambda g: g.edges["h0", "s0"].update(GBps=20.0), "nics is 2, but servers differ"),
    ],
)  # fmt: skip
def test_graphs_that_are_refused(change: Any, complaint: str) -> None:
    graph = two_switches()
    compile_graph(graph, TopologySpec("single-switch", nics=2), 4)
    change(graph)
    with pytest.raises(ScenarioError, match=complaint):
        compile_graph(graph, TopologySpec("single-switch", nics=2), 4)


def test_servers_may_differ_with_one_nic() -> None:
    graph = two_switches()
    graph.edges["h0", "s0"]["GBps"] = 20.0
    network = compiled(graph)
    assert network.links["capacity"][:4].tolist() == [20e9, 10e9, 10e9, 10e9]
    assert network.nic_Bps == 10e9


# Recipes


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kind": "leafspine"}, "topology.kind: unknown topology 'leafspine': did you mean 'leaf-spine'"),
        ({"kind": ["graph"]}, "topology.kind: unknown topology"),
        ({"nic_GBps": 0.0}, "topology.nic_GBps is 0.0: it must be above 0"),
        ({"gpu_GBps": float("nan")}, "topology.gpu_GBps is nan: it must be a number of at most 1e"),
        ({"host_bus_GBps": -1.0}, "topology.host_bus_GBps is -1.0: it must be above 0"),
        ({"nic_GBps": None}, "topology.nic_GBps is missing"),
        ({"nic_latency_s": -1.0}, "topology.nic_latency_s is -1.0: it must be at least 0"),
        ({"oversubscription": 0.5}, "topology.oversubscription is 0.5: it must be at least 1"),
        ({"uplinks": 0}, "topology.uplinks is 0: it must be a whole number from 1"),
        ({"nics": True}, "topology.nics is True"),
        ({"kind": "three-tier"}, "topology.racks_per_pod is missing; 'three-tier' needs it"),
        ({"racks_per_pod": 2}, "racks_per_pod is 2, but 'leaf-spine' does not use it .*oversubscription, uplinks"),
        ({"kind": "single-switch", "oversubscription": 2.0}, "'single-switch' does not use it .*none.*leave it out"),
        ({"kind": "graph"}, "topology.path is missing; 'graph' needs it"),
        ({"kind": "graph", "path": ""}, "topology.path is ''"),
        ({"path": "x.graphml"}, "topology.path is 'x.graphml', but 'leaf-spine' does not use it"),
        ({"kind": "rail-optimised"}, "topology.nics is 1: 'rail-optimised' needs two or more"),
        ({"kind": "clos-table", "path": "x", "names_per_parent": 1}, "names_per_parent is 1: it must be true or false"),
        ({"latency": "measure"}, "topology.latency: unknown value 'measure': did you mean 'measured'"),
        ({"nic_depth_s": 1e-6}, "a depth has an effect only with latency 'measured'; leave it out"),
        ({"switch_share": 1.1}, "topology.switch_share is 1.1: it must be a number of at most 1"),
    ],
)
def test_recipes_that_are_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        TopologySpec(**fields)


def test_recipes_are_plain_data() -> None:
    for preset in NETWORK_PRESETS.values():
        data = json.loads(json.dumps(dataclasses.asdict(preset.topology), allow_nan=False))
        assert build(TopologySpec, data, "file: topology") == preset.topology
    with pytest.raises(ScenarioError, match=r"file: topology: unknown field 'uplink': did you mean 'uplinks'"):
        build(TopologySpec, {"uplink": 2}, "file: topology")
    assert TopologySpec(nic_GBps=12) == TopologySpec()
    assert TopologySpec().file_digest() is None
    assert hash(TopologySpec()) == hash(TopologySpec())


def test_equal_recipes_give_equal_topologies_that_pickle() -> None:
    first, second = (topology(TopologySpec("rail-optimised", nics=2), "8x8/4") for _ in range(2))
    for network in (second, pickle.loads(pickle.dumps(first))):
        for field in ("links", "access", "edge", "route_at", "route_link", "route_share", "latency_s"):
            assert getattr(network, field).tobytes() == getattr(first, field).tobytes()


def test_presets_are_the_table_of_servers() -> None:
    table = {  # inside, NIC pool [GB/s], latencies [us], NICs: docs/network.md, Presets
        "pcie4-10g": (12.0, 1.17, 5.7, 50, 1),
        "pcie8-25g": (12.0, 2.97, 5.7, 50, 1),
        "dgxv-25g": (120.0, 2.97, 3.4, 50, 1),
        "titan-ib40": (12.0, 4.8, 5.7, 14, 1),
        "dgxv-100g": (120.0, 12.0, 3.4, 14, 1),
        "a100-4x200": (240.0, 94.0, 3.4, 14, 4),
        "h100-8x400": (370.8, 388.0, 3.4, 14, 8),
        "h800-2tier": (164.8, 376.0, 3.4, 14, 8),
        "sjfbco20": (20.0, 1.0, 0.0, 0.0, 1),
        "b200-8x400": (721.8, 388.0, 3.4, 14, 8),
        "b300-8x800": (721.8, 776.0, 3.4, 14, 8),
        "gb200-nvl72": (721.8, 3492.0, 3.4, 14, 72),
        "llama3-roce": (370.8, 388.0, 3.4, 14, 8),
        "rail-only": (370.8, 388.0, 3.4, 14, 8),
        "oversub4": (120.0, 12.0, 3.4, 14, 1),
        "a100-ib": (240.0, 94.0, 39.82, 69.01, 4),
        "p4de-efa": (240.0, 48.0, 39.82, 74.06, 4),
        "p5-efa": (370.8, 388.0, 39.82, 74.06, 8),
        "h100-ib": (370.8, 388.0, 39.82, 69.01, 8),
    }
    assert list(NETWORK_PRESETS) == list(table)
    for name, preset in NETWORK_PRESETS.items():
        spec = preset.topology
        values = (spec.gpu_GBps, spec.nic_GBps, spec.gpu_latency_s * 1e6, spec.nic_latency_s * 1e6, spec.nics)
        assert values == pytest.approx(table[name], rel=1e-12), name
        assert topology(spec, f"32x{preset.gpus[0]}/8").duplex
    over = topology(NETWORK_PRESETS["oversub4"].topology, "32x8/8")
    assert rows(over, "rack") == [(f"rack{i} -- spine", 12.0, 2) for i in range(4)]
    hpn = topology(NETWORK_PRESETS["h800-2tier"].topology, "256x8/128")
    assert rows(hpn, "rack")[0] == ("rack0 -- pod0", pytest.approx(47.0), 960)  # 60 x 400 Gb/s of 16 switches
    assert rows(hpn, "pod")[0][1] == pytest.approx(2 * 47.0 / 15)


@pytest.mark.parametrize(
    ("spec", "small", "large"),
    [(TopologySpec(), "64x8/32", "640x8/32"), (TopologySpec("fat-tree"), "128x8/4", "1024x8/8")],
)
def test_the_cost_of_a_network_is_linear_in_its_machines(spec: TopologySpec, small: str, large: str) -> None:
    topology(spec, small)  # imports
    networks = [topology(spec, cluster) for cluster in (small, large)]
    lines = [lines_run(topology, spec, cluster) for cluster in (small, large)]
    assert lines[1] / lines[0] < 1.1 * len(networks[1].edge) / len(networks[0].edge)


def test_importing_the_network_imports_nothing_heavy() -> None:
    code = "import sys, gpusched_env.network; print(sorted({'networkx', 'scipy', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_every_kind_builds_a_network_of_all_servers(kind: str, tmp_path: Path) -> None:
    """A new kind needs a line here."""
    graph, table = tmp_path / "net.json", tmp_path / "topo.csv"
    graph.write_text(json.dumps(nx.node_link_data(two_switches(), edges="edges")))
    table.write_text("ip,DSW,PSW,ASW\n" + "".join(f"h{i},D1,P1,S{i // 2}\n" for i in range(4)))
    spec, cluster, switches = {
        "single-switch": (TopologySpec("single-switch"), "4x8/2", 1),
        "leaf-spine": (TopologySpec("leaf-spine"), "4x8/2", 3),
        "three-tier": (TopologySpec("three-tier", racks_per_pod=1), "4x8/2", 5),
        "fat-tree": (TopologySpec("fat-tree"), "2x8/1", 5),
        "rail-optimised": (TopologySpec("rail-optimised", nics=2), "4x8/2", 3),
        "graph": (TopologySpec("graph", path=str(graph)), "4x8/2", 2),
        "clos-table": (TopologySpec("clos-table", path=str(table)), "4x8/2", 4),
    }[kind]
    network = topology(spec, cluster)
    servers = Cluster.parse(cluster).nodes
    assert network.access.shape == (len(servers), 2)
    assert sum(server is None for _, server in network.graph.nodes(data="server")) == switches
    assert rate_GBps(network, range(len(servers))) > 0.0
