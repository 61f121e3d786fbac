"""A network as arrays: its links, and the routes between groups of servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ScenarioError

# The tier of a link depends on the hops from its lower end to the nearest server: 0, 1, 2, or at least 3.
LINK_TIERS: Final = ("nic", "rack", "pod", "core")

LINK_DTYPE: Final = np.dtype(
    [
        ("name", "<U64"),  # names of the two ends of the link
        ("capacity", "<f8"),  # [byte/s] rate of one direction of one member
        ("members", "<i4"),  # number of equal parallel links in this row
        ("tier", "<i4"),  # index into LINK_TIERS
    ]
)


@dataclass(frozen=True, eq=False)
class Topology:
    """Links and routes of N servers, which are the nodes of the cluster in the same order.

    Servers that are connected to the same switches by links of equal number and latency form a group; there are E
    groups.

    Parameters
    ----------
    links : LINK_DTYPE [L], first the servers' own links, then the links between switches, inner tiers first
    duplex : True = a row represents both directions of a link, and the network is a tree. A ring is a closed walk, so
        in a tree it crosses each link equally often in both directions; the load of a ring on a row is half of the
        number of times that the ring crosses the link. False = a row represents one direction
    access : int32 [N, 2], row of the link out of each server and row of the link into it; equal if ``duplex``
    edge : int32 [N], group of each server
    route_at : int32 [E * E + 1]; the route from group a to group b is ``route_at[a * E + b] : route_at[a * E + b + 1]``
        of ``route_link`` and ``route_share``. Routes leave out the servers' own links, so the route inside a group is
        empty
    route_link : int32 [X], row of a link between switches
    route_share : float64 [X], share of the route's bytes that crosses this link
    latency_s : float64 [E, E], latency of one step from a server of one group to a server of another group [s]
    gpu_Bps : one-way rate of a GPU's port inside its server [byte/s]
    gpu_latency_s : latency of one step between two GPUs of a server [s]; with ``depth_s``, of a whole collective, as
        ``latency_s`` between servers
    nic_Bps : summed one-way rate of a server's NICs [byte/s]; if servers differ, that of the slowest server
    nics : number of NICs of a server; if it is above 1, a job with g GPUs on a server gets ``min(g, nics) / nics`` of
        ``nic_Bps``
    host_bus_Bps : rate of the bus of a server that all its multi-GPU jobs share [byte/s]; inf = no bus
    switch_share, depth_s : as in :class:`gpusched_env.network.collectives.Links`
    graph : the networkx graph that was compiled; the attribute ``rows`` of an edge holds its indices into ``links``
    """

    links: np.ndarray
    duplex: bool
    access: np.ndarray
    edge: np.ndarray
    route_at: np.ndarray
    route_link: np.ndarray
    route_share: np.ndarray
    latency_s: np.ndarray
    gpu_Bps: float
    gpu_latency_s: float
    nic_Bps: float
    nics: int
    host_bus_Bps: float
    switch_share: float
    depth_s: tuple[float, float] | None
    graph: Any = field(repr=False)

    def route(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the links on the route from group ``a`` to group ``b``, and the share of bytes on each."""
        pair = a * len(self.latency_s) + b
        part = slice(self.route_at[pair], self.route_at[pair + 1])
        return self.route_link[part], self.route_share[part]

    @cached_property
    def uplinks(self) -> np.ndarray:
        """Row of the slowest link that all routes out of a group cross; int32 [E]."""
        groups = len(self.latency_s)
        pooled = self.links["capacity"] * self.links["members"]
        uplinks = np.full(groups, -1, np.int32)
        for group in range(groups if groups > 1 else 0):
            part = slice(self.route_at[group * groups], self.route_at[(group + 1) * groups])
            crossed = np.bincount(self.route_link[part], minlength=len(self.links))
            common = np.flatnonzero(crossed == groups - 1)
            if len(common):
                uplinks[group] = common[np.argmin(pooled[common])]
        return uplinks

    def check_hashed_ecmp(self) -> None:
        """Check that hashed ECMP can be used: equal-cost paths must be members of the same row of ``links``."""
        split = np.flatnonzero(self.route_share < 1.0)
        if len(split):
            pair = int(np.searchsorted(self.route_at, split[0], side="right")) - 1
            a, b = (int(np.argmax(self.edge == group)) for group in divmod(pair, len(self.latency_s)))
            raise ScenarioError(
                f"topology: servers {a} and {b} are joined by equal-cost paths over different links; for hashed ECMP, "
                "give parallel links as one edge with 'members', as all built-in topologies do; or use ideal ECMP"
            )
