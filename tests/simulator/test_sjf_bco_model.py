"""SJF-BCO's model of contention in the simulator: values by hand (equations 6 to 9 of the paper)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import Script, begin

from gpusched_env.errors import WorkloadError
from gpusched_env.event_log import COMPLETE
from gpusched_env.metrics import validate
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import ClusterView, Start, simulate

SERVERS, GPUS = 16, 16
# m = .1, b_e = 10, b_i = 100, C = 1000 in 1e9 bytes a slot; xi_2 = .0005, compute .015 slots.
SWITCH = TopologySpec("single-switch", gpu_GBps=100.0, nic_GBps=10.0, gpu_latency_s=0.0, nic_latency_s=0.0)


def instance(
    gangs: list[int],
    contention: Contention,
    gradient_bytes: float = 0.1e9,
    compute_s: float = 0.015,
    iterations: float = 1_000.0,
    arrival_s: list[float] | None = None,
    slot_s: float = 0.0,
    topology: TopologySpec = SWITCH,
    **network: Any,
) -> Instance:
    row = dict(name="j", batch=1, gradient_bytes=gradient_bytes, memory_bytes=0, skew=0, overlap=1, compute_s=compute_s)
    workload = Workload.from_columns(
        arrival_s or [0.0] * len(gangs), gangs, iterations=[iterations] * len(gangs), profiles=Profiles.from_rows([row])
    )
    priced = Network("topology", topology=topology, contention=contention, **network)
    return Instance(Cluster.homogeneous(SERVERS, GPUS), workload, priced, Semantics(slot_s=slot_s))


def gpus(*on: tuple[int, int], used: list[int]) -> tuple[int, ...]:
    """GPUs of the next gang: the lowest unused ones of each (server, count)."""
    found: list[int] = []
    for server, count in on:
        first = server * GPUS + used[server]
        found += range(first, first + count)
        used[server] += count
    return tuple(found)


def placed(problem: Instance, places: list[list[tuple[int, int]]]) -> ClusterView:
    """All gangs running, each on its (server, count) pairs."""
    simulation, used = begin(problem), [0] * SERVERS
    for job, place in enumerate(places):
        assert simulation.apply(Start(job, gpus=gpus(*place, used=used))) == ""
    return ClusterView(simulation)


def beside(others: int) -> list[list[tuple[int, int]]]:
    """Gangs of two GPUs that straddle server 0 and one other server each."""
    return [[(0, 1), (2 + other, 1)] for other in range(others)]


def test_straddle_counts() -> None:
    """With alpha = 0 and xi_1 = 1 the bytes take p times as long; C is on one server and straddles none."""
    places = [[(1, 2), (2, 2)], [(2, 1), (3, 1)], [(2, 4)], [(1, 1), (3, 3)], [(2, 1), (4, 1)]]
    problem = instance([4, 2, 4, 4, 2], Contention("kway", xi1=1.0, alpha=0.0))
    view = placed(problem, places)
    assert view.network.slowdown(np.arange(5)) == pytest.approx([3, 3, 1, 2, 3], rel=1e-12)
    assert view.network.machines(np.arange(5)).tolist() == [2, 2, 1, 2, 2]


B2 = [
    (1, "clamp", 0.031075, 32),
    (1, "raw", 0.022075, 45),
    (2, "clamp", 0.031075, 32),
    (2, "affine", 0.040075, 24),
    (3, "clamp", 0.040075, 24),
    (3, "raw", 0.040075, 24),
    (3, "affine", 0.049075, 20),
    (4, "clamp", 0.049075, 20),
    (4, "affine", 0.058075, 17),
]


@pytest.mark.parametrize(("p", "k_mode", "tau", "phi"), B2)
def test_iteration_times(p: int, k_mode: str, tau: float, phi: int) -> None:
    contention = Contention("kway", xi1=0.5, alpha=0.2, k_mode=k_mode)
    problem = instance([4] + [2] * (p - 1), contention, reduction_GBps=1_000.0, machine_overhead_s=0.0005)
    view = placed(problem, [[(0, 2), (1, 2)], *beside(p - 1)])
    assert view.network.iteration_s(np.array([0]))[0] == pytest.approx(tau, rel=1e-12)
    assert math.floor(1 / tau) == phi
    alone = placed(problem, [[(0, 4)]])
    assert alone.network.iteration_s(np.array([0]))[0] == pytest.approx(0.017075, rel=1e-12)


@pytest.mark.parametrize(
    ("others", "floor", "fluid"), [(None, 18, 17.075), (0, 32, 31.075), (3, 50, 49.075)], ids=["alone", "p1", "p4"]
)
def test_whole_iterations_in_a_slot(others: int | None, floor: float, fluid: float) -> None:
    """A thousand iterations at tau .017075, .031075, .049075: phi is 58, 32 and 20 a slot."""
    place = [[(0, 4)]] if others is None else [[(0, 2), (1, 2)], *beside(others)]
    for slot_s, end_s in ((1.0, floor), (0.0, fluid)):
        problem = instance(
            [4] + [2] * (others or 0),
            Contention("kway", xi1=0.5, alpha=0.2),
            slot_s=slot_s,
            reduction_GBps=1_000.0,
            machine_overhead_s=0.0005,
        )
        jobs = problem.workload.jobs
        jobs["iterations"][1:] = problem.iterations[1:] = 1e7  # the other gangs stay
        used = [0] * SERVERS
        log = simulate(problem, Script({0.0: [Start(j, gpus=gpus(*p, used=used)) for j, p in enumerate(place)]}))
        first = log.events[(log.events["kind"] == COMPLETE) & (log.events["job"] == 0)]
        assert first["time_s"][0] == pytest.approx(end_s, rel=1e-12)
        validate(problem, log)


def test_a_rate_that_changes() -> None:
    """Ten slots at 32 iterations, then three gangs join: 680 iterations are left at 20 a slot, so 44 slots in total."""
    contention = Contention("kway", xi1=0.5, alpha=0.2)
    problem = instance(
        [4, 2, 2, 2], contention, arrival_s=[0, 10, 10, 10], slot_s=1.0, reduction_GBps=1_000.0, machine_overhead_s=5e-4
    )
    used = [0] * SERVERS
    first = Start(0, gpus=gpus((0, 2), (1, 2), used=used))
    rest = [Start(1 + i, gpus=gpus(*place, used=used)) for i, place in enumerate(beside(3))]
    problem.iterations[1:] = problem.workload.jobs["iterations"][1:] = 1e7
    log = simulate(problem, Script({0.0: [first], 10.0: rest}))
    assert log.events["time_s"][(log.events["kind"] == COMPLETE) & (log.events["job"] == 0)].tolist() == [44.0]


@pytest.mark.parametrize(
    ("p", "servers", "extra", "tau", "phi"),
    [
        (4, 2, 0.15, 0.02 * (1 + 0.0420168067), 47),
        (4, 2, 0.60, 0.02 * (1 + 0.3571428571), 36),
        (8, 8, 0.15, 0.02 * (1 + 0.1764705882), 42),
        (8, 8, 0.60, 0.05, 20),
        (2, 2, 0.15, 0.02 * (1 + 0.0126050420), 49),
    ],
)
def test_budget(p: int, servers: int, extra: float, tau: float, phi: int) -> None:
    """Iteration of .02 slots on ``servers`` servers, on the busiest of which p gangs straddle."""
    fast = TopologySpec("single-switch", gpu_latency_s=0.0, nic_latency_s=0.0)
    problem = instance(
        [servers] + [2] * (p - 1), Contention("budget", xi1=0.5, alpha=0.2, extra=extra), 0.0, 0.02, topology=fast
    )
    others = [[(0, 1), (8 + other, 1)] for other in range(p - 1)]
    view = placed(problem, [[(server, 1) for server in range(servers)], *others])
    found = view.network.iteration_s(np.array([0]))[0]
    assert found == pytest.approx(tau, rel=1e-9)
    assert math.floor(1 / found) == phi


def test_without_loss_and_overhead_placement_does_not_matter() -> None:
    """Equal rates inside and between servers, no overhead, alpha = 0, xi_1 = 0: always one contender."""
    same = TopologySpec("single-switch", gpu_GBps=10.0, nic_GBps=10.0, gpu_latency_s=0.0, nic_latency_s=0.0)
    problem = instance([4, 4, 2, 2], Contention("kway", xi1=0.0, alpha=0.0), topology=same)
    times = placed(problem, [[(0, 4)], [(0, 2), (1, 2)], *beside(2)]).network.iteration_s(np.arange(4))
    assert times[:2] == pytest.approx([0.03, 0.03], rel=1e-12)
    assert times[2:] == pytest.approx([0.025, 0.025], rel=1e-12)


def test_an_iteration_longer_than_a_slot_is_refused() -> None:
    with pytest.raises(
        WorkloadError, match=r"job 0: an iteration takes 1.2 s, and a slot 1 s, so that no whole iteration fits"
    ):
        instance([1], Contention("kway"), compute_s=1.2, slot_s=1.0)
    instance([1], Contention("kway"), compute_s=1.0, slot_s=1.0)
