"""Compile a networkx graph of servers and switches to a Topology."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.errors import ScenarioError
from gpusched_env.network.links import (
    Attachment,
    Ends,
    Link,
    distance_from_servers,
    read_attachments,
    read_links,
    server_order,
)
from gpusched_env.network.routing import Arcs, Routes, even_split_routes
from gpusched_env.network.topology import LINK_DTYPE, LINK_TIERS, Topology

if TYPE_CHECKING:
    from gpusched_env.network.topology_spec import TopologySpec

NAME: Final = 30  # largest number of characters of each end in the name of a link


def compile_graph(graph: Any, spec: TopologySpec, servers: int, duplex: bool = True) -> Topology:
    """Compile a networkx graph to a Topology.

    ``graph`` has the attributes of :mod:`gpusched_env.network.topologies`; defaults are ``nic_GBps`` of an edge of a
    server and ``hop_latency_s`` of one between switches. If it is undirected, each edge is a full-duplex link, else one
    direction; parallel edges are bundled. ``duplex``: both directions of a link of a tree share one row.
    """
    import networkx as nx

    names = server_order(graph)
    if len(names) != servers:
        raise ScenarioError(
            f"topology: the graph has {len(names)} servers but the cluster has {servers} nodes; change the cluster, or "
            "mark exactly its nodes with 'server'"
        )
    links = read_links(graph, set(names), spec.nic_GBps, spec.hop_latency_s)
    attachments = read_attachments(links, names)
    edge, groups = _groups(attachments)
    routes, inner = _routes(graph, links, set(names), groups)
    _check_reach(routes, edge, names)
    folded = duplex and not graph.is_directed() and nx.is_forest(nx.Graph(graph))
    rows, row_of = _rows(
        links, dict(zip(names, attachments, strict=True)), inner, distance_from_servers(graph, names), folded
    )
    ports = [
        (row_of[name, next(iter(at.out))], row_of[next(iter(at.into)), name])
        for name, at in zip(names, attachments, strict=True)
    ]
    access = np.array(ports, np.int32)
    nic_Bps = rows["capacity"][access]
    if spec.nics > 1 and nic_Bps.min() < nic_Bps.max():
        raise ScenarioError(
            f"topology.nics is {spec.nics}, but servers differ in the GBps of all their links; make them equal, or set "
            "nics to 1"
        )
    nic_s = np.array([[max(link.latency_s for link in side.values()) for side in group] for group in groups])
    drawn = graph.copy()
    for a, b, data in drawn.edges(data=True):
        data["rows"] = sorted({row_of[ends] for ends in ((a, b), (b, a)) if ends in row_of})
    return Topology(
        links=rows,
        duplex=folded,
        access=access,
        edge=edge,
        route_at=routes.at,
        route_link=np.array([row_of[ends] for ends in inner], np.int32)[routes.arc],
        route_share=routes.share,
        latency_s=spec.nic_latency_s + nic_s[:, :1] + routes.latency_s + nic_s[None, :, 1],
        gpu_Bps=spec.gpu_GBps * 1e9,
        gpu_latency_s=spec.gpu_latency_s,
        nic_Bps=float(nic_Bps.min()),
        nics=spec.nics,
        host_bus_Bps=math.inf if spec.host_bus_GBps is None else spec.host_bus_GBps * 1e9,
        switch_share=spec.switch_share,
        depth_s=(spec.gpu_depth_s, spec.nic_depth_s) if spec.latency == "measured" else None,
        graph=drawn,
    )


def _groups(attachments: list[Attachment]) -> tuple[np.ndarray, list[Attachment]]:
    """Return the group of each server, int32 [N], and the attachment of each group."""
    number: dict[Any, int] = {}
    groups: list[Attachment] = []
    edge = np.zeros(len(attachments), np.int32)
    for server, attachment in enumerate(attachments):
        alike = tuple(frozenset((at, link.members, link.latency_s) for at, link in side.items()) for side in attachment)
        if alike not in number:
            number[alike] = len(groups)
            groups.append(attachment)
        edge[server] = number[alike]
    return edge, groups


def _routes(
    graph: Any, links: dict[Ends, Link], servers: set[Any], groups: list[Attachment]
) -> tuple[Routes, list[Ends]]:
    """Return the routes between the groups, and the two ends of each arc that the routes refer to."""
    switch = {name: index for index, name in enumerate(name for name in graph if name not in servers)}
    inner = [ends for ends in links if ends[0] in switch and ends[1] in switch]
    arcs = Arcs(
        np.array([switch[a] for a, _ in inner], int),
        np.array([switch[b] for _, b in inner], int),
        np.array([links[ends].members for ends in inner], int),
        np.array([links[ends].latency_s for ends in inner], float),
    )
    leaving, entering = np.zeros((2, len(groups), len(switch)))
    for group, attachment in enumerate(groups):
        for shares, side in zip((leaving, entering), attachment, strict=True):
            for name, link in side.items():
                shares[group, switch[name]] = link.members
    shares_of = [shares / shares.sum(axis=1, keepdims=True) for shares in (leaving, entering)]
    return even_split_routes(len(switch), arcs, *shares_of), inner


def _check_reach(routes: Routes, edge: np.ndarray, names: list[Any]) -> None:
    unreachable = "cannot reach each other; connect their switches"
    uneven = "use some of their links more than others; a server's links are one pool: join both to the same switches"
    for wrong, complaint in ((np.isinf(routes.latency_s), unreachable), (~routes.even, uneven)):
        pairs = np.argwhere(wrong)
        if len(pairs):
            sides = [[names[server] for server in np.flatnonzero(edge == group)] for group in pairs[0]]
            texts = [f"{side[0]!r}" + (f" (and {len(side) - 1} more)" if len(side) > 1 else "") for side in sides]
            raise ScenarioError(f"topology: servers {' and '.join(texts)} {complaint}")


def _rows(
    links: dict[Ends, Link],
    attachments: dict[Any, Attachment],
    inner: list[Ends],
    distance: dict[Any, int],
    folded: bool,
) -> tuple[np.ndarray, dict[Ends, int]]:
    """Return the rows, LINK_DTYPE [L], and the number of the row of each link.

    All links out of a server share one row, and all links into it share another (or the same one, if folded).
    """
    rows: list[tuple[str, float, int, int]] = []
    row_of: dict[Ends, int] = {}

    def add(ends: list[Ends], GBps: float, members: int, tier: int) -> None:
        mirrored = row_of.get(ends[0][::-1]) if folded else None
        if mirrored is None:
            a, b = (
                " ".join(dict.fromkeys(str(name)[:NAME] for name in side))[:NAME] for side in zip(*ends, strict=True)
            )
            rows.append((f"{a} {'--' if folded else '->'} {b}", GBps * 1e9, members, tier))
        row_of.update(dict.fromkeys(ends, len(rows) - 1 if mirrored is None else mirrored))

    for name, (out, into) in attachments.items():
        add([(name, switch) for switch in out], math.fsum(link.GBps * link.members for link in out.values()), 1, 0)
        add([(switch, name) for switch in into], math.fsum(link.GBps * link.members for link in into.values()), 1, 0)
    outermost = len(LINK_TIERS) - 1
    tier = {ends: min(outermost, *(distance.get(end, outermost) for end in ends)) for ends in inner}
    for ends in sorted(inner, key=tier.__getitem__):
        add([ends], links[ends].GBps, links[ends].members, tier[ends])
    return np.array(rows, LINK_DTYPE), row_of
