"""The placement rule "rails": aligned blocks of GPUs on the tightest tier, against brute force."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain

import numpy as np
import pytest
from helpers import begin, check_counts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Start

CLUSTERS = [*map(Cluster.parse, ("4x4/2", "3x8", "4x6/2")), Cluster([NodeGroup(2, 4), NodeGroup(2, 6)])]


def place(cluster: Cluster, busy: tuple[int, ...], gang: int) -> list[int] | None:
    """GPUs that the rule gives beside one-GPU jobs on ``busy``; None if it refuses."""
    jobs = len(busy) + 1
    workload = Workload.from_columns([0.0] * jobs, [1] * len(busy) + [gang], [100.0] * jobs)
    simulation = begin(Instance(cluster, workload, Network("none")), 0)
    for job, gpu in enumerate(busy):
        assert simulation.apply(Start(job, gpus=(gpu,))) == ""
    refusal = simulation.apply(Start(len(busy), "rails"))
    check_counts(simulation)
    return None if refusal else simulation.log().gang(len(simulation.log().events) - 1).tolist()


def free_blocks(cluster: Cluster, busy: tuple[int, ...], gang: int) -> list[list[list[int]]]:
    """The free aligned blocks of each machine."""
    found = []
    for first, count in zip(cluster.nodes["first_gpu"].tolist(), cluster.nodes["gpus"].tolist(), strict=True):
        size = math.gcd(gang, count)
        blocks = [list(range(at, at + size)) for at in range(first, first + count, size)]
        found.append([block for block in blocks if not set(block) & set(busy)])
    return found


@st.composite
def situations(draw: Callable) -> tuple[Cluster, tuple[int, ...], int]:
    cluster = draw(st.sampled_from(CLUSTERS))
    busy = draw(st.sets(st.integers(0, cluster.gpus - 1), max_size=cluster.gpus // 2))
    return cluster, tuple(sorted(busy)), draw(st.integers(1, cluster.gpus - len(busy)))


@settings(max_examples=200)
@example((CLUSTERS[2], (0, 1, 2, 3, 4, 12, 14), 8))  # two racks: else one machine gives more than its even share
@given(situations())
def test_gangs_get_whole_blocks_on_the_tightest_tier_or_wait(situation) -> None:
    cluster, busy, gang = situation
    blocks = free_blocks(cluster, busy, gang)
    room = np.array([sum(map(len, one)) for one in blocks])
    block, size = (math.gcd(gang, most := int(cluster.nodes["gpus"].max())), most)
    even = math.ceil(gang / math.ceil(gang / size) / block) * block  # GPUs on each of as few machines as hold it
    if np.minimum(room, even).sum() >= gang > room.max():
        room = np.minimum(room, even)
    of_rack = np.bincount(cluster.nodes["rack"], room)
    gpus = place(cluster, busy, gang)
    assert (gpus is not None) == (gang <= room.sum())
    if gpus is None:
        return
    given_gpus = set(gpus)
    assert len(given_gpus) == len(gpus) == gang
    every = list(chain.from_iterable(blocks))
    split = [one for one in every if 0 < len(given_gpus & set(one)) < len(one)]
    assert len(split) <= (len(set(cluster.nodes["gpus"].tolist())) > 1)  # one, and only between machines of other sizes
    assert given_gpus <= set(chain.from_iterable(every))
    machines = np.unique(cluster.node_of_gpu[gpus])
    racks = np.unique(cluster.nodes["rack"][machines])
    if room.max() >= gang:
        assert room[machines].tolist() == [room[room >= gang].min()]
    elif of_rack.max() >= gang:
        assert of_rack[racks].tolist() == [of_rack[of_rack >= gang].min()]
    else:
        assert len(racks) == 1 + np.searchsorted(np.cumsum(np.sort(of_rack)[::-1]), gang)


@pytest.mark.parametrize(
    ("busy", "gang", "expected"),
    [
        ((), 8, {0, 1, 2, 3, 4, 5, 6, 7}),
        ((1,), 2, {2, 3}),  # best fit, and not GPUs 0 and 2
        ((1, 2), 2, {4, 5}),  # two are free on the first machine, but not side by side
        ((0,), 8, {8, 9, 10, 11, 12, 13, 14, 15}),  # two whole machines of a rack, not 3 + 4 + 1
        ((0, 8), 8, {4, 5, 6, 7, 12, 13, 14, 15}),  # whole machines of two racks
        ((0, 4, 8), 8, None),  # thirteen are free, on no two whole machines
        ((0,), 6, {2, 3, 4, 5, 6, 7}),  # blocks of two: the first rack has just three
        ((0, 8), 6, {2, 3, 4, 5, 6, 7}),
        ((), 12, {*range(12)}),
    ],
)
def test_by_hand_on_two_racks_of_two_machines_of_four(busy: tuple, gang: int, expected: set | None) -> None:
    gpus = place(CLUSTERS[0], busy, gang)
    assert (None if gpus is None else set(gpus)) == expected


def test_gangs_share_domains_evenly() -> None:
    """64 GPUs on each of four domains of 72, not 72 + 72 + 72 + 40; if one has 40 left, the others give more."""
    cluster = Cluster.parse("4x72")
    on = np.bincount(cluster.node_of_gpu[place(cluster, (), 256)])
    assert on.tolist() == [64, 64, 64, 64]
    on = np.bincount(cluster.node_of_gpu[place(cluster, tuple(range(32)), 256)])
    assert sorted(on.tolist()) == [40, 72, 72, 72]
