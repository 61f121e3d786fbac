"""The network: topologies and their links, the cost of collectives, and contention between gangs that share links."""

from gpusched_env.network.changes import NetworkChange
from gpusched_env.network.collectives import COLLECTIVES
from gpusched_env.network.compiled import compiled_links
from gpusched_env.network.contention import CONTENTION_MODELS, DUTIES, K_MODES, Contention
from gpusched_env.network.drawing import draw_topology
from gpusched_env.network.graph_files import matching_cluster
from gpusched_env.network.isolated import isolated_communication_s
from gpusched_env.network.link_rows import LINK_ROW_DTYPE, link_rows
from gpusched_env.network.models import (
    COMMUNICATION_MODELS,
    NETWORK_MODELS,
    Network,
    collectives_of,
    communication_s,
    network_as_dict,
    network_identity,
)
from gpusched_env.network.presets import NETWORK_PRESETS
from gpusched_env.network.topologies import TOPOLOGIES
from gpusched_env.network.topology import LINK_DTYPE, LINK_TIERS, Topology
from gpusched_env.network.topology_spec import TopologySpec, build_topology

__all__ = [
    "COLLECTIVES", "COMMUNICATION_MODELS", "CONTENTION_MODELS", "DUTIES", "K_MODES", "LINK_DTYPE", "LINK_ROW_DTYPE",
    "LINK_TIERS", "NETWORK_MODELS", "NETWORK_PRESETS", "TOPOLOGIES", "Contention", "Network", "NetworkChange",
    "Topology", "TopologySpec", "build_topology", "collectives_of", "communication_s", "compiled_links",
    "draw_topology", "isolated_communication_s", "link_rows",
    "matching_cluster", "network_as_dict", "network_identity",
]  # fmt: skip
