"""The network of a scenario, and a gang's communication time on each tier of an idle network.

To add a communication model, write a function of the same signature and add a line to COMMUNICATION_MODELS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.cluster import TIERS
from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.changes import NetworkChange
from gpusched_env.network.checks import check_number
from gpusched_env.network.collectives import COLLECTIVES
from gpusched_env.network.contention import NO_CONTENTION, Contention
from gpusched_env.network.topology_spec import TopologySpec


@dataclass(frozen=True)
class Network:
    """What connects the GPUs, tier by tier (machine, rack, network).

    Parameters
    ----------
    model : a name in COMMUNICATION_MODELS or NETWORK_MODELS
    bandwidth_GBps : one-way rate of the slowest link of a ring that stays inside the tier [1e9 byte/s]
    latency_s : latency of one step of a ring that stays inside the tier [s]
    tier_slowdown : iteration time on each tier over that on one machine (model "tiers")
    topology : the links between the machines (model "topology")
    collective : a name in COLLECTIVES (model "topology"); "best" is the fastest for each gang
    profile_collectives : (profile name, collective) of profiles that do not use ``collective`` (model "topology")
    contention : how gangs that share links slow each other down (model "topology")
    reduction_GBps : rate at which a GPU adds gradients up [1e9 byte/s]; None = no time (model "topology")
    machine_overhead_s : time that each machine of a gang adds to an iteration [s] (model "topology")
    changes : changes of the bandwidth of links at known times (model "topology")

    Notes
    -----
    The default is a machine of eight V100 on NVLink (120 GB/s, 3.4 us) with one 100 Gb/s port (12.0 GB/s effective,
    14 us; rates and latencies of NVIDIA/nccl, tuning.cc and topo.h) under a spine that is oversubscribed 4:1 (choice).

    Raises
    ------
    ScenarioError : unknown model, a tier missing, a rate that is not positive, an outer tier faster than an inner one,
        a field that the model does not use
    """

    model: str = "tiered-ring"
    bandwidth_GBps: tuple[float, float, float] = (120.0, 12.0, 3.0)
    latency_s: tuple[float, float, float] = (3.4e-6, 14e-6, 14e-6)
    tier_slowdown: tuple[float, float, float] = (1.0, 1.1, 1.3)
    topology: TopologySpec | None = None
    collective: str = "ring"
    profile_collectives: tuple[tuple[str, str], ...] = ()
    contention: Contention = NO_CONTENTION
    reduction_GBps: float | None = None
    machine_overhead_s: float = 0.0
    changes: tuple[NetworkChange, ...] = ()

    def __post_init__(self) -> None:
        """Check every field."""
        known = [*COMMUNICATION_MODELS, *NETWORK_MODELS]
        if self.model not in known:
            raise ScenarioError(f"network.model: {unknown_name('communication model', self.model, known)}")
        for field, positive in (("bandwidth_GBps", True), ("latency_s", False), ("tier_slowdown", True)):
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
        if (self.model == "topology") != (self.topology is not None):
            raise ScenarioError("network.topology: give one with model 'topology', and with no other model")
        if self.contention.model != "none" and self.topology is None:
            raise ScenarioError(
                f"network.contention is {self.contention.model!r}, but gangs can share links only where there are "
                "links: give a topology and model 'topology'"
            )
        for profile, name in (("", self.collective), *self.profile_collectives):
            if name not in COLLECTIVES:
                place = f"profile_collectives, {profile!r}" if profile else "collective"
                raise ScenarioError(f"network.{place}: {unknown_name('collective', str(name), COLLECTIVES)}")
        if len(dict(self.profile_collectives)) < len(self.profile_collectives):
            raise ScenarioError("network.profile_collectives: a profile occurs twice; keep one")
        if self.reduction_GBps is not None:
            check_number(self.reduction_GBps, "network.reduction_GBps", positive=True)
        check_number(self.machine_overhead_s, "network.machine_overhead_s")
        for field in ("collective", "profile_collectives", "reduction_GBps", "machine_overhead_s", "changes"):
            if self.topology is None and getattr(self, field) != getattr(Network, field):
                raise ScenarioError(f"network.{field} has no effect without links: leave it out, or give a topology")

    @property
    def reduction_Bps(self) -> float:
        """Rate at which a GPU adds gradients up [byte/s]; inf = no time."""
        return math.inf if self.reduction_GBps is None else self.reduction_GBps * 1e9


def collectives_of(network: Network, profiles: Sequence[str]) -> list[str]:
    """Collective of each profile.

    Raises
    ------
    ScenarioError : the network names a profile that the jobs do not have
    """
    own = dict(network.profile_collectives)
    for name in own:
        if name not in profiles:
            raise ScenarioError(f"network.profile_collectives: {unknown_name('profile', name, profiles)}")
    return [own.get(name, network.collective) for name in profiles]


def no_communication(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """Zero on every tier, so placement does not matter."""
    return np.zeros((len(gpus), len(TIERS)))


def tiered_ring(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """Ring all-reduce, alpha-beta: 2(g-1) steps of M/g bytes at the rate and latency of the placement's tier."""
    bandwidth = np.asarray(network.bandwidth_GBps) * 1e9
    steps = 2.0 * (gpus[:, None] - 1)
    return steps / gpus[:, None] * gradient_bytes[:, None] / bandwidth + steps * np.asarray(network.latency_s)


# Models that need more than the gang and its bytes; gpusched_env.performance prices them.
NETWORK_MODELS: Final = {
    "tiers": "each tier stretches the whole iteration by tier_slowdown (Themis, NSDI 2020, footnote 3)",
    "dimensions": "a profile's efficiency on the shape of each placement: GPUs by slot, machine and rack (Dally)",
    "topology": "a collective over the links of a topology, which gangs may contend for",
}
CommunicationModel = Callable[[Network, np.ndarray, np.ndarray], np.ndarray]
COMMUNICATION_MODELS: Final[dict[str, CommunicationModel]] = {
    "none": no_communication,
    "tiered-ring": tiered_ring,
}


def communication_s(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """float64 [C, tiers]: communication time [s] of one iteration of C gangs; 0 for one GPU or no gradient.

    Parameters
    ----------
    gpus : int [C], gang sizes
    gradient_bytes : float64 [C], bytes all-reduced in each iteration
    """
    seconds = COMMUNICATION_MODELS[network.model](network, gpus, gradient_bytes)
    nothing_to_say = (gpus <= 1) | (gradient_bytes == 0.0)
    return np.where(nothing_to_say[:, None], 0.0, seconds)
