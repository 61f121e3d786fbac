"""Topologies from files: GraphML, node-link JSON, tables of hosts and switches, and damaged files."""

from __future__ import annotations

import dataclasses
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topologies import compiled, rows, topology, two_switches

from gpusched_env.errors import GpuschedError, ScenarioError, TraceError
from gpusched_env.network import (
    TopologySpec,
    build_topology,
    matching_cluster,
)

LINGJUN = Path(__file__).parents[3] / "shared" / "traces" / "alibaba" / "lingjun2023_topo.csv.gz"
CLOS = "ip,DSW,PSW,ASW\nh5,D1,P2,S10\nh1,D1,P1,S1\nh2,D1,P1,S1\nh3,D1,P1,S2\nh4,D1,P2,S2\n"


def saved(graph: Any, path: Path) -> Path:
    if ".graphml" in path.name:
        text = "\n".join(nx.generate_graphml(graph)).encode()
    else:
        text = json.dumps(nx.node_link_data(graph, edges="links" if "old" in path.name else "edges")).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["net.graphml", "net.graphml.gz", "net.json", "old.json", "net.json.gz"])
def test_graph_files(name: str, tmp_path: Path) -> None:
    spec = TopologySpec("graph", path=str(saved(two_switches(), tmp_path / name)))
    network = topology(spec, "4x8/2")
    expected = compiled(two_switches())
    assert network.links.tolist() == expected.links.tolist()
    assert network.edge.tolist() == expected.edge.tolist()
    assert network.latency_s.tolist() == expected.latency_s.tolist()
    assert matching_cluster(spec, 4).nodes["rack"].tolist() == [0, 0, 1, 1]
    assert len(spec.file_digest() or "") == 64
    with pytest.raises(ScenarioError, match="the graph has 4 servers but the cluster has 6 nodes"):
        topology(spec, "6x8/2")


@pytest.mark.parametrize(
    ("name", "content", "error", "complaint"),
    [
        ("net.graphml", None, ScenarioError, "no such file; check the path"),
        ("net.graphml", b"", TraceError, "the file is empty"),
        ("net.graphml", b"<graphml", ScenarioError, "not GraphML"),
        ("net.graphml", b"<html></html>", ScenarioError, "not GraphML"),
        ("net.json", b"{", ScenarioError, "not node-link JSON"),
        ("net.json", b"[1]", ScenarioError, "not node-link JSON"),
        ("net.json", b"{}", ScenarioError, "not node-link JSON"),
        ("net.json", b"[" * 100_000, ScenarioError, "nested too deeply"),
        ("net.json.gz", gzip.compress(b'{"nodes": []}', mtime=0)[:20], TraceError, "cut or damaged"),
        ("net.gml", b"graph []", ScenarioError, "a graph ends in .graphml or .json"),
        ("net.json", b'{"nodes": [], "edges": []}', ScenarioError, "no node of the graph is a server"),
    ],
)
def test_damaged_graph_files(
    name: str, content: bytes | None, error: type[Exception], complaint: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=complaint):
        topology(TopologySpec("graph", path=str(tmp_path / name)), "4x8/2")


@given(st.integers(0, 2_000), st.integers(0, 2_000), st.binary(max_size=6))
@settings(max_examples=60)
def test_damage_raises_only_our_errors(cut: int, place: int, garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("net.graphml", "net.json", "net.json.gz"):
            path = saved(two_switches(), Path(folder) / name)
            damaged = bytearray(path.read_bytes())
            damaged = damaged[: len(damaged) - cut % len(damaged)]
            damaged[place % len(damaged) : place % len(damaged) + len(garbage)] = garbage
            path.write_bytes(damaged)
            try:
                network = topology(TopologySpec("graph", path=str(path)), "4x8/2")
            except GpuschedError:
                continue
            assert len(network.access) == 4


def test_a_table_of_hosts_and_switches(tmp_path: Path) -> None:
    path = tmp_path / "topo.csv"
    path.write_text(CLOS)
    spec = TopologySpec(
        "clos-table", path=str(path), oversubscription=2.0, uplinks=3, pod_oversubscription=4.0, pod_uplinks=2
    )
    assert [group.count for group in matching_cluster(spec, 8).groups] == [2, 2, 1]  # S1, S2, S10
    network = build_topology(spec, matching_cluster(spec, 8))
    assert not network.duplex  # S2 is below P1 and P2
    assert [network.graph.nodes[f"host{i}"]["ip"] for i in range(5)] == ["h1", "h2", "h3", "h4", "h5"]
    assert rows(network, "rack")[::2] == [
        ("ASW S1 -> PSW P1", 4.0, 3),  # 2 hosts x 12 / 2 in 3 links
        ("ASW S2 -> PSW P1", 2.0, 3),  # the same over two switches
        ("ASW S2 -> PSW P2", 2.0, 3),
        ("ASW S10 -> PSW P2", 2.0, 3),
    ]
    assert rows(network, "pod")[::2] == [("PSW P1 -> DSW D1", 18 / 4 / 2, 2), ("PSW P2 -> DSW D1", 12 / 4 / 2, 2)]
    shared = dataclasses.replace(spec, names_per_parent=True)
    assert [group.count for group in matching_cluster(shared, 8).groups] == [2, 1, 1, 1]
    tree = build_topology(shared, matching_cluster(shared, 8))
    assert tree.duplex
    assert [name for name, _, _ in rows(tree, "rack")] == [
        "ASW D1/P1/S1 -- PSW D1/P1",
        "ASW D1/P1/S2 -- PSW D1/P1",
        "ASW D1/P2/S2 -- PSW D1/P2",
        "ASW D1/P2/S10 -- PSW D1/P2",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ip,DSW,PSW\nh,D,P\n", "column 'ASW' is missing"),
        (CLOS + "h1,D1,P1,S1\n", "line 7, field 'ip': 'h1': this host occurs twice"),
        (CLOS + "h9,D1,,S1\n", "line 7, field 'PSW': '': a name is missing"),
        ("ip,DSW,PSW,ASW\n", "the table holds no host"),
    ],
)
def test_damaged_tables(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "topo.csv"
    path.write_text(text)
    with pytest.raises(GpuschedError, match=complaint):
        topology(TopologySpec("clos-table", path=str(path)), "4x8/2")


def test_only_topologies_from_files_define_a_cluster() -> None:
    with pytest.raises(ScenarioError, match="'leaf-spine' comes from no file"):
        matching_cluster(TopologySpec(), 8)


@pytest.mark.skipif(not LINGJUN.is_file(), reason="the published table is not here: ../shared/traces is absent")
@pytest.mark.parametrize(("per_parent", "racks", "duplex"), [(False, 48, False), (True, 119, True)])
def test_lingjun(per_parent: bool, racks: int, duplex: bool) -> None:
    spec = TopologySpec("clos-table", path=str(LINGJUN), names_per_parent=per_parent, pod_oversubscription=2.0)
    cluster = matching_cluster(spec, 8)
    assert len(cluster.racks) == racks
    assert (cluster.racks["nodes"].min(), cluster.racks["nodes"].max()) == ((2, 8) if per_parent else (3, 24))
    network = build_topology(spec, cluster)
    assert network.duplex is duplex
    assert network.edge.tolist() == cluster.nodes["rack"].tolist()
    ways = 1 if duplex else 2
    assert np.bincount(network.links["tier"]).tolist() == [847 * ways, 119 * ways, 3 * ways]
    switches = [name for name, server in network.graph.nodes(data="server") if server is None]
    assert len(switches) == racks + 3 + 1
    pod = network.links[network.links["tier"] == 2][::ways]
    total = (pod["capacity"] * pod["members"]).sum()
    assert total == pytest.approx(847 * 12e9 / 2, rel=1e-12)
    if per_parent:
        hosts = pod["capacity"] * pod["members"] * 2 / 12e9
        assert np.sort(hosts) == pytest.approx([179, 306, 362])
