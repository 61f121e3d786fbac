"""Cost of an all-reduce against hand-computed times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.network.collectives import COLLECTIVES, Gangs, Links, collective_cost, solo_rate_Bps

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
    ("nccl-tree", EIGHT): ONE_LEVEL,
    ("nccl-tree", SIXTEEN): (9.1335710, 14 * 3.4e-6 + 2 * 14e-6 + M / (0.92 * 12e9)),
    ("nccl", SIXTEEN): (9.1335710, 14 * 3.4e-6 + 2 * 14e-6 + M / (0.92 * 12e9)),
}


@pytest.mark.parametrize("case", TIMES, ids=lambda case: f"{case[0]}-{case[1].gpus}")
def test_times_worked_out_by_hand(case: tuple[str, Gangs]) -> None:
    printed_ms, closed_s = TIMES[case]
    found = float(seconds(*case))
    assert found == pytest.approx(closed_s, rel=1e-9)
    assert found * 1e3 == pytest.approx(printed_ms, abs=5.1e-7)


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
    assert times["best"] == min(times[name] for name in ("ring", "hierarchical", "double-tree"))
    assert times["nccl"] == min(times["ring"], times["nccl-tree"])
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


# --- trees that overlap, reduction in the switch, measured latency

HOPPER = Links(370.8e9, 388e9, 0.0, 0.0, switch_share=0.85)
BLACKWELL = HOPPER._replace(gpu_Bps=721.8e9, switch_share=0.74)


@pytest.mark.parametrize(("servers", "sent"), [(2, 1.0), (3, 1.5), (4, 2.0), (5, 2.0), (100, 2.0)])
def test_trees_send_each_byte_up_and_down_each_edge(servers: int, sent: float) -> None:
    """Two complementary trees over the servers, each for half of the bytes: bytes that leave the busiest server."""
    gangs = Gangs(8 * servers, servers, 8, M)
    cost = collective_cost("nccl-tree", gangs, DGX)
    assert float(cost.wire_bytes) == pytest.approx(sent * M / 0.92, rel=1e-12)
    # a chain of GPUs passes 2M through each port; if the NICs are fast, that is the limit
    fast = DGX._replace(server_Bps=1e15, gpu_latency_s=0.0, server_latency_s=0.0)
    assert float(seconds("nccl-tree", gangs, fast)) == pytest.approx(2 * M / (0.92 * 120e9), rel=1e-9)


def test_a_switch_that_reduces_is_faster_than_a_ring_as_measured() -> None:
    """Measured by gang size, 4 to 8 GPUs: stas00/ml-engineering@744d01e, network/README.md, section SHARP."""
    gpus = np.arange(4, 9)
    gangs = Gangs(gpus, np.ones(5, int), gpus, np.full(5, 8.0 * 2**30))
    ring, switch = (seconds(name, gangs, HOPPER) for name in ("ring", "nvls"))
    assert ring / switch == pytest.approx(2 * (gpus - 1) / (gpus + 1) * 0.85, rel=1e-12)
    assert ring / seconds("nccl", gangs, HOPPER) == pytest.approx([1.00, 1.14, 1.19, 1.26, 1.29], rel=0.03)
    # the rings of B200 reach 682 of 722 GB/s
    chosen = seconds("nccl", gangs, BLACKWELL)
    assert (chosen == seconds("ring", gangs, BLACKWELL)).tolist() == [True, True, False, False, False]
    measured = np.array([1.15, 1.19, 1.23]) * 682.2 / 721.8
    assert (seconds("ring", gangs, BLACKWELL) / chosen)[2:] == pytest.approx(measured, rel=0.03)


def test_nccl_takes_rings_over_many_servers_and_trees_over_two() -> None:
    two, four = Gangs(16, 2, 8, M), Gangs(32, 4, 8, M)
    assert seconds("nccl", two, HOPPER) == seconds("nvls", two, HOPPER)
    assert float(seconds("nvls", two, HOPPER)) == pytest.approx(9 / 8 * M / (0.92 * 0.85 * 370.8e9), rel=1e-12)
    assert seconds("nccl", four, HOPPER) == seconds("ring", four, HOPPER)


MEASURED = DGX._replace(gpu_latency_s=4e-5, server_latency_s=7e-5, depth_s=(3e-6, 1e-4))


def test_measured_latency_is_that_of_a_pipeline_with_the_best_number_of_chunks() -> None:
    """A pipeline of k stages of t seconds moves n chunks in (k + n) (t + V/(n r)) seconds."""
    gangs, stages = Gangs(16, 2, 8, 2.0**20), 20
    cost = collective_cost("ring", gangs, MEASURED)
    wire_s, stage_s = float(cost.wire_bytes) / 12e9, 1e-4 / stages
    chunks = np.exp(np.linspace(-5.0, 10.0, 200_001))
    fastest = ((stages + chunks) * (stage_s + wire_s / chunks)).min()
    assert float(cost.seconds(12e9)) == pytest.approx(7e-5 + fastest - 1e-4, rel=1e-7)
    assert float(cost.fixed_s) == pytest.approx(7e-5 + 2 * np.sqrt(1e-4 * wire_s), rel=1e-12)
    # under contention only the bytes take longer
    assert float(cost.seconds(6e9) - cost.seconds(12e9)) == pytest.approx(wire_s, rel=1e-9)


@given(
    gpus=st.integers(2, 64),
    servers=st.integers(1, 8),
    size=st.floats(1.0, 1e11),
    name=st.sampled_from(["ring", "hierarchical", "nccl-tree", "nvls", "nccl"]),
    share=st.sampled_from([0.5, 0.85]),
)
def test_measured_time_scales(gpus: int, servers: int, size: float, name: str, share: float) -> None:
    servers = min(servers, gpus)
    gang, links = Gangs(gpus, servers, -(-gpus // servers), size), MEASURED._replace(switch_share=share)
    time_s = float(seconds(name, gang, links))
    slow = links._replace(
        gpu_Bps=links.gpu_Bps / 4, server_Bps=links.server_Bps / 4, depth_s=(1.2e-5, 4e-4),
        gpu_latency_s=1.6e-4, server_latency_s=2.8e-4,
    )  # fmt: skip
    assert float(seconds(name, gang, slow)) == pytest.approx(4 * time_s, rel=1e-12)  # all times are 4 times as long
    assert time_s > float(seconds(name, gang, links._replace(depth_s=(0.0, 0.0)))) > (4e-5, 7e-5)[servers > 1]
    # beyond 64 MiB, all buffers are full: more bytes take as long as at the rate of the links
    large, larger = (float(seconds(name, gang._replace(gradient_bytes=x * 2.0**26), links)) for x in (1, 3))
    instant = links._replace(depth_s=None, gpu_latency_s=0.0, server_latency_s=0.0)
    bytes_s = float(seconds(name, gang._replace(gradient_bytes=2.0**27), instant))
    assert larger - large == pytest.approx(bytes_s, rel=1e-9)
