"""Hashed path choice: fixed values, equal values in all kinds of arithmetic, and the load of random hashing."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.network import flows
from gpusched_env.network.ecmp import path_hash

compiled_hash = flows.path_hash


class Hashes(Handle):
    seeds = array(np.int64, "words")
    found = array(np.int64, "words")


@kernel
def fill(these: Hashes) -> None:
    for i in range(len(these.seeds)):
        these.found[i] = compiled_hash(these.seeds[i], i, 1, 7)


def test_the_hash_never_changes() -> None:
    assert [path_hash(*words) for words in ((0, 0, 0, 0), (1, 2, 3, 4), (2**63 - 1, 2**32 - 1, 2**32 - 1, 9))] == [
        2_961_377_086, 2_433_037_029, 251_544_562,
    ]  # fmt: skip


def test_plain_python_numpy_and_compiled_hashes_agree() -> None:
    seeds = np.random.default_rng(0).integers(0, 2**63 - 1, 500)
    out = np.zeros(len(seeds), np.int64)
    fill(Hashes(seeds=seeds, found=out))
    assert out.tolist() == [path_hash(seed, i, 1, 7) for i, seed in enumerate(seeds.tolist())]
    assert out.tolist() == path_hash(seeds, np.arange(len(seeds)), 1, 7).tolist()
    scalars = [path_hash(seed, np.int64(i), np.int64(1), np.int64(7)) for i, seed in enumerate(seeds)]
    assert out.tolist() == scalars
    assert out.min() >= 0
    assert out.max() < 2**32


def chance_of_load_at_most(load: int, flows: int, links: int) -> Fraction:
    """Probability that no link has more flows, by counting assignments of numbered flows link by link."""
    ways = [1] + [0] * flows
    for _ in range(links):
        ways = [sum(math.comb(n, i) * ways[n - i] for i in range(min(load, n) + 1)) for n in range(flows + 1)]
    return Fraction(ways[flows], links**flows)


@functools.cache
def expected_factor(flows: int, links: int) -> float:
    """E[ceil(flows/links) / largest load]: rate of the slowest flow relative to a balanced choice."""
    at_most = [chance_of_load_at_most(load, flows, links) for load in range(flows + 1)]
    balanced = -(-flows // links)
    return float(sum((at_most[load] - at_most[load - 1]) * Fraction(balanced, load) for load in range(1, flows + 1)))


@pytest.mark.parametrize(
    ("flows", "links", "printed", "tolerance", "no_collision"),
    [
        (2, 2, 0.75, 5e-7, 0.5),
        (2, 4, 0.875, 5e-7, 0.75),
        (3, 4, 0.677083, 5e-7, 0.375),
        (4, 4, 0.511719, 5e-7, 0.09375),
        (4, 8, 0.695475, 5e-7, 0.410156),
        (8, 8, 0.410, 0.005, None),
        (8, 16, 0.531, 0.005, None),
        (16, 16, 0.344, 0.005, None),
        (16, 8, 0.498, 0.005, None),
        (64, 8, 0.664, 0.005, None),
    ],
)
@pytest.mark.parametrize("vary", ["seed", "job", "start"])
def test_load_of_hashed_flows(
    flows: int, links: int, printed: float, tolerance: float, no_collision: float | None, vary: str
) -> None:
    expected = expected_factor(flows, links)
    assert expected == pytest.approx(printed, abs=tolerance)
    draws = np.arange(10_000)
    words = {"seed": 3, "job": 5, "start": 0} | {vary: draws}
    chosen = [path_hash(words["seed"], words["job"], words["start"], edge) % links for edge in range(flows)]
    largest = np.max([np.sum([link == which for link in chosen], axis=0) for which in range(links)], axis=0)
    assert np.mean(-(-flows // links) / largest) == pytest.approx(expected, abs=0.01)
    if no_collision is not None:
        exact = math.perm(links, flows) / links**flows
        assert exact == pytest.approx(no_collision, abs=5e-7)
        assert float(chance_of_load_at_most(1, flows, links)) == pytest.approx(exact, rel=1e-9)
        assert np.mean(largest == 1) == pytest.approx(exact, abs=0.02)
