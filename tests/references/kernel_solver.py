"""The compiled max-min solver on links and flows, without a cluster: what is tested, not a reference."""

from __future__ import annotations

import numpy as np
from helpers import unit_instance

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.network.contention import model_number
from gpusched_env.core.network.flows import cross, end_flow, list_flow
from gpusched_env.core.queries import settle_now
from gpusched_env.core.state import Run, State, lengths


class Crossed(Handle):
    """Number of ring edges of a flow on each link."""

    weights = array(np.float64, "links")


@kernel
def _lay(sim: Run, number: int, crossed: Crossed) -> None:
    for link in range(len(crossed.weights)):
        if crossed.weights[link] > 0.0:
            cross(sim, number, link, crossed.weights[link])
    list_flow(sim, number)


class KernelNetwork:
    """Links shared by up to ``flows`` flows; flow i is replica i."""

    def __init__(self, capacity: np.ndarray, flows_at_most: int) -> None:
        self.capacity = np.asarray(capacity, float)
        self.flows = flows_at_most
        count = len(self.capacity)
        sizes = {"links": count, "uses": flows_at_most * count, "seats": flows_at_most}
        self.sim: Run = State(1, lengths(unit_instance([0.0], [1], [1.0], "1x1")) | sizes).handle(0)
        self.sim.world["contention"] = model_number("maxmin")
        for name, value in (("first_use", -1), ("bottleneck", -1), ("compute_s", 1.0), ("overlap", 1.0)):
            self.sim.replicas[name] = value
        self.sim.links["capacity"], self.sim.links["level"] = self.capacity, np.inf
        self.sim.links["first_use"] = self.sim.links["place"] = -1
        self.sim.uses["next_of_replica"] = np.append(np.arange(1, flows_at_most * count), -1)

    def add(self, number: int, weights: np.ndarray, cap: float = np.inf) -> None:
        used = weights > 0
        alone = min([cap, *(self.capacity[used] / weights[used]).tolist()])
        flow = self.sim.replicas[number]
        flow["solo_Bps"] = flow["rate_Bps"] = alone
        flow["wire_bytes"] = 1.0
        _lay(self.sim, number, Crossed(weights=np.array(weights, float)))

    def remove(self, number: int) -> None:
        end_flow(self.sim, number)

    def rates(self) -> np.ndarray:
        settle_now(self.sim)
        rates: np.ndarray = self.sim.replicas["rate_Bps"][: self.flows].copy()
        return rates


def kernel_rates(
    capacity: np.ndarray, weights: np.ndarray, caps: np.ndarray | None = None, flow_weights: np.ndarray | None = None
) -> np.ndarray:
    """Give the rates of all flows. A flow of weight w rises w times as fast: it stands for w edges."""
    weights = np.asarray(weights, float)
    rise = np.ones(len(weights)) if flow_weights is None else np.asarray(flow_weights, float)
    network = KernelNetwork(capacity, len(weights))
    for number, row in enumerate(weights * rise[:, None]):
        network.add(number, row, np.inf if caps is None else caps[number] / rise[number])
    return network.rates() * rise
