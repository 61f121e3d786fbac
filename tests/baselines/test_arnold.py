"""Arnold: its program against all layouts of small jobs, examples by hand, kept places; best fit in plain Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from helpers import first_starts, play, random_instance, random_workload, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.arnold.program import Matrix, layout, pods_for
from gpusched_env.network import NETWORK_PRESETS, build_topology
from gpusched_env.network.plans import planned_s
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import PLAN_DTYPE, Workload
from gpusched_env.simulator import Simulation, Start, simulate
from gpusched_env.traces.profile_tables.llm import Plan, make_run
from gpusched_env.traces.profile_tables.llm.plans import timed


def splits(servers: int, free: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to take ``servers`` servers from the minipods."""
    return (one for one in itertools.product(*(range(room + 1) for room in free)) if sum(one) == servers)


def best_of_all(free: tuple[int, ...], rows: int, columns: int, spread: int) -> int:
    """Least number of minipods for rows of at most ``spread`` minipods, by trying every layout; 0 = none."""
    if rows == 0:
        return 0
    states = {free}
    for _ in range(rows):
        states = {
            tuple(room - used for room, used in zip(state, one, strict=True))
            for state in states
            for one in splits(columns, state)
            if sum(used > 0 for used in one) <= spread
        }
    return min((sum(left < room for left, room in zip(s, free, strict=True)) for s in states), default=0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_the_program_finds_the_fewest_minipods(free: list[int], rows: int, columns: int, spread: int) -> None:
    if any(free):
        assert pods_for(np.array(free), Matrix(rows, columns, 0.5, 0.5), spread) == best_of_all(
            tuple(free), rows, columns, spread
        )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.3, 0.5]),
)
def test_a_layout_has_the_least_cost_of_all(free: list[int], rows: int, columns: int, alpha: float) -> None:
    """The cost of the layout with ranks in a line, where every minipod with servers has room for a row."""
    free = [room if room >= columns else 0 for room in free]
    found = layout(np.array(free), Matrix(rows, columns, alpha, 1 - alpha))
    counts = {spread: best_of_all(tuple(free), rows, columns, spread) for spread in range(1, len(free) + 1)}
    costs = [alpha * count + (1 - alpha) * spread for spread, count in counts.items() if count]
    assert (found is None) == (not costs)
    if found is not None:
        assert (found <= free).all()
        pods = np.repeat(np.arange(len(free)), found).reshape(rows, columns)
        spread = max(len(set(row)) for row in pods.tolist())
        assert alpha * len(set(pods.flat)) + (1 - alpha) * spread == pytest.approx(min(costs))


def test_three_pipelines_of_four_servers_by_hand() -> None:
    """Minipods of 10, 8 and 5 free servers: whole pipelines are 2 + 1, and the last fits the smallest minipod.

    Best fit would take 10 + 2, and split the third pipeline. With alpha = 0.5, 2 minipods cost 1.5 either way.
    """
    free = np.array([8, 10, 5])
    assert layout(free, Matrix(3, 4, 0.0, 1.0)).tolist() == [8, 0, 4]
    assert layout(free, Matrix(3, 4, 0.5, 0.5)).tolist() == [8, 0, 4]
    assert layout(np.array([5, 5, 4]), Matrix(3, 4, 0.3, 0.7)).tolist() == [4, 4, 4]
    assert layout(np.array([6, 6, 1]), Matrix(3, 4, 0.0, 1.0)).tolist() == [6, 6, 0]  # no three whole ones
    assert layout(np.array([4, 4, 3]), Matrix(3, 4, 0.0, 1.0)) is None


def test_fewer_minipods_are_worth_a_split_pipeline_if_data_parallelism_weighs_more() -> None:
    """Minipods 7, 5, 4: three whole pipelines of 4 need all three minipods; two minipods hold them with one split."""
    free = np.array([7, 5, 4])
    assert layout(free, Matrix(3, 4, 0.3, 0.7)).tolist() == [4, 4, 4]  # 0.3 * 3 + 0.7 < 0.3 * 2 + 1.4
    assert layout(free, Matrix(3, 4, 0.7, 0.3)).tolist() == [7, 5, 0]  # stages outermost: 0.7 * 3 + 0.3 > 1.4 + 0.6


PLANS_OF_96 = [Plan(tp=8, pp=4, vp=vp, dp=3) for vp in (1, 5)]


def placed_s(plan: Plan, nodes: list[int], oversubscription: float) -> float:
    """Seconds of an iteration of a 22B model on some of 20 servers in two racks, by the bytes on the links."""
    times = timed(make_run("nemotron-22b", "H100", 96, 4096), plan)[0]
    degrees = (plan.tp, 1, 1, plan.dp, plan.pp, 1)
    row = np.array([(0, 96, *degrees, times.tp_bytes, times.dp_bytes, times.pp_bytes, 0.0)], PLAN_DTYPE)[0]
    spec = dataclasses.replace(NETWORK_PRESETS["h100-8x400"].topology, oversubscription=oversubscription)
    topology = build_topology(spec, Cluster.parse("20x8/10@H100"))
    return times.compute_s + planned_s(topology, row, np.repeat(nodes, 8))


@pytest.mark.parametrize("plan", PLANS_OF_96)
def test_the_gain_over_best_fit_at_96_gpus(plan: Plan) -> None:
    """With the losses between minipods that the paper measured: 0.5 to 5 %. Links alone give none (docs/llm.md)."""
    times = timed(make_run("nemotron-22b", "H100", 96, 4096), plan)[0]
    lost = times.pp_bytes / 48.5e9 * (1 / 0.3 - 1)  # send-receive over minipods: up to 70 % of the rate
    whole = times.compute_s + times.communication_s + times.dp_bytes / 48.5e9 * (1 / 0.83 - 1)
    assert 0.005 <= lost / whole <= 0.05
    assert layout(np.array([10, 10]), Matrix(3, 4, 0.0, 1.0)).tolist() == [8, 4]
    aligned, best_fit = [*range(8), *range(10, 14)], [*range(10), 10, 11]
    assert placed_s(plan, aligned, 1.0) == placed_s(plan, best_fit, 1.0)
    assert placed_s(plan, best_fit, 7.0) < placed_s(plan, aligned, 7.0) < 1.03 * placed_s(plan, best_fit, 7.0)


def with_begin(begin_s: list[float], gpus: list[int], duration: list[float], cluster: str) -> Instance:
    """Jobs that all arrive at 0 and whose users tell their run times."""
    plain = unit_instance([0.0] * len(gpus), gpus, duration, cluster)
    jobs = plain.workload.jobs.copy()
    jobs["estimate_s"] = duration
    workload = Workload(jobs, plain.workload.profiles, attributes={"begin_s": np.array(begin_s)})
    return Instance(plain.cluster, workload, plain.network, plain.semantics)


def test_only_jobs_that_end_in_time_use_the_servers_of_a_planned_job() -> None:
    """Two servers. Job 3 is planned for both at 100 s: job 1 ends at 90 s and may run, job 2 would end at 110 s."""
    instance = with_begin([0, 0, 0, 100], [4, 4, 4, 8], [60, 90, 110, 10], "2x4")
    assert first_starts(instance, "arnold") == [0, 0, 110, 100]
    assert first_starts(instance, "fifo") == [0, 0, 60, 170]


def test_a_planned_job_does_not_wait_for_kept_servers_that_are_late() -> None:
    """The prediction is wrong by 20 s: the planned job waits for its own servers; no other job gets them."""
    instance = with_begin([0, 100, 0], [8, 8, 4], [120, 10, 5], "2x4")
    instance.workload.jobs["estimate_s"][0] = 90
    assert first_starts(instance, "arnold") == [0, 120, 130]


def test_gangs_that_are_no_whole_servers_are_placed_by_best_fit() -> None:
    """Gangs of 1 to 3 GPUs on servers of 4: every decision is that of FIFO."""
    instance = Instance(Cluster.parse("4x4/2"), random_workload(np.random.default_rng(3), 60, 3))
    assert play(instance, "arnold").digest() == simulate(instance, make_scheduler("fifo")).digest()
    assert len(play(random_instance(3, 60, Cluster.parse("4x4/2,3x2@V100")), "arnold").events) >= 180


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["pack", "consolidate", "most-free", "count"]))
def test_a_rule_among_some_gpus_is_that_of_a_cluster_where_the_others_are_held(seed: int, rule: str) -> None:
    """Jobs on whole servers hold what ``among`` hides; the view is as before."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(8) < 0.4
    instance = unit_instance([0.0] * 9 + [1.0], [4] * 8 + [1, int(rng.integers(1, 13))], [99.0] * 10, "8x4/2")
    empty, partly = Simulation(instance), Simulation(instance)
    for simulation in (empty, partly):
        simulation.advance()
    for node in np.flatnonzero(hidden).tolist():
        assert partly.apply(Start(node, gpus=tuple(range(4 * node, 4 * node + 4)))) == ""
    for simulation in (empty, partly):
        simulation.advance()
    view, held = (one.view_for(make_scheduler("fifo")) for one in (empty, partly))
    before = view.free_by_node.tolist(), view.free_gpus, view.is_free.tolist()
    assert view.where(9, rule, np.repeat(~hidden, 4)) == held.where(9, rule)
    assert before == (view.free_by_node.tolist(), view.free_gpus, view.is_free.tolist())
