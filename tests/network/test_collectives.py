"""Cost of an all-reduce against hand-computed times, and the store-and-forward reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from link_queue import finish_ns, ring_route, unaware_ns
from network_interference import degradation, part_time_slowdown

from gpusched_env.network.collectives import COLLECTIVES, Gangs, Links, collective_cost, solo_rate_Bps
from gpusched_env.problem.performance import overlapped

DGX = Links(gpu_Bps=120e9, server_Bps=12e9, gpu_latency_s=3.4e-6, server_latency_s=14e-6)
M = 1e8  # [byte]
EIGHT = Gangs(8, 1, 8, M)
SIXTEEN = Gangs(16, 2, 8, M)


def seconds(name: str, gangs: Gangs, links: Links = DGX) -> np.ndarray:
    gangs = Gangs(*map(np.asarray, gangs))
    return collective_cost(name, gangs, links).seconds(solo_rate_Bps(gangs, links))


# printed [ms], closed form [s]
ONE_LEVEL = (1.5059333, 14 * 3.4e-6 + 14 / 8 * M / 120e9)
TWO_LEVELS = (9.8672667, 14 * 3.4e-6 + 2 * 14e-6 + 14 / 8 * M / 120e9 + M / 12e9)
ONE_RING = (15.7482, 28 * 3.4e-6 + 2 * 14e-6 + 30 / 16 * M / 12e9)
TIMES = {
    ("ring", EIGHT): ONE_LEVEL,
    ("ring", SIXTEEN): ONE_RING,
    ("hierarchical", SIXTEEN): TWO_LEVELS,
    ("hierarchical", EIGHT): ONE_LEVEL,
    ("double-tree", Gangs(2, 2, 1, M)): (16.694667, 2 * 14e-6 + 2 * M / 12e9),
    ("double-tree", EIGHT): ONE_LEVEL,
    ("reduce-scatter-all-gather", SIXTEEN): ONE_RING,
    ("best", SIXTEEN): TWO_LEVELS,
}


@pytest.mark.parametrize("case", TIMES, ids=lambda case: f"{case[0]}-{case[1].gpus}")
def test_times_worked_out_by_hand(case: tuple[str, Gangs]) -> None:
    printed_ms, closed_s = TIMES[case]
    found = float(seconds(*case))
    assert found == pytest.approx(closed_s, rel=1e-9)
    assert found * 1e3 == pytest.approx(printed_ms, abs=5.1e-7)


def test_two_gangs_on_the_same_two_servers() -> None:
    gang = Gangs(8, 2, 4, M)
    cost = collective_cost("ring", gang, DGX)
    fixed_s, bytes_s = 12 * 3.4e-6 + 2 * 14e-6, 14 / 8 * M / 12e9
    expected = {  # printed [ms], slowdown of the bytes
        "alone": (14.652133, 1.0),
        "max-min": (29.235467, 2.0),
        "k-way": (29.235467, degradation(2.0, alpha=0.0)),
        "k-way, alpha 0.2": (32.152133, degradation(2.0, alpha=0.2)),
        "half of the time": (21.9438, part_time_slowdown(2.0, 0.5)),
    }
    by_hand = dict(zip(expected, (1.0, 2.0, 2.0, 2.2, 1.5), strict=True))
    for name, (printed_ms, slowdown) in expected.items():
        found = float(cost.seconds(12e9 / slowdown))
        assert found == pytest.approx(fixed_s + by_hand[name] * bytes_s, rel=1e-9), name
        assert found * 1e3 == pytest.approx(printed_ms, abs=5.1e-7), name
    together = {1.0: (64.652133, 79.235467), 2.0: (52.102639, 57.919880), 4.0: (50.091925, 51.401069)}
    for overlap, printed_ms in together.items():
        for rate, printed in zip((12e9, 6e9), printed_ms, strict=True):
            network_s = float(cost.seconds(rate))
            found = float(overlapped(np.array(0.05), np.array(network_s), np.array(overlap)))
            assert found * 1e3 == pytest.approx(printed, abs=5.1e-7)
            assert found == pytest.approx((0.05**overlap + network_s**overlap) ** (1 / overlap), rel=1e-9)


def test_overlap_hides_or_sharpens_contention() -> None:
    def iteration(compute: float, network: float, overlap: float) -> float:
        return float(overlapped(np.array(compute), np.array(network), np.array(overlap)))

    for overlap, printed in ((1.0, 0.3), (2.0, 0.2236068), (5.0, 0.2012347), (10.0, 0.2000195)):
        assert iteration(0.2, 0.1, overlap) == pytest.approx(printed, abs=5e-8)
        assert iteration(0.2, 0.1, overlap) == pytest.approx((0.2**overlap + 0.1**overlap) ** (1 / overlap), rel=1e-9)
    assert iteration(1.0, 20.0, 1.0) / iteration(1.0, 10.0, 1.0) == pytest.approx(21 / 11, rel=1e-9)
    assert iteration(1.0, 20.0, 10.0) / iteration(1.0, 10.0, 10.0) == pytest.approx(2.0, abs=5e-7)


@given(
    gpus=st.integers(2, 4096), servers=st.integers(1, 512), extra=st.integers(0, 7), gradient_bytes=st.floats(1.0, 1e12)
)
def test_identities(gpus: int, servers: int, extra: int, gradient_bytes: float) -> None:
    servers = min(servers, gpus)
    widest = min(-(-gpus // servers) + extra, gpus - servers + 1)
    gang = Gangs(gpus, servers, widest, gradient_bytes)
    instant = DGX._replace(gpu_latency_s=0.0, server_latency_s=0.0)
    rate = 120e9 if servers == 1 else 12e9
    bus = 2 * (gpus - 1) / gpus * gradient_bytes / seconds("ring", gang, instant)
    assert float(bus) == pytest.approx(rate, rel=1e-12)  # of the slowest edge
    times = {name: float(seconds(name, gang)) for name in COLLECTIVES}
    assert times["best"] == min(times.values())
    assert times["reduce-scatter-all-gather"] == times["ring"]
    if servers in (1, gpus):  # one level only
        assert times["hierarchical"] == pytest.approx(times["ring"], rel=1e-12)
    reduced = seconds("ring", gang, DGX._replace(reduction_Bps=1e11))
    assert float(reduced) - times["ring"] == pytest.approx((gpus - 1) / gpus * gradient_bytes / 1e11, rel=1e-6)


def test_gangs_as_arrays_and_gangs_that_send_nothing() -> None:
    gangs = Gangs(np.array([8, 16, 1, 4]), np.array([1, 2, 1, 2]), np.array([8, 8, 1, 2]), np.array([M, M, M, 0.0]))
    for name in COLLECTIVES:
        cost = collective_cost(name, gangs, DGX)
        assert [field.shape for field in cost] == [(4,)] * 3
        found = cost.seconds(np.array([np.inf, 12e9, 0.0, 0.0]))  # a rate of 0 does not delay gangs that send nothing
        alone = [float(seconds(name, Gangs(*(field[i] for field in gangs)))) for i in range(2)]
        assert found.tolist() == [*alone, 0.0, 0.0]


def test_a_dead_link_gives_infinite_time_and_a_port_caps_the_rate() -> None:
    cost = collective_cost("ring", SIXTEEN, DGX)
    assert cost.seconds(0.0) == np.inf
    assert cost.seconds(500e9) == cost.seconds(120e9)
    # eight GPUs send a part each between the servers
    assert collective_cost("hierarchical", SIXTEEN, DGX).cap_Bps == 8 * 120e9


def test_the_chosen_collective_stays_under_contention() -> None:
    gangs = Gangs(np.array([16, 64]), np.array([2, 32]), np.array([8, 2]), np.array([M, 100.0]))
    cost = collective_cost("best", gangs, DGX)
    assert cost.wire_bytes.tolist() == [M, 200.0]  # hierarchical by its bytes, a tree by its latency
    assert cost.seconds(1e9)[0] == pytest.approx(cost.fixed_s[0] + 0.1, rel=1e-12)


CHUNK = 2**20  # [byte]


def test_chunks_without_contention() -> None:
    # [ns]; 1 -> 4 of sixteen nodes: ring, fully connected, switch
    assert [unaware_ns(CHUNK, hops, 50, 500) for hops in (3, 1, 2)] == [21031, 20031, 20531]
    # one hop in each dimension of a ring, a full mesh and a switch
    dimensions = [(1, 200, 50), (1, 100, 500), (2, 50, 2000)]
    assert [unaware_ns(CHUNK, *dimension) for dimension in dimensions] == [4932, 10265, 23531]


def test_chunks_that_queue() -> None:
    assert finish_ns(CHUNK, [ring_route(1, 4, 16)], 50, 500) == 60093
    assert finish_ns(CHUNK, [[1, 4]], 50, 500) == 20031
    assert finish_ns(CHUNK, [[1, 16, 4]], 50, 500) == 40062
    all_gather = [ring_route(start, end, 16) for start in range(16) for end in range(16) if end != start]
    assert finish_ns(CHUNK, all_gather, 50, 500) == 704116


def test_a_ring_all_gather_step_by_step_is_the_ring_formula() -> None:
    # 15 rounds, in which every node sends one part to its neighbour, cost 15 steps of latency and bytes: half
    # of an all-reduce of 16 parts. The reference truncates each step to whole ns.
    step_ns = finish_ns(CHUNK, [[i, (i + 1) % 16] for i in range(16)], 50, 500)
    links = Links(50 * 2**30, 50 * 2**30, 500e-9, 500e-9)
    assert seconds("ring", Gangs(16, 16, 1, 16.0 * CHUNK), links) / 2 == pytest.approx(15 * step_ns * 1e-9, abs=15e-9)
