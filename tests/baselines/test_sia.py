"""Sia: its integer program by hand, by brute force and by HiGHS; its placement; its runs on several GPU types."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.elastic.sia.placing import place
from gpusched_env.baselines.elastic.sia.program import WAITS, Program, costs
from gpusched_env.baselines.elastic.sia.scheduler import Sia
from gpusched_env.errors import SchedulerError, WorkloadError
from gpusched_env.event_log import RESIZE
from gpusched_env.metrics import validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.sizes import Sizes
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Outcome, Simulation, simulate
from gpusched_env.traces.elastic import check_rule

WAIT = 110  # cost of a job that waits, in hundredths


def program(rows: list[list[float]], gpus: list[int], supply: list[int]) -> Program:
    """One kind of nodes; ``rows`` are the values of each job on ``gpus`` GPUs."""
    cost = np.concatenate([costs(np.array(row), -0.5) for row in rows]) - WAIT
    first = np.arange(len(rows) + 1, dtype=np.int32) * len(gpus)
    kind = np.zeros(len(cost), np.int32)
    return Program(first, cost.astype(np.int32), kind, np.tile(np.array(gpus, np.int32), len(rows)), np.array(supply))


def test_costs_by_hand() -> None:
    assert costs(np.array([1.0, 1.8, 3.0]), -0.5).tolist() == [100, 75, 58]
    assert costs(np.array([1.0, 1.9, 3.6]), -0.5).tolist() == [100, 73, 53]
    assert costs(np.array([0.0]), -0.5).tolist() == [300_000]


def test_two_jobs_share_four_gpus_by_hand() -> None:
    """Costs (1, .75, .58) and (1, .73, .53): 2 + 2 GPUs at 1.48; 4 + 0 at 1.68, 0 + 4 at 1.63."""
    found = program([[1, 1.8, 3], [1, 1.9, 3.6]], [1, 2, 4], [4])
    assert found.solve() == [1, 3 + 1]
    assert found.total([1, 4]) + 2 * WAIT == 148


def test_a_third_job_waits_by_hand() -> None:
    """The third job costs (1, .82, .71): .75 + .73 + 1.1 = 2.58 is less than 2 + 1 + 1 at .75 + 1 + 1 or .73 + 2."""
    found = program([[1, 1.8, 3], [1, 1.9, 3.6], [1, 1.5, 2]], [1, 2, 4], [4])
    assert found.solve() == [1, 3 + 1, WAITS]
    assert found.total([1, 4]) + 3 * WAIT == 258


def test_ties_go_to_earlier_jobs_and_first_choices() -> None:
    alike = program([[1, 4], [1, 4], [1, 4]], [1, 2], [3])
    assert alike.solve() == [0, 3, WAITS]  # all optima cost 100 + 50 + 110; job 0 has its first choice, 1 GPU


@st.composite
def programs(draw: st.DrawFn) -> Program:
    kinds = draw(st.integers(1, 3))
    supply = np.array([draw(st.integers(0, 5)) for _ in range(kinds)], np.int32)
    counts = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    number = int(first[-1])
    cost, kind, gpus = (
        np.array(draw(st.lists(st.integers(*span), min_size=number, max_size=number)), np.int32)
        for span in ((-109, -1), (0, kinds - 1), (1, 4))
    )
    return Program(first, cost, kind, gpus, supply)


def brute_force(task: Program) -> list[int]:
    """The optimum by enumeration; of several, the first in the order of jobs and choices (ours: CBC chooses in Sia)."""
    options = [[*range(task.first[i], task.first[i + 1]), WAITS] for i in range(task.jobs)]
    best: list[int] = []
    for chosen in map(list, itertools.product(*options)):  # lexicographic, with waiting as the last choice
        used = np.zeros(len(task.supply), int)
        for c in chosen:
            if c != WAITS:
                used[task.kind[c]] += task.gpus[c]
        if (used <= task.supply).all() and (not best or task.total(chosen) < task.total(best)):
            best = chosen
    return best


@settings(max_examples=80, deadline=None)
@given(programs())
def test_the_table_equals_brute_force_and_highs(task: Program) -> None:
    found = task.by_table()
    assert found == brute_force(task)
    by_highs = task.by_highs()
    assert task.total(by_highs) == task.total(found)
    used = np.zeros(len(task.supply), int)
    for i, c in enumerate(by_highs):
        if c != WAITS:
            assert task.first[i] <= c < task.first[i + 1]
            used[task.kind[c]] += task.gpus[c]
    assert (used <= task.supply).all()


# Placement


def test_the_largest_job_takes_whole_nodes() -> None:
    placed = place(np.array([4, 4, 4]), 4, [(0, 2), (1, 8), (2, 1)], {})
    assert [placed[job].tolist() for job in range(3)] == [[0, 0, 2], [4, 4, 0], [0, 0, 1]]


def test_jobs_keep_their_gpus() -> None:
    placed = place(np.array([4, 4]), 4, [(0, 2), (1, 2)], {1: np.array([0, 2])})
    assert [placed[job].tolist() for job in range(2)] == [[0, 2], [0, 2]]


def test_jobs_move_if_a_node_must_be_emptied() -> None:
    """Two jobs with 2 GPUs hold one half of each node; a job with 4 GPUs needs a whole one, and only one job moves."""
    held = {0: np.array([2, 0]), 1: np.array([0, 2])}
    placed = place(np.array([4, 4]), 4, [(0, 2), (1, 2), (2, 4)], held)
    assert placed[2].tolist() == [4, 0]
    assert placed[0].tolist() == placed[1].tolist() == [0, 2]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 4, 8, 12]), max_size=8), st.integers(2, 6))
def test_powers_of_two_and_whole_nodes_always_fit(sizes: list[int], nodes: int) -> None:
    wanted, left = [], 4 * nodes
    for job, gpus in enumerate(sizes):
        if gpus <= left:
            wanted.append((job, gpus))
            left -= gpus
    placed = place(np.full(nodes, 4), 4, wanted, {})
    assert (sum(placed.values(), np.zeros(nodes, int)) <= 4).all()
    for job, gpus in wanted:
        assert placed[job].sum() == gpus
        assert np.count_nonzero(placed[job]) == max(gpus // 4, 1)


# Runs


def two_types(rates: list[list[list[float]]], work: list[float], rules: Semantics) -> Instance:
    """Jobs with rates by type and number of GPUs (1, 2, ...) on one node of two "a" and one of two "b"."""
    row = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0)
    rows = [row | {"name": str(i), "compute_s": [1 / own[0] for own in each]} for i, each in enumerate(rates)]
    base = Profiles.from_rows(rows, ("a", "b"))
    measured = [
        (i, t, n + 1, 0, 1 / rate, 0.0) for i, each in enumerate(rates) for t, own in enumerate(each)
        for n, rate in enumerate(own)
    ]  # fmt: skip
    profiles = Profiles(base.rows, base.compute_s, base.gpu_types, np.array(measured, MEASURED_DTYPE))
    jobs = np.arange(len(rates))
    sizes = Sizes.of_groups(jobs, [[(1, i), (2, i)] for i in range(len(rates))])
    workload = Workload.from_columns(
        [0.0] * len(rates), [1] * len(rates), iterations=work, profiles=profiles, profile=jobs
    )
    return Instance(Cluster.parse("1x2@a,1x2@b"), dataclasses.replace(workload, sizes=sizes), Network("none"), rules)


def test_a_job_starts_on_one_gpu_and_then_takes_the_fast_type() -> None:
    """At 0 both types count as equal. At 60, "b" is known to be 10 times as fast, from the profile on one GPU."""
    rules = Semantics(round_s=60.0, checkpoint_s=0.0, restore_s=0.0)
    log = simulate(two_types([[[1.0, 2.0], [10.0, 20.0]]], [10_000.0], rules), make_scheduler("sia"))
    kinds = log.events["kind"] == RESIZE
    assert log.events["time_s"][kinds].tolist()[0] == 60.0
    assert log.events["time_s"][-1] == pytest.approx(60.0 + (10_000.0 - 60.0) / 20.0)


def test_a_restart_that_costs_too_much_is_not_made() -> None:
    """At age 120 with a penalty of 100 s, the factor is 120/220: type "b" at 1.5 times the speed is not worth it."""
    rules = Semantics(round_s=120.0, checkpoint_s=0.0, restore_s=0.0)
    instance = two_types([[[1.0, 1.01], [1.5, 1.51]]], [200.0], rules)
    log = simulate(instance, Sia(penalty_s=100.0))
    assert not (log.events["kind"] == RESIZE).any()
    moved = simulate(instance, Sia(penalty_s=0.0))
    assert (moved.events["kind"] == RESIZE).any()


def test_wrong_parameters_and_jobs_are_refused() -> None:
    for bad in ({"power": 0.5}, {"wait_cost": 0.5}, {"penalty_s": -1.0}):
        with pytest.raises(SchedulerError):
            Sia(**bad)
    rigid = Workload.from_columns([0.0], [3], duration_s=[1.0], profiles=Profiles.unit("a", "b"))
    with pytest.raises(SchedulerError, match="needs 3 GPUs"):
        simulate(Instance(Cluster.parse("1x2@a,1x2@b"), rigid), make_scheduler("sia"))


@pytest.mark.parametrize("seed", [200_000, 1])
def test_scenario_runs_are_valid_and_use_one_type_per_gang(seed: int) -> None:
    instance = get_scenario("sia-hetero-v0:jobs=20").instance(seed)
    assert len(instance.workload) == 20
    simulation = Simulation(instance)
    scheduler = make_scheduler("sia")
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    types = instance.cluster.nodes["gpu_type"][instance.cluster.node_of_gpu]
    while simulation.advance() is Outcome.DECIDE:
        for decision in scheduler.decide(view):
            simulation.apply(decision)
            assert not view.refusal
        for job in view.running.tolist():
            assert len(set(types[view.holders == job].tolist())) == 1
    validate(instance, simulation.log())


def test_calibration_slows_each_application_by_its_factor() -> None:
    """The simulator of Sia's authors divides the progress of a job by SLOWDOWNS (simulator_config.py)."""
    factor = {"cifar10": 1.8, "ncf": 1.5}
    plain, slow = (
        get_scenario(f"sia-hetero-v0:jobs=40,calibration={name}").instance(3) for name in ("none", "published")
    )
    before, after = (each.workload.profiles for each in (plain, slow))
    assert before.rows["name"].tolist() == after.rows["name"].tolist()
    name = [str(text).split(" ")[0] for text in before.rows["name"][before.measured["profile"]]]
    expected = np.array([factor.get(each, 1.2) for each in name])
    for column in ("compute_s", "communication_s"):
        known = np.isfinite(before.measured[column])
        times = before.measured[column][known] * expected[known]
        np.testing.assert_allclose(after.measured[column][known], times, rtol=1e-12, atol=1e-15)
    assert {"cifar10", "ncf", "deepspeech2"} <= set(name)


@pytest.mark.parametrize(
    ("slowdowns", "told"),
    [(1.8, "give an object"), ({"cifar10": 0}, "slowdowns.cifar10 is 0"), ({"vgg": 2.0}, "'vgg'")],
)
def test_bad_slowdowns_are_refused(slowdowns: object, told: str) -> None:
    with pytest.raises(WorkloadError, match=told):
        check_rule("adaptive-batch", {"slowdowns": slowdowns})
    with pytest.raises(WorkloadError, match="slowdowns"):
        check_rule("fixed-batch", {"slowdowns": {}})
