"""Time shifts against values worked out by hand and exhaustive search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.network.cassini import best_shifts, burst, cluster_shifts, compatibility
from gpusched_env.network.interference import part_time_slowdown


@pytest.mark.parametrize(
    ("periods_ms", "bursts_ms", "score", "at_shift"),
    [
        ((100, 100), (50, 50), 1.0, 50),
        ((100, 100), (60, 60), 0.8, None),
        ((100, 100), (75, 75), 0.5, None),
        ((100, 200), (50, 50), 1.0, 50),
        ((100, 200), (50, 100), 0.75, None),
    ],
)
def test_full_rate_bursts(
    periods_ms: tuple[int, int], bursts_ms: tuple[int, int], score: float, at_shift: int | None
) -> None:
    demands = [burst(p * 1e-3, busy * 1e-3, 1.0) for p, busy in zip(periods_ms, bursts_ms, strict=True)]
    shifts, found = best_shifts(demands, 1.0)
    assert found == pytest.approx(score, rel=1e-9)
    assert compatibility(demands, shifts, 1.0) == found
    if at_shift is not None:
        assert shifts == [0, at_shift]


def test_one_gang_and_a_crowd() -> None:
    assert best_shifts([burst(0.1, 0.05, 1.0)], 1.0) == ([0], 1.0)
    thirds = [burst(0.09, 0.03, 1.0)] * 3
    shifts, score = best_shifts(thirds, 1.0)
    assert score == 1.0
    assert sorted(shifts) == [0, 30, 60]
    # twice the capacity at all times: all of it is in excess, whatever the shift
    assert best_shifts([burst(0.1, 0.1, 1.0)] * 3, 1.0) == ([0, 0, 0], -1.0)


def test_a_shift_is_a_delay() -> None:
    first, second = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    scores = [compatibility([first, second], [0, shift], 1.0) for shift in range(3)]
    assert scores == pytest.approx([1.0, 1.0, 2 / 3])  # two points later it meets the next burst of the first


def test_long_common_periods_are_cut() -> None:
    _, score = best_shifts([burst(0.97, 0.1, 1.0), burst(1.01, 0.1, 1.0)], 1.0)
    assert 0.9 < score <= 1.0


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=2, max_size=2), st.integers(1, 4))
def test_two_gangs_get_their_optimum(rates: list[list[int]], capacity: int) -> None:
    demands = [np.array(rate, float) for rate in rates]
    best = max(compatibility(demands, [0, shift], capacity) for shift in range(len(demands[1])))
    moved = max(
        compatibility(demands, shifts, capacity) for shifts in itertools.product(*(range(len(d)) for d in demands))
    )
    shifts, score = best_shifts(demands, capacity)
    assert score == best == pytest.approx(moved, rel=1e-12)
    assert compatibility(demands, shifts, capacity) == score


def test_shifts_of_a_cluster() -> None:
    # gangs 0, 1 on link 0; 1, 2 on link 1; gang 3 alone
    links = [{0: 0, 1: 50}, {1: 10, 2: 35}, {3: 7}]
    assert cluster_shifts(links, [100, 100, 60, 100]) == [0, 50, (50 - 10 + 35) % 60, 0]
    assert cluster_shifts([{0: 0, 1: 50}, {1: 10, 0: 35}], [100, 100]) is None
    assert cluster_shifts([{0: 0, 1: 0}, {1: 0, 2: 0}, {2: 0, 0: 0}], [9, 9, 9]) is None
    assert cluster_shifts([], []) == []


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_a_cluster_keeps_the_score_of_every_link(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demands = [rng.integers(0, 3, rng.integers(1, 7)).astype(float) for _ in range(6)]
    links: list[dict[int, int]] = []  # a tree: each new link joins one old gang and some new ones
    placed = [0]
    while len(placed) < len(demands):
        new = range(len(placed), min(len(placed) + int(rng.integers(1, 3)), len(demands)))
        gangs = [int(rng.choice(placed)), *new]
        links.append(dict(zip(gangs, best_shifts([demands[j] for j in gangs], 2.0)[0], strict=True)))
        placed += new
    shifts = cluster_shifts(links, [len(demand) for demand in demands])
    assert shifts is not None
    for link in links:
        there = [demands[j] for j in link]
        kept = compatibility(there, [shifts[j] for j in link], 2.0)
        assert kept == pytest.approx(compatibility(there, list(link.values()), 2.0), rel=1e-12)


def test_coupling_to_contention() -> None:
    assert part_time_slowdown(2.0, 1.0 - 1.0) == 1.0
    assert part_time_slowdown(2.0, 1.0 - 0.75) == 1.25
