"""Presets of servers and networks, which ``presets.toml`` lists, and the rates and latencies of which they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpusched_env.network.topology_spec import TopologySpec
from gpusched_env.support.files import toml_beside

_TABLES: Final = toml_beside(__file__)
RATES_GBps: Final[dict[str, float]] = _TABLES["rates_GBps"]
STEPS_S: Final[dict[str, float]] = _TABLES["steps_s"]
FABRICS: Final[dict[str, tuple[float, float]]] = {name: tuple(pair) for name, pair in _TABLES["fabrics_s"].items()}


class NetworkPreset(NamedTuple):
    """A kind of server and a network; the topology can be built for any cluster of such servers (docs/network.md)."""

    topology: TopologySpec
    gpus: tuple[int, ...]  # GPUs of a server; several values if the servers differ [GPU]


def _preset(
    gpus: Sequence[int], port: str = "", nic: str = "", nics: int = 1, fabric: str = "", **fields: Any
) -> NetworkPreset:
    """Return a preset from its table."""
    made: dict[str, Any] = {"kind": "leaf-spine" if fabric else "single-switch"}
    if port:
        made |= {"gpu_GBps": RATES_GBps[port], "nic_GBps": nics * RATES_GBps[nic], "nics": nics}
        made |= {"gpu_latency_s": STEPS_S[port.partition("-")[0]], "nic_latency_s": STEPS_S[nic.partition("-")[0]]}
    if fabric:
        (gpu_s, gpu_depth_s), (nic_s, nic_depth_s) = FABRICS["nvlink"], FABRICS[fabric]
        made |= {"latency": "measured", "gpu_latency_s": gpu_s, "gpu_depth_s": gpu_depth_s}
        made |= {"nic_latency_s": nic_s, "nic_depth_s": nic_depth_s}
    return NetworkPreset(TopologySpec(**made | fields), tuple(gpus))


NETWORK_PRESETS: Final = {name: _preset(**entry) for name, entry in _TABLES["presets"].items()}
