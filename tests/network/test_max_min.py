"""Max-min fair rates: values by hand, an independent linear program, and the defining properties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from kernel_solver import KernelNetwork, kernel_rates
from max_min_reference import Array, max_min_by_lp, max_min_rates

from studies.reproduce.kway import straddle_counts

SOLVERS = [max_min_rates, max_min_by_lp, kernel_rates]
Solver = Callable[..., Array]


def ring_use(servers: Sequence[int], rack_of: Sequence[int]) -> list[float]:
    """Edges of a ring on each link: out and in of every server, up and down of every rack, in this order."""
    count, racks = len(rack_of), max(rack_of) + 1
    use = np.zeros(2 * count + 2 * racks)
    for start, end in pairwise([*servers, servers[0]]):
        use[start] += 1
        use[count + end] += 1
        if rack_of[start] != rack_of[end]:
            use[2 * count + rack_of[start]] += 1
            use[2 * count + racks + rack_of[end]] += 1
    return use.tolist()


RACK_OF = [0, 0, 0, 0, 1, 1, 1, 1]


def leaf_spine(omega: float) -> list[float]:
    """Two racks of four servers with ports of 12, uplinks of 4 * 12 / omega."""
    return [12.0] * 16 + [48.0 / omega] * 4


def rings(*servers: Sequence[int]) -> list[list[float]]:
    return [ring_use(each, RACK_OF) for each in servers]


J1, J2, J3, J4 = (0, 4), (1, 5), (2, 3), (2, 6)
FLAT = [0] * 5  # one switch

# name: (capacity, weights, caps, flow_weights, rates)
CASES: dict[str, tuple[Sequence[float], Sequence[Sequence[float]], object, object, Sequence[float]]] = {
    "a": ([1, 2], [[1, 0], [1, 1], [0, 1]], None, None, [0.5, 0.5, 1.5]),
    "a-seven-on-one-link": ([1], [[1]] * 7, None, None, [1 / 7] * 7),
    "a-weights": ([1], [[1], [1]], None, [2, 1], [2 / 3, 1 / 3]),
    "a-cap": ([1], [[1]] * 3, [0.1, np.inf, np.inf], None, [0.1, 0.45, 0.45]),
    "b-jobs": ([1, 2], [[1, 1], [0, 1], [1, 0]], None, None, [0.5, 1.5, 0.5]),
    "b-edges": ([1, 2], [[1, 0], [0, 1], [0, 1], [1, 0]], None, None, [0.5, 1.0, 1.0, 0.5]),
    "c": ([1, 2], [[1, 0], [1, 1], [0, 1], [1, 0]], None, None, [1 / 3, 1 / 3, 5 / 3, 1 / 3]),
    "d-ring-in-order": (leaf_spine(4), rings((0, 1, 4, 5)), None, None, [12]),
    "d-ring-scrambled": (leaf_spine(4), rings((0, 4, 1, 5)), None, None, [6]),
    **{
        f"d-one-omega-{omega}": (leaf_spine(omega), rings(J1), None, None, [rate])
        for omega, rate in ((1, 12), (2, 12), (4, 12), (8, 6))
    },
    **{
        f"d-two-omega-{omega}": (leaf_spine(omega), rings(J1, J2), None, None, [rate, rate])
        for omega, rate in ((1, 12), (2, 12), (4, 6), (8, 3))
    },
    **{
        f"d-four-omega-{omega}": (leaf_spine(omega), rings(J1, J2, J3, J4), None, None, rates)
        for omega, rates in ((1, [12, 12, 6, 6]), (2, [9, 9, 6, 6]), (4, [4, 4, 8, 4]), (8, [2, 2, 10, 2]))
    },
    "e": (
        [1.0] * 10 + [9.0] * 2,
        [ring_use(each, FLAT) for each in ((1, 2), (2, 3), (1, 3), (2, 4))],
        None,
        None,
        [1 / 3, 1 / 3, 2 / 3, 1 / 3],
    ),
}


def solved(solver: Solver, name: str) -> np.ndarray:
    """Rates of a case by a solver."""
    return solver(*(None if each is None else np.asarray(each, float) for each in CASES[name][:4]))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
def test_rates_worked_out_by_hand(name: str, solver: Solver) -> None:
    np.testing.assert_allclose(solved(solver, name), CASES[name][4], rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_edges_of_a_ring_share_one_rate(solver: Solver) -> None:
    """As independent flows the edges of X take 1/2 and 1, but X can use 1/2 of each; Y gets 1 instead of 1.5."""
    jobs, edges = solved(solver, "b-jobs"), solved(solver, "b-edges")
    assert min(edges[:2]) == pytest.approx(jobs[0], rel=1e-9)
    assert edges[2] < jobs[1] - 0.4


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_more_job_can_speed_up_another(solver: Solver) -> None:
    assert solved(solver, "c")[2] > solved(solver, "a")[2] + 0.1


def random_flows(seed: int) -> tuple[Array, Array, Array, Array]:
    """Capacity, weights, caps, flow weights: up to nine flows on up to eight links; some links fill up together."""
    rng = np.random.default_rng(seed)
    links, flows = rng.integers(1, 9), rng.integers(1, 10)
    weights = rng.integers(1, 4, (flows, links)) * (rng.random((flows, links)) < rng.uniform(0.2, 0.8))
    weights[np.arange(flows), rng.integers(links, size=flows)] = 1
    caps = np.where(rng.random(flows) < 0.3, rng.uniform(0.1, 4.0, flows), np.inf)
    capacity = rng.integers(1, 13, links) if seed % 2 else rng.uniform(0.5, 12.0, links)
    return capacity.astype(float), weights.astype(float), caps, rng.choice([1.0, 1.0, 2.0, 0.5], flows)


@pytest.mark.parametrize("seed", range(60))
def test_filling_agrees_with_linear_programs(seed: int) -> None:
    given = random_flows(seed)
    expected = max_min_by_lp(*given)
    np.testing.assert_allclose(max_min_rates(*given), expected, rtol=1e-6)
    np.testing.assert_allclose(kernel_rates(*given), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(200))
def test_no_link_overflows_and_every_flow_has_its_bottleneck(seed: int) -> None:
    capacity, weights, caps, flow_weights = random_flows(seed)
    rates = kernel_rates(capacity, weights, caps, flow_weights)
    np.testing.assert_allclose(rates, max_min_rates(capacity, weights, caps, flow_weights), rtol=1e-9)
    use = rates @ weights
    assert (use <= capacity * (1 + 1e-9)).all()
    assert (rates <= caps * (1 + 1e-12)).all()
    full = use >= capacity * (1 - 1e-9)
    level = rates / flow_weights
    for j in np.flatnonzero(rates < caps * (1 - 1e-12)):
        highest = np.where(weights > 0, level[:, None], 0.0).max(axis=0)  # on each link
        assert (full & (weights[j] > 0) & (level[j] >= highest * (1 - 1e-9))).any()


@pytest.mark.parametrize("seed", range(100))
def test_counting_straddlers_is_a_lower_bound_on_one_switch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    servers, jobs = 6, rng.integers(2, 9)
    gpus_on = np.zeros((jobs, servers), int)
    for row in gpus_on:
        row[rng.choice(servers, rng.integers(2, 5), replace=False)] = 1
    weights = np.array([ring_use(np.flatnonzero(row).tolist(), [0] * servers) for row in gpus_on])
    rates = kernel_rates(np.array([1.0] * 2 * servers + [99.0] * 2), weights)
    contended = 1.0 / straddle_counts(gpus_on)
    assert (rates >= contended * (1 - 1e-12)).all()


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_incremental_solutions_equal_full_ones_bit_for_bit(seed: int, alike: bool) -> None:
    """Flows are added and removed; solving only the flows that a change affects gives equal rates, bit for bit.

    With few kinds of flows, links fill up together up to rounding, which must not depend on the order either.
    """
    rng = np.random.default_rng(seed)
    links = int(rng.integers(2, 12))
    capacity = rng.choice([5 / 7, 10 / 7, 20 / 7], links) if alike else rng.uniform(0.5, 6.0, links)
    network, there = KernelNetwork(capacity, 30), {}
    for _ in range(60):
        number = int(rng.integers(30))
        if number in there:
            network.remove(number)
            del there[number]
        else:
            weights = rng.integers(0, 3, links) * (rng.random(links) < 0.3)
            weights[rng.integers(links)] = 1
            there[number] = (weights / 3, rng.choice([0.1, 0.3, 0.9, np.inf]) if alike else rng.uniform(0.2, 5.0))
            network.add(number, *there[number])
        if rng.random() < 0.4:
            network.rates()
    whole = KernelNetwork(capacity, 30)
    for number, flow in there.items():
        whole.add(number, *flow)
    numbers = list(there)
    assert np.array_equal(network.rates()[numbers], whole.rates()[numbers])
    reference = max_min_rates(capacity, *(np.array(column) for column in zip(*there.values(), strict=True)))
    np.testing.assert_allclose(network.rates()[numbers], reference, rtol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_the_reported_bottleneck_is_full(seed: int) -> None:
    capacity, weights, caps, _ = random_flows(seed)
    network = KernelNetwork(capacity, len(weights))
    for number, row in enumerate(weights):
        network.add(number, row, caps[number])
    rates = network.rates()
    use = rates @ weights
    bottlenecks = network.sim.replicas["bottleneck"][: len(weights)]
    for rate, row, cap, link in zip(rates, weights, caps, bottlenecks, strict=True):
        if link >= 0:
            assert row[link] > 0
            assert use[link] == pytest.approx(capacity[link], rel=1e-9)
        else:
            assert rate == pytest.approx(min([cap, *(capacity[row > 0] / row[row > 0]).tolist()]), rel=1e-12)
