"""Convert a network to plain data for scenario files and for fingerprints."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from gpusched_env.network.models import Network

# Fields that are always written. Other fields are written only if they differ from their defaults, so that a scenario
# keeps its fingerprint when a new version adds a field.
OF_TIERS: Final = ("model", "bandwidth_GBps", "latency_s")
OF_LINKS: Final = ("model",)


def network_as_dict(network: Network) -> dict[str, Any]:
    """Return the network as plain data for JSON; fields with default values are left out."""
    data = _set_fields(network, OF_TIERS if network.topology is None else OF_LINKS)
    if network.topology is not None:
        data["topology"] = _set_fields(network.topology, ("kind",))
    if "changes" in data:
        data["changes"] = [dataclasses.asdict(change) for change in network.changes]
    if "contention" in data:
        data["contention"] = _set_fields(network.contention, ("model",))
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


def _set_fields(part: Any, always: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, and those in ``always``."""
    values = {item.name: (getattr(part, item.name), item.default) for item in dataclasses.fields(part)}
    return {name: value for name, (value, default) in values.items() if name in always or value != default}
