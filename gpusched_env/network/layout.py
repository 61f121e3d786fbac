"""Layout of a drawn topology: layers from the servers upwards, with each switch above the nodes that it connects."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.network.links import distance_from_servers, server_order
from gpusched_env.network.topology import Topology

MOST_SERVERS: Final = 24  # with more servers, each group is drawn as one box


class Drawing(NamedTuple):
    """The layout of a drawing.

    ``lines`` : (node, node) -> rows of ``Topology.links`` that the line represents; ``y`` : number of the layer.
    """

    layers: list[list[Any]]
    label: dict[Any, str]
    lines: dict[tuple[Any, Any], list[int]]
    x: dict[Any, float]
    y: dict[Any, int]


def arrange(topology: Topology) -> Drawing:
    """Lay out a topology; with more than MOST_SERVERS servers, the servers of a group share a box."""
    graph = topology.graph
    servers = server_order(graph)
    distance = distance_from_servers(graph, servers)
    top = 1 + max(distance.values())
    bundled = len(servers) > MOST_SERVERS
    box = {name: ("group", int(group)) if bundled else name for name, group in zip(servers, topology.edge, strict=True)}
    label = {box[name]: str(server) for server, name in enumerate(servers)}
    if bundled:
        label = {("group", group): str(count) for group, count in enumerate(np.bincount(topology.edge).tolist())}
    for name, data in graph.nodes(data=True):
        if name not in box:
            label[name] = f"{name}\n{data['switches']} switches" if "switches" in data else str(name)
    lines: dict[tuple[Any, Any], list[int]] = {}
    for a, b, data in graph.edges(data=True):
        ends = box.get(a, a), box.get(b, b)
        lines.setdefault(ends if ends in lines or ends[::-1] not in lines else ends[::-1], []).extend(data["rows"])
    y = {box.get(name, name): distance.get(name, top) for name in graph}
    order = sorted(range(len(servers)), key=lambda server: (topology.edge[server], server))
    layers: list[list[Any]] = [list(dict.fromkeys(box[servers[server]] for server in order))]
    layers += [[name for name in label if y[name] == level] for level in range(1, 1 + max(y.values()))]
    x = _columns(layers, lines, {box[name]: int(group) for name, group in zip(servers, topology.edge, strict=True)})
    return Drawing(layers, label, lines, x, y)


def _columns(
    layers: list[list[Any]], lines: dict[tuple[Any, Any], list[int]], group: dict[Any, int]
) -> dict[Any, float]:
    """Return the x of each node: servers in order, and a switch at the mean x of its neighbours in lower layers."""
    gap = 0.0 if len(layers[0]) == len(set(group.values())) else 0.6
    x: dict[Any, float] = {node: column + gap * group[node] for column, node in enumerate(layers[0])}
    middle_x = (min(x.values()) + max(x.values())) / 2
    width = max(max(x.values()) - min(x.values()), *(len(layer) - 1 for layer in layers))
    low = middle_x - width / 2
    below: dict[Any, list[Any]] = {}
    for a, b in lines:
        below.setdefault(a, []).append(b)
        below.setdefault(b, []).append(a)
    for layer in layers[1:]:
        middle = {}
        for node in layer:
            columns = [x[other] for other in below.get(node, ()) if other in x]
            middle[node] = sum(columns) / len(columns) if columns else middle_x
        layer.sort(key=lambda node: middle[node])
        places = np.array([middle[node] for node in layer])
        step = width / len(layer)
        if len(layer) > 1 and np.diff(places).min() < 0.5 * step:
            places = low + step * (np.arange(len(layer)) + 0.5)
        x.update(zip(layer, places.tolist(), strict=True))
    return x


def segment(drawing: Drawing, a: Any, b: Any) -> np.ndarray:
    """Return the points of a line between two nodes; between nodes of the same layer, the line is an arc."""
    ends = np.array([(drawing.x[node], drawing.y[node]) for node in (a, b)])
    if drawing.y[a] != drawing.y[b]:
        return ends
    along = np.linspace(0.0, 1.0, 17)[:, None]
    width = max(drawing.x.values()) - min(drawing.x.values())
    span = abs(ends[1, 0] - ends[0, 0]) / width  # a wider arc is higher, so arcs do not cover each other
    return ends[0] + along * (ends[1] - ends[0]) + np.array([0.0, 0.6 + 1.2 * span]) * along * (1 - along)
