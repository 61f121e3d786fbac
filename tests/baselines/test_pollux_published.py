"""Pollux's search as in the authors' code: NSGA-II, its avoidance, and what jobs assume across nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import play, random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.elastic.pollux.scheduler import Pollux
from gpusched_env.baselines.elastic.pollux.search import SEARCH_DTYPE, Search, assess, repair, sort, spread_fronts
from gpusched_env.core.handle import Batched
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.traces.elastic import amdahl, make_elastic
from tests.baselines.test_elastic_more import task


def ranked(costs: list[float], wastes: list[float]) -> Search:
    """Allocations with these objectives, sorted by front and crowding distance."""
    count = len(costs)
    control = np.zeros((), SEARCH_DTYPE)
    control["jobs"], control["nodes"], control["published"] = 1, 1, 1
    sizes = {"states": count, "jobs": 1, "nodes": 1, "changed": 2, "spread": 2, "sizes": 1}
    states = np.arange(count, dtype=np.int32).reshape(count, 1, 1)
    found: Search = Batched(
        Search, 1, sizes, search=control, states=states, cost=np.array(costs, float), waste=np.array(wastes, float)
    ).handle(0)
    found.order[:] = np.arange(count)
    spread_fronts(found, sort(found, count))
    return found


def test_fronts_and_gaps_on_worked_numbers() -> None:
    """Front 0: (1, 9), (2, 5), (4, 4), (9, 1). Its gap at (2, 5): (4 - 1) / 8 + (9 - 4) / 8 = 1; at (4, 4): 11 / 8."""
    found = ranked([4, 2, 1, 9, 3, 9], [4, 5, 9, 1, 6, 9])
    assert found.front.tolist() == [0, 0, 0, 0, 1, 2]
    assert found.gap[[0, 1]].tolist() == [11 / 8, 1.0]
    assert np.isinf(found.gap[[2, 3]]).all()
    assert found.order.tolist() == [2, 3, 0, 1, 4, 5]  # the smallest cost first, then the other end, then by gap


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=20))
def test_a_front_is_not_dominated_by_later_ones(points: list[tuple[int, int]]) -> None:
    found = ranked([float(a) for a, _ in points], [float(b) for _, b in points])

    def dominates(a: tuple[int, int], b: tuple[int, int]) -> bool:
        return a != b and a[0] <= b[0] and a[1] <= b[1]

    for i, point in enumerate(points):
        above = [k for k, other in enumerate(points) if dominates(other, point)]
        assert found.front[i] == max((found.front[k] + 1 for k in above), default=0)


def test_waste_is_speed_up_per_gpu_of_used_nodes() -> None:
    """Two jobs on one node of four GPUs: -(.5 + 1.5) / 4; on two nodes: -2 / 8."""
    for states, waste in (([[2, 0], [2, 0]], -0.5), ([[4, 0], [0, 4]], -0.25), ([[0, 0], [0, 0]], 0.0)):
        found = task(states, [0.5, 1.5])
        found.speed_up[:, :, 0] = 0.0
        found.search["published"] = 1  # else waste does not count
        assess(found, 0)
        assert found.waste[0] == waste


def test_published_avoidance_also_clears_later_jobs_on_one_node() -> None:
    """Jobs 0 and 2 span both nodes. The second one goes, and so does job 3, which is on one node; job 1 stays."""
    states = [[1, 1], [1, 0], [1, 1], [1, 0]]
    for published, kept in ((0, [[1, 1], [1, 0], [0, 0], [1, 0]]), (1, [[1, 1], [1, 0], [0, 0], [0, 0]])):
        found = task(states, [1.0] * 4)
        found.search["published"] = published
        repair(found, 0)
        assert found.states[0].tolist() == kept


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_published_pollux_plays_by_the_rules(seed: int) -> None:
    jobs = random_workload(np.random.default_rng(seed), 8, 6)
    instance = Instance(
        Cluster.parse("3x4"), make_elastic(jobs, amdahl(0.1), most=8), semantics=Semantics(round_s=60.0)
    )
    spec = "pollux:population=6,generations=4,explores=true,published=true"
    log = play(instance, spec)
    assert simulate(instance, make_scheduler(spec)).digest() == log.digest()


def test_the_second_objective_changes_plans() -> None:
    instance = get_scenario("pollux-64-v0:jobs=12").instance(0)
    small = "pollux:population=10,generations=10"
    digests = {simulate(instance, make_scheduler(small + more)).digest() for more in ("", ",published=true")}
    assert len(digests) == 2


def test_expected_rates_depend_on_where_a_job_has_run() -> None:
    """By hand: an iteration on two GPUs of one node takes 0.5 s, 0.2 s of it communication; across nodes 0.8 s."""
    scheduler = Pollux(explores=True, published=True)
    local, spread = np.array([1.0, 2.0]), np.array([1.0, 1 / 0.8])

    class View:
        def placed_communication_s(self, job: int) -> np.ndarray:
            return np.array([0.0, 0.2])[:, None, None] * np.ones((2, 3, 1))

    view: Any = View()
    scheduler._local, scheduler._spread = {1, 3}, {2, 3}
    expected = [
        (1 / 0.3, 1 / 0.3),  # one GPU: it has seen no communication at all
        (2.0, 1 / 0.52),  # several GPUs of one node: a tenth more communication across nodes
        (1 / 0.3, 1 / 0.8),  # several nodes: no communication on one node
        (2.0, 1 / 0.8),  # both
    ]
    for job, rates in enumerate(expected):
        found = scheduler._assumed(view, job, local, spread)
        assert [of_size.tolist() for of_size in found] == [pytest.approx([1.0, rate]) for rate in rates]
    scheduler.published = False
    for job, second in enumerate((local, local, spread, spread)):
        assert [of_size.tolist() for of_size in scheduler._assumed(view, job, local, spread)] == [
            local.tolist(),
            second.tolist(),
        ]


def test_runs_are_told_apart_by_the_nodes_of_a_gang() -> None:
    """One job, one node: it doubles up to four GPUs there, and never runs across nodes."""
    jobs = Workload.from_columns([0.0], gpus=[1], duration_s=[3_600.0])
    instance = Instance(
        Cluster.parse("1x4"), make_elastic(jobs, amdahl(0.1), most=4), semantics=Semantics(round_s=60.0)
    )
    scheduler = Pollux(explores=True, published=True, population=10, generations=10)
    simulate(instance, scheduler)
    assert scheduler._local == {0}
    assert scheduler._spread == set()
