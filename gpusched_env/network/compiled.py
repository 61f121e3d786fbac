"""A scenario's network, compiled for its cluster."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gpusched_env.network.link_rows import link_rows
from gpusched_env.network.models import Network
from gpusched_env.network.topology import Topology
from gpusched_env.network.topology_spec import TopologySpec, build_topology
from gpusched_env.problem.cluster import Cluster, NodeGroup


def compiled_links(network: Network, cluster: Cluster) -> tuple[Topology | None, np.ndarray, np.ndarray]:
    """Return the topology of a network for a cluster, and the two results of :func:`link_rows`.

    A network without links has no topology: None. The topology is cached, so equal arguments return the same one.
    """
    # With hashed ECMP, the two directions of a ring can take different members of a bundle. So the two directions of a
    # link can have different loads, and cannot share a row.
    hashed, topology = network.contention.ecmp == "hashed", None
    if network.topology is not None:
        topology = _built(network.topology, network.topology.file_digest(), tuple(cluster.groups), not hashed)
        if hashed:
            topology.check_hashed_ecmp()
    return topology, *link_rows(topology, hashed)


@lru_cache(maxsize=256)
def _built(spec: TopologySpec, digest: str | None, groups: tuple[NodeGroup, ...], duplex: bool) -> Topology:
    """Build a topology, or return the cached one; ``digest`` is in the cache key, so a changed file is read again."""
    return build_topology(spec, Cluster(groups), duplex)
