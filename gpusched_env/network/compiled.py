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
    """Build the links of a network; None where it is priced by tiers. The same recipe is built once.

    Raises
    ------
    ScenarioError : the topology does not fit the cluster, or hashed ECMP does not fit the topology
    """
    if network.topology is None:
        return None
    # A hash sends the two directions of a ring over different members, so that they are no longer alike.
    hashed = network.contention.ecmp == "hashed"
    topology = _built(network.topology, network.topology.file_digest(), tuple(cluster.groups), not hashed)
    if hashed:
        topology.check_hashed_ecmp()
    return topology


def compiled_links(network: Network, cluster: Cluster) -> tuple[Topology | None, np.ndarray, np.ndarray]:
    """Build a network, and its links as the simulator counts them; see :func:`link_rows` for the last two.

    Raises
    ------
    ScenarioError : as :func:`compiled_topology`
    """
    topology = compiled_topology(network, cluster)
    return topology, *link_rows(topology, network.contention.ecmp == "hashed")


@lru_cache(maxsize=16)
def _built(spec: TopologySpec, digest: str | None, groups: tuple[NodeGroup, ...], duplex: bool) -> Topology:
    """Build once; ``digest`` tells when the file behind the recipe has changed."""
    return build_topology(spec, Cluster(groups), duplex)


def contention_ratios(contention: Contention, profiles: Profiles) -> np.ndarray | None:
    """float64 [P, P]: rate of each profile beside another over its rate alone; None unless contention is a table.

    Raises
    ------
    ScenarioError : the table cannot be read, or lacks a pair
    """
    if contention.model != "table":
        return None
    from gpusched_env.network.pairwise import read_pairwise

    table = read_pairwise(Path(contention.ratios))
    return table.matrix(profiles.rows["name"].tolist(), contention.missing, contention.floor)
