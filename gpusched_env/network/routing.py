"""Shortest-path routes with an even split over equal-cost links (ideal ECMP), for all pairs of server groups."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

EXACT: Final = 1e-9  # shares that differ by less count as equal, because they are rounded sums of fractions


class Arcs(NamedTuple):
    """Directed links between switches, as arrays [A]; equal parallel links are members of one arc."""

    tail: np.ndarray  # int, switch from which the arc leads
    head: np.ndarray  # int, switch to which the arc leads
    members: np.ndarray  # int, number of parallel links
    latency_s: np.ndarray  # float64, latency of a step over the arc [s]


class Routes(NamedTuple):
    """The routes between E groups of servers."""

    at: np.ndarray  # int32 [E * E + 1], see Topology.route_at
    arc: np.ndarray  # int32 [X], arcs of the routes
    share: np.ndarray  # float64 [X], share of the route's bytes that crosses the arc
    latency_s: np.ndarray  # float64 [E, E], summed latency of the slowest path between switches [s]; inf = no path
    even: np.ndarray  # bool [E, E], whether routes load all links of both servers evenly


def even_split_routes(switches: int, arcs: Arcs, leaving: np.ndarray, entering: np.ndarray) -> Routes:
    """Return the shortest routes between all pairs of groups; a switch splits bytes evenly over shortest-path links.

    ``leaving``, ``entering`` : float64 [E, S], share of the links out of (into) a server that lead to (from) each
    switch. For each destination, the arcs that lead one hop nearer to it form an acyclic graph. The bytes of all
    sources are pushed through this graph level by level. Time: O(E (S + A E)).
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    groups = len(leaving)
    adjacency = coo_array((np.ones(len(arcs.tail)), (arcs.tail, arcs.head)), shape=(switches, switches)).tocsr()
    hops = dijkstra(adjacency, unweighted=True)
    latency = np.full((groups, groups), np.inf)
    even = np.zeros((groups, groups), bool)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for target in range(groups):
        away = hops[:, entering[target] > 0].min(axis=1)  # [S], hops from each switch to the destination
        first = np.where(leaving > 0, away, np.inf).min(axis=1)
        last = np.where(leaving > 0, away, -np.inf).max(axis=1)
        there = np.isfinite(first)
        bytes_at = np.where(there, leaving.T, 0.0)  # [S, E], bytes of each source at each switch
        delay = np.where(away == 0, 0.0, -np.inf)  # [S], latency from each switch to the destination [s]
        nearer = np.flatnonzero(np.isfinite(away[arcs.tail]) & (away[arcs.tail] == away[arcs.head] + 1))
        ports = np.bincount(arcs.tail[nearer], arcs.members[nearer], switches)
        split = arcs.members[nearer] / ports[arcs.tail[nearer]]
        level = away[arcs.tail[nearer]].astype(int)
        for hop in range(1, int(level.max(initial=0)) + 1):
            step = nearer[level == hop]
            np.maximum.at(delay, arcs.tail[step], arcs.latency_s[step] + delay[arcs.head[step]])
        for hop in range(int(level.max(initial=0)), 0, -1):
            step = nearer[level == hop]
            flow = bytes_at[arcs.tail[step]] * split[level == hop, None]
            np.add.at(bytes_at, arcs.head[step], flow)
            link, source = np.nonzero(flow)
            found.append((source * groups + target, step[link], flow[link, source]))
        arrived = np.where(away == 0, bytes_at.T, 0.0)
        even[:, target] = (first == last) & (np.abs(arrived - entering[target]).max(axis=1) < EXACT)
        latency[:, target] = np.where(there, np.where(leaving > 0, delay, -np.inf).max(axis=1), np.inf)
    pair, arc, share = (np.concatenate(column) for column in zip(*found, strict=True)) if found else _nothing()
    order = np.argsort(pair, kind="stable")  # stable, so that each route keeps the order of its hops
    at = np.zeros(groups * groups + 1, np.int32)
    np.cumsum(np.bincount(pair, minlength=groups * groups), out=at[1:])
    return Routes(at, arc[order].astype(np.int32), share[order], latency, even)


def _nothing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
