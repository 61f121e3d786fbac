"""The compiled max-min solver on bare links and flows, without a cluster around them."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.arrays import LINK_STATE_DTYPE, USE_DTYPE
from gpusched_env.core.state import REPLICA_DTYPE, WORLD_DTYPE
from gpusched_env.simulator import contention, flows


@kernel
def _lay(world, replicas, links, uses, b, number, weights):  # type: ignore[no-untyped-def]
    for link in range(len(weights)):
        if weights[link] > 0.0:
            flows.cross(world, replicas, links, uses, b, number, link, weights[link])
    flows.list_flow(world, replicas, b, number)


@kernel
def _lift(world, replicas, links, uses, b, number):  # type: ignore[no-untyped-def]
    flows.end_flow(world, replicas, links, uses, b, number)


@kernel
def _settle(world, replicas, links, uses, ratios, b):  # type: ignore[no-untyped-def]
    contention.settle(world, replicas, links, uses, ratios, b)


class KernelNetwork:
    """Links that up to ``flows`` flows share; flow i is replica i."""

    def __init__(self, capacity: np.ndarray, flows_at_most: int) -> None:
        self.capacity = np.asarray(capacity, float)
        count = len(self.capacity)
        self.world = np.zeros(1, WORLD_DTYPE)
        self.world["contention"] = flows.MAXMIN
        self.replicas = np.zeros((1, flows_at_most), REPLICA_DTYPE)
        for name, value in (("first_use", -1), ("bottleneck", -1), ("compute_s", 1.0), ("overlap", 1.0)):
            self.replicas[name] = value
        self.links = np.zeros((1, count), LINK_STATE_DTYPE)
        self.links["capacity"], self.links["level"] = self.capacity, np.inf
        self.links["first_use"] = self.links["place"] = -1
        self.uses = np.zeros((1, flows_at_most * count), USE_DTYPE)
        self.uses["next_of_replica"] = np.append(np.arange(1, flows_at_most * count), -1)

    def add(self, number: int, weights: np.ndarray, cap: float = np.inf) -> None:
        used = weights > 0
        alone = min([cap, *(self.capacity[used] / weights[used]).tolist()])
        self.replicas["solo_Bps"][0, number] = self.replicas["rate_Bps"][0, number] = alone
        self.replicas["wire_bytes"][0, number] = 1.0
        _lay(self.world, self.replicas, self.links, self.uses, 0, number, np.asarray(weights, float))

    def remove(self, number: int) -> None:
        _lift(self.world, self.replicas, self.links, self.uses, 0, number)

    def rates(self) -> np.ndarray:
        _settle(self.world, self.replicas, self.links, self.uses, np.ones((1, 1, 1)), 0)
        rates: np.ndarray = self.replicas["rate_Bps"][0].copy()
        return rates


def kernel_rates(
    capacity: np.ndarray, weights: np.ndarray, caps: np.ndarray | None = None, flow_weights: np.ndarray | None = None
) -> np.ndarray:
    """Give the rates of all flows; a flow of weight w rises w times as fast, which is a flow of w edges for each."""
    weights = np.asarray(weights, float)
    rise = np.ones(len(weights)) if flow_weights is None else np.asarray(flow_weights, float)
    network = KernelNetwork(capacity, len(weights))
    for number, row in enumerate(weights * rise[:, None]):
        network.add(number, row, np.inf if caps is None else caps[number] / rise[number])
    return network.rates() * rise
