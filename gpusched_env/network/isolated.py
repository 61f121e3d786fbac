"""Communication time of a gang on an idle topology, for each tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.network.collectives import Gangs, Links, collective_cost, solo_rate_Bps
from gpusched_env.network.topology import Topology
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, TIERS, Cluster

if TYPE_CHECKING:
    from gpusched_env.network.models import Network


def isolated_communication_s(
    network: Network,
    topology: Topology,
    cluster: Cluster,
    gpus: np.ndarray,
    gradient_bytes: np.ndarray,
    collectives: Sequence[str],
) -> np.ndarray:
    """Return the communication time of one iteration of C gangs without contention; float64 [C, tiers] [s].

    For each tier, the time is that of the best placement: the fewest machines of the largest size, with the fastest
    links between them. The simulator does not use this time, but computes the time for the machines that a gang gets.

    Parameters
    ----------
    gpus : int [C], gang sizes
    gradient_bytes : float64 [C], bytes that are all-reduced in each iteration
    collectives : name of the collective of each gang
    """
    kinds = np.asarray(collectives)
    seconds = np.zeros((len(gpus), len(TIERS)))
    largest = int(cluster.nodes["gpus"].max())
    port = float(_pooled(topology)[topology.access[:, 0]].max())
    for tier in (MACHINE, RACK, NETWORK):
        fewest = np.maximum(-(-gpus // largest), 2)
        servers = np.where((gpus == 1) | (tier == MACHINE), 1, np.minimum(fewest, gpus))
        widest = -(-gpus // servers)
        rate_Bps, latency_s = _edge(topology, cluster, tier)
        rails = np.minimum(gpus // servers, topology.nics) / topology.nics
        gpu_Bps = min(topology.gpu_Bps, topology.host_bus_Bps) if tier == MACHINE else topology.gpu_Bps
        links = Links(
            gpu_Bps,
            np.minimum(min(rate_Bps, port, topology.host_bus_Bps), topology.nic_Bps * rails),
            topology.gpu_latency_s,
            latency_s,
            network.reduction_Bps,
            topology.switch_share,
            topology.depth_s,
        )
        gangs = Gangs(gpus, servers, widest, gradient_bytes)
        for kind in np.unique(kinds).tolist():
            alone_s = collective_cost(kind, gangs, links).seconds(solo_rate_Bps(gangs, links))
            seconds[:, tier] = np.where(kinds == kind, alone_s, seconds[:, tier])
        seconds[:, tier] += network.machine_overhead_s * servers
    return seconds


def _pooled(topology: Topology) -> np.ndarray:
    """Return the summed rate of all members of each link [byte/s]; float64 [L]."""
    pooled: np.ndarray = topology.links["capacity"] * topology.links["members"]
    return pooled


def _edge(topology: Topology, cluster: Cluster, tier: int) -> tuple[float, float]:
    """Return the highest rate [byte/s] and the lowest latency [s] of a ring edge between two machines of a tier."""
    rack, group = cluster.nodes["rack"], topology.edge
    pairs = np.unique(np.stack([rack, group], axis=1), axis=0)
    a, b = (axis.reshape(-1) for axis in np.meshgrid(np.arange(len(pairs)), np.arange(len(pairs)), indexing="ij"))
    same_rack = pairs[a, 0] == pairs[b, 0]
    wanted = same_rack if tier != NETWORK or same_rack.all() else ~same_rack
    routes = np.unique(pairs[a[wanted], 1].astype(np.int64) * len(topology.latency_s) + pairs[b[wanted], 1])
    pooled = _pooled(topology)
    best, latency = 0.0, np.inf
    for route in routes.tolist():
        part = slice(topology.route_at[route], topology.route_at[route + 1])
        rate = float((pooled[topology.route_link[part]] / topology.route_share[part]).min(initial=np.inf))
        best = max(best, rate)
        latency = min(latency, float(topology.latency_s.reshape(-1)[route]))
    return best, latency
