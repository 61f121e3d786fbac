"""Convert a network to plain data for scenario files and for fingerprints."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpusched_env.network.models import Network
from gpusched_env.support.plain_data import set_fields


def network_as_dict(network: Network) -> dict[str, Any]:
    """Return the network as plain data for JSON; fields with default values are left out."""
    of_tiers = ("bandwidth_GBps", "latency_s") if network.topology is None else ()
    data = set_fields(network, "model", *of_tiers)
    if network.topology is not None:
        data["topology"] = set_fields(network.topology, "kind")
    if "changes" in data:
        data["changes"] = [dataclasses.asdict(change) for change in network.changes]
    if "contention" in data:
        data["contention"] = set_fields(network.contention, "model")
    return data


def network_identity(network: Network) -> dict[str, Any]:
    """Return the data of :func:`network_as_dict` with the SHA-256 of each file instead of its path, for fingerprints.

    Raises
    ------
    ScenarioError : a file cannot be read
    """
    data = network_as_dict(network)
    if network.topology is not None and network.topology.path is not None:
        data["topology"]["path"] = network.topology.file_digest()
    if network.contention.ratios:
        data["contention"]["ratios"] = network.contention.file_digest()
    return data
