"""Pollux's search as in the authors' code: NSGA-II, its avoidance, and what jobs assume across nodes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import random_workload
from hypothesis import given, settings
from hypothesis import strategies as st
from test_baselines_elastic_more import task

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.elastic.pollux.search import SEARCH_DTYPE, Search, assess, repair, sort, spread_fronts
from gpusched_env.cluster import Cluster
from gpusched_env.instance import Instance, Semantics
from gpusched_env.metrics import validate
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.traces.elastic import amdahl, make_elastic


def ranked(costs: list[float], wastes: list[float]) -> Search:
    """Allocations with these objectives, sorted by front and crowding distance."""
    count = len(costs)
    control = np.zeros((), SEARCH_DTYPE)
    control["jobs"], control["nodes"], control["published"] = 1, 1, 1
    found = Search(
        search=control,
        capacity=np.zeros(1, np.int32),
        present=np.zeros((1, 1), np.int32),
        most=np.zeros(1, np.int32),
        changed=np.zeros(1),
        speed_up=np.zeros((1, 2, 1)),
        states=np.zeros((count, 1, 1), np.int32),
        cost=np.array(costs, float),
        waste=np.array(wastes, float),
        front=np.zeros(count, np.int32),
        gap=np.zeros(count),
        last=np.zeros(count, np.int32),
        mark=np.arange(count),
        order=np.arange(count, dtype=np.int32),
        shuffled=np.zeros(1, np.int32),
        used=np.zeros(1, np.int32),
    )
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
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    assert simulate(instance, make_scheduler(spec)).digest() == log.digest()


def test_the_second_objective_changes_plans() -> None:
    instance = get_scenario("pollux-64-v0:jobs=12").instance(0)
    small = "pollux:population=10,generations=10"
    digests = {simulate(instance, make_scheduler(small + more)).digest() for more in ("", ",published=true")}
    assert len(digests) == 2


@pytest.mark.parametrize("explores", [True, False])
def test_a_job_assumes_that_nodes_lengthen_its_communication_by_a_tenth(explores: bool) -> None:
    """Until it has run across nodes; after a run on one GPU only, it has seen no communication at all."""
    scheduler = make_scheduler(f"pollux:published=true,explores={explores}")
    rates = np.array([1.0, 2.0])

    class View:
        def placed_communication_s(self, job: int) -> np.ndarray:
            return np.array([0.0, 0.2])[:, None, None] * np.ones((2, 3, 1))

    scheduler._tried = {0: 1, 1: 2}  # type: ignore[attr-defined]
    assumed = [scheduler._assumed(View(), job, rates).tolist() for job in (0, 1)]  # type: ignore[attr-defined]
    assert assumed[0] == [1.0, 2.0]
    assert assumed[1] == pytest.approx([1.0, 1 / (0.5 + 0.02)])
