"""The network of a scenario, and the communication time of a gang on each tier of an idle network.

To add a communication model, write a function with the signature of CommunicationModel and add a line to
COMMUNICATION_MODELS.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.changes import NetworkChange
from gpusched_env.network.checks import check_count, check_number
from gpusched_env.network.collectives import COLLECTIVES, MEASURED
from gpusched_env.network.contention import NO_CONTENTION, Contention
from gpusched_env.network.topology_spec import TopologySpec
from gpusched_env.problem.cluster import TIERS
from gpusched_env.support.plain_data import set_fields


@dataclass(frozen=True)
class Network:
    """The network that connects the GPUs, and the model of the communication time.

    The values of a tuple are for the tiers machine, rack and network, in this order.

    Parameters
    ----------
    model : a name in COMMUNICATION_MODELS or NETWORK_MODELS
    bandwidth_GBps : one-way rate of the slowest link of a ring inside the tier [1e9 byte/s] (model "tiered-ring")
    latency_s : latency of one step of a ring inside the tier [s] (model "tiered-ring")
    tier_slowdown : iteration time on the tier / iteration time on one machine (model "tiers")
    topology : the links between the machines (model "topology")
    collective : a name in COLLECTIVES; "best" = the fastest collective for each gang (model "topology")
    profile_collectives : pairs (profile name, collective) for profiles with another collective than ``collective``
        (model "topology")
    contention : rules by which gangs that share links slow each other down (model "topology")
    reduction_GBps : rate at which a GPU adds gradients [1e9 byte/s]; None = adding takes no time (model "topology")
    machine_overhead_s : time that each machine of a gang adds to an iteration [s] (model "topology")
    changes : changes of link bandwidth at known times (model "topology")
    tp_machines : number of machines over which a tensor-parallel group may be spread on the best placement; plans with
        larger groups are refused, because their price was measured on two machines only

    Notes
    -----
    The default values describe machines with eight V100 on NVLink (120 GB/s, 3.4 us) and one 100 Gb/s port (12.0 GB/s
    effective, 14 us) below a spine that is oversubscribed 4:1 (choice). The rates and latencies come from NVIDIA/nccl,
    tuning.cc and topo.h.
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
    tp_machines: int = 2

    def __post_init__(self) -> None:
        """Check every field."""
        known = [*COMMUNICATION_MODELS, *NETWORK_MODELS]
        if self.model not in known:
            raise ScenarioError(f"network.model: {unknown_name('communication model', self.model, known)}")
        for field, positive in (("bandwidth_GBps", True), ("latency_s", False), ("tier_slowdown", True)):
            values = np.asarray(getattr(self, field), float)
            wrong = not np.isfinite(values).all() or (values <= 0 if positive else values < 0).any()
            if wrong or values.shape != (len(TIERS),):
                wanted = f"give one number a tier {TIERS}{', above 0' * positive}"
                raise ScenarioError(f"network.{field} is {getattr(self, field)!r}: {wanted}")
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
            place = f"network.profile_collectives, {profile!r}" if profile else "network.collective"
            if name not in COLLECTIVES:
                raise ScenarioError(f"{place}: {unknown_name('collective', str(name), COLLECTIVES)}")
            if name == "nvls" and self.topology is not None and self.topology.switch_share == 0.0:
                raise ScenarioError(f"{place}: nvls needs switches that reduce: set topology.switch_share above 0")
            if self.topology is not None and self.topology.latency == "measured" and name not in MEASURED:
                raise ScenarioError(f"{place}: measured latencies are not those of {name}: set the collective to nccl")
        if len(dict(self.profile_collectives)) < len(self.profile_collectives):
            raise ScenarioError("network.profile_collectives: a profile occurs twice; keep one")
        if self.reduction_GBps is not None:
            check_number(self.reduction_GBps, "network.reduction_GBps", positive=True)
        check_number(self.machine_overhead_s, "network.machine_overhead_s")
        check_count(self.tp_machines, "network.tp_machines")
        for field in ("collective", "profile_collectives", "reduction_GBps", "machine_overhead_s", "changes"):
            if self.topology is None and getattr(self, field) != getattr(Network, field):
                raise ScenarioError(f"network.{field} has no effect without links: leave it out, or give a topology")

    def with_topology(self, topology: TopologySpec) -> Network:
        """Return the network with other links; if it had none, gangs contend for them by the model maxmin.

        Measured latencies are those of the collective "nccl", which replaces others.
        """
        fields: dict[str, Any] = {"topology": topology}
        if topology.latency == "measured" and self.collective not in MEASURED:
            fields["collective"] = "nccl"
        if self.topology is None:
            return Network("topology", contention=Contention(), **fields)
        return dataclasses.replace(self, **fields)

    @property
    def reduction_Bps(self) -> float:
        """Rate at which a GPU adds gradients [byte/s]; inf = adding takes no time."""
        return math.inf if self.reduction_GBps is None else self.reduction_GBps * 1e9


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
    """Return :func:`network_as_dict` with the SHA-256 of each file instead of its path, for fingerprints."""
    data = network_as_dict(network)
    if network.topology is not None and network.topology.path is not None:
        data["topology"]["path"] = network.topology.file_digest()
    if network.contention.ratios:
        data["contention"]["ratios"] = network.contention.file_digest()
    return data


def collectives_of(network: Network, profiles: Sequence[str]) -> list[str]:
    """Return the name of the collective of each profile.

    Parameters
    ----------
    network : the network, which assigns collectives to profiles
    profiles : names of the profiles
    """
    own = dict(network.profile_collectives)
    for name in own:
        if name not in profiles:
            raise ScenarioError(f"network.profile_collectives: {unknown_name('profile', name, profiles)}")
    return [own.get(name, network.collective) for name in profiles]


def no_communication(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """Return 0 on every tier, so that the placement has no effect."""
    return np.zeros((len(gpus), len(TIERS)))


def tiered_ring(network: Network, gpus: np.ndarray, gradient_bytes: np.ndarray) -> np.ndarray:
    """Return the time of a ring all-reduce in the alpha-beta model."""
    bandwidth = np.asarray(network.bandwidth_GBps) * 1e9
    steps = 2.0 * (gpus[:, None] - 1)
    return steps / gpus[:, None] * gradient_bytes[:, None] / bandwidth + steps * np.asarray(network.latency_s)


# Models that need more data than the gang size and the gradient bytes; problem/performance.py implements them.
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
    """Return the communication time of one iteration of C gangs on each tier; float64 [C, tiers] [s].

    It is 0 for gangs of one GPU and for 0 gradient bytes.

    Parameters
    ----------
    network : a network whose model is in COMMUNICATION_MODELS
    gpus : int [C], gang sizes
    gradient_bytes : float64 [C], bytes that are all-reduced in each iteration
    """
    seconds = COMMUNICATION_MODELS[network.model](network, gpus, gradient_bytes)
    nothing_to_say = (gpus <= 1) | (gradient_bytes == 0.0)
    return np.where(nothing_to_say[:, None], 0.0, seconds)
