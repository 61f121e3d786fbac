"""Read topologies from files: GraphML, node-link JSON, and tables of hosts and their switches."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.network.links import server_order
from gpusched_env.problem.cluster import Cluster, NodeGroup

if TYPE_CHECKING:
    from gpusched_env.network.topology_spec import TopologySpec

CLOS_COLUMNS: Final = ("ip", "DSW", "PSW", "ASW")  # host, core switch, aggregation switch and rack switch


def user_graph(cluster: Cluster | None, spec: TopologySpec) -> Any:
    """Read a graph from ``spec.path``; it must have the attributes of :mod:`gpusched_env.network.topologies`."""
    return read_graph(_file(spec))


def read_graph(path: Path) -> Any:
    """Read a graph from ``.graphml``, or ``.json`` in the node-link format of networkx, compressed (``.gz``) or not."""
    import networkx as nx

    from gpusched_env.traces.parsing.containers import open_trace

    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix
    readers = {".graphml": nx.read_graphml, ".json": _read_node_link}
    if suffix not in readers:
        raise ScenarioError(f"topology.path {path}: a graph ends in .graphml or .json (node-link), .gz may follow")
    with open_trace(path) as stream:
        try:
            return readers[suffix](stream)
        # The XML parser raises SyntaxError; on malformed content networkx raises almost any exception.
        except (nx.NetworkXException, ValueError, LookupError, TypeError, AttributeError, SyntaxError) as error:
            name = {".graphml": "GraphML", ".json": "node-link JSON"}[suffix]
            raise ScenarioError(
                f"topology.path {path}: not {name} ({type(error).__name__}: {error}); write it with "
                "networkx.write_graphml or networkx.node_link_data"
            ) from error
        except RecursionError as error:
            raise ScenarioError(f"topology.path {path}: nested too deeply; is this the right file?") from error


def _read_node_link(stream: BinaryIO) -> Any:
    import networkx as nx

    data = json.load(stream)
    # networkx before version 3.6 writes the key "links" instead of "edges".
    return nx.node_link_graph(data, edges="edges" if "edges" in data else "links")


def clos_table(cluster: Cluster | None, spec: TopologySpec) -> Any:
    """Build a graph from a table with a row for each host: ``ip``, and its switches ``DSW``, ``PSW`` and ``ASW``.

    This is the format of ``topo.csv`` in alibaba/alibaba-lingjun-dataset-2023 (Cao et al., Crux, SIGCOMM 2024). Hosts
    are sorted by switch, so the hosts of a rack have consecutive numbers. The table has no rates. The summed rate of
    the uplinks of an ASW is the summed rate of its hosts / ``oversubscription``, and is split evenly over its PSWs. The
    same rule holds for the uplinks of a PSW, with ``pod_oversubscription``.
    """
    import networkx as nx

    from gpusched_env.traces.parsing.streams import csv_rows

    hosts = []
    seen = set()
    for place, (host, *switches) in csv_rows(_file(spec), CLOS_COLUMNS):
        for column, name in zip(CLOS_COLUMNS, (host, *switches), strict=True):
            if not name:
                place.refuse(column, name, "a name is missing; correct or remove the row")
        if host in seen:
            place.refuse(CLOS_COLUMNS[0], host, "this host occurs twice; remove one of the two rows")
        seen.add(host)
        names = ["/".join(switches[: i + 1]) if spec.names_per_parent else name for i, name in enumerate(switches)]
        # The level is part of the name, because a PSW and an ASW may have the same name.
        hosts.append((*(f"{level} {name}" for level, name in zip(CLOS_COLUMNS[1:], names, strict=True)), host))
    if not hosts:
        raise ScenarioError(f"topology.path {spec.path}: the table holds no host")
    hosts.sort(key=lambda row: (*map(_natural, row[2::-1]), row[3]))
    graph = nx.Graph()
    for server, (_, _, rack, host) in enumerate(hosts):
        graph.add_node(f"host{server}", server=server, ip=host)
        graph.add_edge(f"host{server}", rack, GBps=spec.nic_GBps)
    _add_uplinks(graph, {(row[2], row[1]) for row in hosts}, spec.oversubscription, spec.uplinks)
    _add_uplinks(graph, {(row[1], row[0]) for row in hosts}, spec.pod_oversubscription, spec.pod_uplinks)
    return graph


def _add_uplinks(graph: Any, pairs: set[tuple[str, str]], ratio: float, members: int) -> None:
    """Connect each pair (lower switch, upper switch).

    The summed rate of a lower switch's uplinks is the summed rate of its links to below / ``ratio``, and is split
    evenly over its upper switches.
    """
    parents = Counter(lower for lower, _ in pairs)
    carried = {
        lower: math.fsum(data["GBps"] * data.get("members", 1) for _, _, data in graph.edges(lower, data=True))
        for lower in parents
    }
    for lower, upper in sorted(pairs, key=lambda pair: (*map(_natural, pair),)):
        graph.add_edge(lower, upper, GBps=carried[lower] / ratio / parents[lower] / members, members=members)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which S2 comes before S10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _file(spec: TopologySpec) -> Path:
    path = Path(spec.path or "")
    if not path.is_file():
        raise ScenarioError(f"topology.path {path}: no such file; check the path")
    return path


def matching_cluster(spec: TopologySpec, gpus: int, gpu_type: str = "V100") -> Cluster:
    """Build a cluster from the servers in a topology file; consecutive servers at the same switches form a rack.

    Parameters
    ----------
    spec : a topology that is read from a file, of kind "graph" or "clos-table"
    gpus : number of GPUs of each server
    gpu_type : GPU type of all servers

    Raises
    ------
    ScenarioError : ``spec`` is not a topology from a file, or no node of the graph is marked as a server
    TraceError : the file cannot be read
    """
    readers = {"graph": user_graph, "clos-table": clos_table}
    if spec.kind not in readers:
        raise ScenarioError(f"topology.kind {spec.kind!r} comes from no file: it is built from a cluster; give one")
    graph = readers[spec.kind](None, spec)
    runs = groupby(server_order(graph), key=lambda name: set(graph[name]))
    return Cluster([NodeGroup(len(list(servers)), gpus, gpu_type) for _, servers in runs])
