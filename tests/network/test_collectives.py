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
