"""A scenario's network, compiled for its cluster and its jobs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from gpusched_env.cluster import Cluster, NodeGroup
from gpusched_env.network.contention import Contention
from gpusched_env.network.link_rows import link_rows
from gpusched_env.network.models import Network
from gpusched_env.network.topology import Topology
from gpusched_env.network.topology_spec import TopologySpec, build_topology
from gpusched_env.workload import Profiles


def compiled_topology(network: Network, cluster: Cluster) -> Topology | None:
    """Build the topology of a network; None if the network has no topology. Equal recipes are built once (cached).

    Raises
    ------
    ScenarioError : the topology does not fit the cluster, or hashed ECMP does not fit the topology
    """
    if network.topology is None:
        return None
    # A hash can send the two directions of a ring over different members, so their loads differ and cannot be folded.
    hashed = network.contention.ecmp == "hashed"
    topology = _built(network.topology, network.topology.file_digest(), tuple(cluster.groups), not hashed)
    if hashed:
        topology.check_hashed_ecmp()
    return topology


def compiled_links(network: Network, cluster: Cluster) -> tuple[Topology | None, np.ndarray, np.ndarray]:
    """Build a topology and its link rows; see :func:`link_rows` for the second and third value.

    Raises
    ------
    ScenarioError : as :func:`compiled_topology`
    """
    topology = compiled_topology(network, cluster)
    return topology, *link_rows(topology, network.contention.ecmp == "hashed")


@lru_cache(maxsize=16)
def _built(spec: TopologySpec, digest: str | None, groups: tuple[NodeGroup, ...], duplex: bool) -> Topology:
    """Build and cache; ``digest`` is part of the cache key, so a changed file is read again."""
    return build_topology(spec, Cluster(groups), duplex)


def contention_ratios(contention: Contention, profiles: Profiles) -> np.ndarray | None:
    """float64 [P, P]: rate of each profile beside another / its rate alone; None unless the model is "table".

    Raises
    ------
    ScenarioError : the table cannot be read, or lacks a pair
    """
    if contention.model != "table":
        return None
    from gpusched_env.network.pairwise import read_pairwise

    table = read_pairwise(Path(contention.ratios))
    return table.matrix(profiles.rows["name"].tolist(), contention.missing, contention.floor)
