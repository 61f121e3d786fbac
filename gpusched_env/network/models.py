"""Communication models without contention: seconds of all-reduce for each gang and tier.

To add one, write a function of the same signature and add a line to COMMUNICATION_MODELS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.cluster import TIERS
from gpusched_env.errors import ScenarioError, unknown_name


@dataclass(frozen=True)
class Network:
    """What connects the GPUs, tier by tier (machine, rack, network).

    Parameters
    ----------
    model : a name in COMMUNICATION_MODELS
    bandwidth_GBps : one-way rate of the slowest link of a ring that stays inside the tier [1e9 byte/s]
    latency_s : latency of one step of a ring that stays inside the tier [s]

    Notes
    -----
    The default is a machine of eight V100 on NVLink (120 GB/s, 3.4 us) with one 100 Gb/s port (12.0 GB/s effective,
    14 us; rates and latencies of NVIDIA/nccl, tuning.cc and topo.h) under a spine that is oversubscribed 4:1 (choice).

    Raises
    ------
    ScenarioError : unknown model, a tier missing, a rate that is not positive, an outer tier faster than an inner one
    """

    model: str = "tiered-ring"
    bandwidth_GBps: tuple[float, float, float] = (120.0, 12.0, 3.0)
    latency_s: tuple[float, float, float] = (3.4e-6, 14e-6, 14e-6)

    def __post_init__(self) -> None:
        """Check the tiers once."""
        if self.model not in COMMUNICATION_MODELS:
            raise ScenarioError(
                f"network.model: {unknown_name('communication model', self.model, COMMUNICATION_MODELS)}"
            )
        for field, positive in (("bandwidth_GBps", True), ("latency_s", False)):
            values = np.asarray(getattr(self, field), float)
            if values.shape != (len(TIERS),) or not np.isfinite(values).all() or (values < 0).any():
                raise ScenarioError(f"network.{field} is {getattr(self, field)!r}: give one number a tier {TIERS}")
            if positive and (values == 0).any():
                raise ScenarioError(f"network.{field} is {getattr(self, field)!r}: a rate must be above 0")
            object.__setattr__(self, field, tuple(values.tolist()))
        if list(self.bandwidth_GBps) != sorted(self.bandwidth_GBps, reverse=True) or list(self.latency_s) != sorted(
            self.latency_s
        ):
            raise ScenarioError("network: an outer tier is faster than an inner one; order them machine, rack, network")


def no_communication(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """Cost nothing, wherever the GPUs are: placement does not matter."""
    return np.zeros((len(gpus), len(TIERS)))


def tiered_ring(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """Ring all-reduce, alpha-beta: 2(g-1) steps of M/g bytes at the rate and latency of the placement's tier."""
    bandwidth = np.asarray(network.bandwidth_GBps) * 1e9
    steps = 2.0 * (gpus[:, None] - 1)
    return steps / gpus[:, None] * gradient_bytes[:, None] / bandwidth + steps * np.asarray(network.latency_s)


CommunicationModel = Callable[[Network, np.ndarray, np.ndarray], np.ndarray]
COMMUNICATION_MODELS: Final[dict[str, CommunicationModel]] = {
    "none": no_communication,
    "tiered-ring": tiered_ring,
}


def communication_s(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """float64 [C, tiers]: seconds of communication of one iteration of C gangs; 0 for one GPU or no gradient.

    Parameters
    ----------
    gpus : int [C], gang sizes
    gradient_bytes : float64 [C], bytes all-reduced in each iteration
    """
    seconds = COMMUNICATION_MODELS[network.model](network, gpus, gradient_bytes)
    nothing_to_say = (gpus <= 1) | (gradient_bytes == 0.0)
    return np.where(nothing_to_say[:, None], 0.0, seconds)
