"""A scenario's network, compiled for its cluster and its jobs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gpusched_env.network.contention import Contention
from gpusched_env.network.link_rows import link_rows
from gpusched_env.network.models import Network
from gpusched_env.network.topology import Topology
from gpusched_env.network.topology_spec import TopologySpec, build_topology
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.workload import Profiles


def compiled_topology(network: Network, cluster: Cluster) -> Topology | None:
    """Build the topology of a network for a cluster; None if the network has no topology.

    The result is cached, so equal arguments return the same topology.

    Raises
    ------
    ScenarioError : the topology does not fit the cluster, or hashed ECMP does not fit the topology
    """
    if network.topology is None:
        return None
    # With hashed ECMP, the two directions of a ring can take different members of a bundle. So the two directions of a
    # link can have different loads, and cannot share a row.
    hashed = network.contention.ecmp == "hashed"
    topology = _built(network.topology, network.topology.file_digest(), tuple(cluster.groups), not hashed)
    if hashed:
        topology.check_hashed_ecmp()
    return topology


def compiled_links(network: Network, cluster: Cluster) -> tuple[Topology | None, np.ndarray, np.ndarray]:
    """Build the topology of a network and its link rows.

    Returns
    -------
    The result of :func:`compiled_topology`, and the two results of :func:`link_rows`.

    Raises
    ------
    ScenarioError : as in :func:`compiled_topology`
    """
    topology = compiled_topology(network, cluster)
    return topology, *link_rows(topology, network.contention.ecmp == "hashed")


@lru_cache(maxsize=256)
def _built(spec: TopologySpec, digest: str | None, groups: tuple[NodeGroup, ...], duplex: bool) -> Topology:
    """Build a topology, or return the cached one; ``digest`` is in the cache key, so a changed file is read again."""
    return build_topology(spec, Cluster(groups), duplex)


def contention_ratios(contention: Contention, profiles: Profiles) -> np.ndarray | None:
    """Return the ratios of the contention model "table"; None if the model is another one.

    Returns
    -------
    float64 [P, P], rate of a job of profile ``a`` (row) beside a job of profile ``b`` (column) / its rate alone.

    Raises
    ------
    ScenarioError : the table cannot be read, or lacks a pair
    """
    if contention.model != "table":
        return None
    from gpusched_env.network.pairwise import ratio_matrix

    return ratio_matrix(contention, profiles.rows["name"].tolist())
