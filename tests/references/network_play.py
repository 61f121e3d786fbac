"""Small instances with a topology, and gangs on GPUs that a test gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import ClusterView, Decision, Outcome, Scheduler, Simulation, Start

Gang = Mapping[int, int]  # machine: GPUs there
PROFILE = dict(name="m", batch=1, gradient_bytes=1e8, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=0.05)


def network(contention: str | Contention = "maxmin", kind: str = "single-switch", **fields: Any) -> Network:
    """A network of default rates; ``fields`` are those of TopologySpec, Contention and Network."""
    of_contention = {name: fields.pop(name) for name in tuple(fields) if name in Contention.__dataclass_fields__}
    of_network = {name: fields.pop(name) for name in tuple(fields) if name in Network.__dataclass_fields__}
    if isinstance(contention, str):
        contention = Contention(contention, **of_contention)
    return Network("topology", topology=TopologySpec(kind, **fields), contention=contention, **of_network)


def gpus_of(cluster: Cluster, gangs: Sequence[Gang]) -> list[tuple[int, ...]]:
    """GPU ids of gangs that run at the same time."""
    first = cluster.nodes["first_gpu"].tolist()
    taken = [0] * len(first)
    found = []
    for gang in gangs:
        ids = []
        for machine, count in gang.items():
            ids += range(first[machine] + taken[machine], first[machine] + taken[machine] + count)
            taken[machine] += count
        assert all(a <= b for a, b in zip(taken, cluster.nodes["gpus"].tolist(), strict=True)), "GPUs do not suffice"
        found.append(tuple(ids))
    return found


class AtOnce(Scheduler):
    """Start job i on given GPUs as soon as it has arrived."""

    def __init__(self, places: Sequence[tuple[int, ...]]) -> None:
        self.places = places

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for job in view.waiting.tolist():
            yield Start(job, gpus=self.places[job])


def instance_of(
    cluster: str,
    gangs: Sequence[Gang],
    net: Network,
    iterations: float | Sequence[float] = 1000.0,
    arrival: Sequence[float] | None = None,
    profiles: Sequence[Mapping[str, Any]] = (PROFILE,),
    profile: Sequence[int] | None = None,
    **rules: Any,
) -> tuple[Instance, AtOnce]:
    """An instance with a job for each gang, in this order, and the scheduler that places them."""
    machines = Cluster.parse(cluster)
    count = len(gangs)
    workload = Workload.from_columns(
        np.zeros(count) if arrival is None else arrival,
        [sum(gang.values()) for gang in gangs],
        iterations=np.broadcast_to(iterations, count).astype(float),
        profiles=Profiles.from_rows(profiles),
        profile=[0] * count if profile is None else profile,
    )
    return Instance(machines, workload, net, Semantics(**rules)), AtOnce(gpus_of(machines, gangs))


def started(instance: Instance, scheduler: AtOnce) -> Simulation:
    """A simulation in which all jobs that arrive at 0 have just been started."""
    simulation = Simulation(instance)
    assert simulation.advance() is Outcome.DECIDE
    for decision in scheduler.decide(simulation.view_for(scheduler)):
        assert simulation.apply(decision) == ""
    return simulation


def paces(cluster: str, gangs: Sequence[Gang], net: Network, **others: Any) -> np.ndarray:
    """Seconds of one iteration of each gang while all of them run [s]."""
    simulation = started(*instance_of(cluster, gangs, net, **others))
    return simulation.view_for(AtOnce([])).network.iteration_s(np.arange(len(gangs)))


def rates_GBps(cluster: str, gangs: Sequence[Gang], net: Network, **others: Any) -> list[float]:
    """Rate of each gang's ring [1e9 byte/s]."""
    simulation = started(*instance_of(cluster, gangs, net, **others))
    simulation.view_for(AtOnce([])).network.iteration_s(np.arange(len(gangs)))  # settles
    rows = simulation.arrays.jobs["replica"]
    found: list[float] = (simulation.arrays.replicas["rate_Bps"][rows] / 1e9).tolist()
    return found
