"""Read the servers and links of a networkx graph, and check every attribute."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpusched_env.errors import ScenarioError
from gpusched_env.network.checks import check_count, check_number

Ends = tuple[Any, Any]  # the node from which a link leads, and the node to which it leads


class Link(NamedTuple):
    """One direction of all parallel links from one node to another."""

    GBps: float  # rate of one of the parallel links [1e9 byte/s]
    members: int  # number of parallel links
    latency_s: float  # latency of a step over the link [s]


class Attachment(NamedTuple):
    """The links of a server: switch -> link out of the server, and switch -> link into the server."""

    out: dict[Any, Link]
    into: dict[Any, Link]


def server_order(graph: Any) -> list[Any]:
    """Return the nodes with the attribute ``server``, sorted by it; if all are true, in the order of the graph."""
    marked = {name: value for name, value in graph.nodes(data="server") if value is not None and value is not False}
    if not marked:
        raise ScenarioError(
            "topology: no node of the graph is a server; give each one the attribute 'server': true, or its index in "
            "the cluster"
        )
    if all(value is True for value in marked.values()):
        return list(marked)
    wrong = [name for name, value in marked.items() if isinstance(value, bool) or not isinstance(value, int)]
    if not wrong and sorted(marked.values()) == list(range(len(marked))):
        return sorted(marked, key=marked.__getitem__)
    example = f"; that of {wrong[0]!r} is {marked[wrong[0]]!r}" if wrong else ""
    raise ScenarioError(
        f"topology: the attribute 'server' must be true on all {len(marked)} servers, or their index in the cluster: "
        f"each whole number from 0 to {len(marked) - 1} once{example}"
    )


def distance_from_servers(graph: Any, servers: list[Any]) -> dict[Any, int]:
    """Return node -> number of hops to its nearest server; nodes that cannot reach a server are left out."""
    import networkx as nx

    return {name: hops for hops, layer in enumerate(nx.bfs_layers(nx.Graph(graph), servers)) for name in layer}


def read_links(graph: Any, servers: set[Any], server_GBps: float, hop_latency_s: float) -> dict[Ends, Link]:
    """Read the edges, in both directions if the graph is undirected, and bundle parallel edges."""
    links: dict[Ends, Link] = {}
    for a, b, data in graph.edges(data=True):
        where = f"topology: the link {a!r} - {b!r}"
        if a == b or (a in servers and b in servers):
            raise ScenarioError(
                f"{where} joins {'a node to itself; remove it' if a == b else 'two servers; put a switch between them'}"
            )
        of_server = a in servers or b in servers
        link = Link(
            check_number(data.get("GBps", server_GBps if of_server else None), f"{where}: GBps", positive=True),
            check_count(data.get("members", 1), f"{where}: members"),
            check_number(data.get("latency_s", 0.0 if of_server else hop_latency_s), f"{where}: latency_s"),
        )
        for ends in ((a, b),) if graph.is_directed() else ((a, b), (b, a)):
            known = links.get(ends, link._replace(members=0))
            if (known.GBps, known.latency_s) != (link.GBps, link.latency_s):
                raise ScenarioError(f"{where} occurs twice and differs in GBps or latency_s; make parallel links equal")
            links[ends] = link._replace(members=known.members + link.members)
    return links


def read_attachments(links: dict[Ends, Link], servers: list[Any]) -> list[Attachment]:
    """Collect the links of each server."""
    attachments = {name: Attachment({}, {}) for name in servers}
    for (a, b), link in links.items():
        if a in attachments:
            attachments[a].out[b] = link
        elif b in attachments:
            attachments[b].into[a] = link
    for name, sides in attachments.items():
        for side, way in zip(sides, ("out of it", "into it"), strict=True):
            if not side:
                remedy = (
                    "; the graph is directed: join it to a switch both ways" if any(sides) else "; join it to a switch"
                )
                raise ScenarioError(f"topology: the server {name!r} has no link {way}{remedy}")
            if len({link.GBps for link in side.values()}) > 1:
                raise ScenarioError(f"topology: the links {way} of server {name!r} differ in GBps; make them equal")
    return list(attachments.values())
