"""Elastic jobs: Start with a size, Resize, and what metrics and the validator make of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers import check_counts, random_workload, state_bytes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.core.refusals import BAD_GPUS, BAD_SIZE, JUST_STARTED, NO_PLACE, NOT_RUNNING, REFUSALS, TOO_FEW_GPUS
from gpusched_env.errors import ScenarioError, ScheduleError, WorkloadError
from gpusched_env.event_log import RESIZE, EventLog
from gpusched_env.metrics import job_times, lower_bounds, summarise, validate
from gpusched_env.metrics.segments import segments
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.sizes import Sizes, size_range
from gpusched_env.problem.workload import Workload
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import ClusterView, Lease, Outcome, Preempt, Resize, Simulation, Start, simulate
from gpusched_env.traces.elastic import amdahl, make_elastic
from tests.simulator.test_invariants import CLUSTERS, draw_decision, draw_network, work_of


def linear(gpus: int) -> float:
    return float(gpus)


def instance_of(
    gpus: list[int], iterations: list[float], cluster: str = "2x4", most: int = 8, **rules: float
) -> Instance:
    """Jobs that arrive at 0 and are n times as fast on n GPUs; the unit profile takes 1 s on the requested size."""
    workload = make_elastic(Workload.from_columns([0.0] * len(gpus), gpus, iterations=iterations), linear, 1, most)
    return Instance(Cluster.parse(cluster), workload, Network("none"), Semantics(**rules))


def played(instance: Instance, *script: tuple[float, object]) -> Simulation:
    """Apply decisions at their times, each of which must be accepted, and run to the end."""
    simulation = Simulation(instance)
    todo = list(script)
    while True:
        if todo:
            simulation.wake_at(todo[0][0])
        if simulation.advance() is not Outcome.DECIDE:
            return simulation
        while todo and todo[0][0] <= simulation.now_s:
            assert simulation.apply(todo.pop(0)[1]) == ""  # type: ignore[arg-type]


def test_a_job_grows_shrinks_and_finishes_when_its_work_is_done() -> None:
    """100 iterations; 10 s at 2 GPUs (1 each s), resize 5 s, 10 s at 4 GPUs (2 each), 5 s, then 1 GPU (0.5 each)."""
    instance = instance_of([2], [100.0], checkpoint_s=1.0, restore_s=4.0)
    simulation = played(instance, (0, Start(0)), (10, Resize(0, 4)), (25, Resize(0, 1)))
    log = simulation.log()
    validate(instance, log)
    assert simulation.now_s == pytest.approx(30 + (100 - 10 - 20) / 0.5)
    assert log.lines()[2:5] == [
        "10.000000 resize job 0 left 90.000000",
        "10.000000 resume job 0 tier 0 gpus 0,1,2,3 from 15.000000",
        "25.000000 resize job 0 left 70.000000",
    ]
    times = job_times(instance, log)
    assert times["resizes"].tolist() == [2]
    assert times["preemptions"].tolist() == [0]
    assert times["queueing_s"].tolist() == [0.0]
    assert times["overhead_s"].tolist() == [10.0]
    assert times["service_gpu_s"][0] == pytest.approx(2 * 10 + 4 * 10 + 1 * 140)
    assert times["gpu_seconds"][0] == pytest.approx(2 * 10 + 4 * 15 + 1 * 145)


def test_attained_service_counts_the_gpus_of_each_size() -> None:
    instance = instance_of([2, 1], [100.0, 500.0], resize_s=0.0)
    simulation = Simulation(instance)
    view = ClusterView(simulation)
    simulation.advance()
    assert simulation.apply(Start(0, size=4)) == ""
    assert view.held_gpus(np.array([0, 1])).tolist() == [4, 0]
    simulation.wake_at(10.0)
    simulation.advance()
    assert view.attained_gpu_s(np.array([0])).tolist() == [40.0]
    assert simulation.apply(Resize(0, 1)) == ""
    assert view.attained_gpu_s(np.array([0])).tolist() == [40.0]
    simulation.wake_at(20.0)
    simulation.advance()
    assert view.attained_gpu_s(np.array([0])).tolist() == [50.0]
    assert simulation.apply(Preempt(0)) == ""
    assert view.attained_gpu_s(np.array([0])).tolist() == [50.0]
    assert simulation.arrays.jobs["gpus"][0] == 1  # it still holds its GPU until its checkpoint ends
    simulation.wake_at(50.0)
    simulation.advance()
    assert simulation.arrays.jobs["gpus"][0] == 2  # a waiting job has the size that it requests
    assert view.attained_gpu_s(np.array([0])).tolist() == [50.0]


def test_a_view_offers_sizes_and_their_speeds() -> None:
    simulation = Simulation(instance_of([2], [100.0], "1x4"))
    simulation.advance()
    view = ClusterView(simulation)
    assert view.sizes(0).tolist() == [1, 2, 4]  # the cluster has no 8 GPUs
    assert view.size_rates(0).tolist() == [0.5, 1.0, 2.0]


def test_a_resize_to_the_same_size_does_nothing() -> None:
    simulation = Simulation(instance_of([2, 2], [100.0, 100.0]))
    simulation.advance()
    assert simulation.apply(Start(0, "spread")) == ""
    simulation.wake_at(5.0)
    simulation.advance()
    before = state_bytes(simulation)
    assert simulation.apply(Resize(0, 2)) == ""
    assert simulation.apply(Resize(0, 2, gpus=(4, 0))) == ""
    assert state_bytes(simulation) == before
    assert simulation.apply(Resize(0, 2, gpus=(0, 1))) == ""  # a move
    assert simulation.log().lines()[-1] == "5.000000 resume job 0 tier 0 gpus 0,1 from 65.000000"


def test_refusals_of_resizes() -> None:
    simulation = Simulation(instance_of([2, 4], [100.0, 100.0], "2x4"))
    simulation.advance()
    assert simulation.apply(Resize(0, 4)) == REFUSALS[NOT_RUNNING]
    assert simulation.apply(Start(0, size=3)) == REFUSALS[BAD_SIZE]
    assert simulation.apply(Start(0, size=-1)) == REFUSALS[BAD_SIZE]
    assert simulation.apply(Start(0, gpus=(0, 1, 2))) == REFUSALS[BAD_SIZE]
    assert simulation.apply(Start(0)) == ""
    assert simulation.apply(Resize(0, 4)) == REFUSALS[JUST_STARTED]
    assert simulation.apply(Start(1)) == ""
    simulation.wake_at(5.0)
    simulation.advance()
    before = state_bytes(simulation)
    assert simulation.apply(Resize(0, 3)) == REFUSALS[BAD_SIZE]
    assert simulation.apply(Resize(0, 8)) == REFUSALS[TOO_FEW_GPUS]
    assert simulation.apply(Resize(1, 8)) == REFUSALS[TOO_FEW_GPUS]
    assert simulation.apply(Resize(0, 2, gpus=(0, 4))) == REFUSALS[BAD_GPUS]
    assert simulation.apply(Resize(0, 2, gpus=(0, 0))) == REFUSALS[BAD_GPUS]
    assert simulation.apply(Resize(0, 2, gpus=(0, 99))) == REFUSALS[BAD_GPUS]
    assert simulation.apply(Resize(0, 4, gpus=(0, 1))) == REFUSALS[BAD_SIZE]
    assert state_bytes(simulation) == before
    assert simulation.apply(Resize(0, 1)) == ""
    assert simulation.apply(Resize(1, 4, gpus=(1, 2, 3, 5))) == ""


def test_a_consolidating_rule_counts_the_gangs_own_gpus_as_free() -> None:
    simulation = Simulation(instance_of([2, 1], [100.0, 100.0], "2x4"))
    simulation.advance()
    simulation.apply(Start(0, gpus=(0, 1)))
    simulation.apply(Start(1, gpus=(4,)))
    simulation.wake_at(5.0)
    simulation.advance()
    assert simulation.apply(Resize(0, 8, "consolidate")) in (REFUSALS[NO_PLACE], REFUSALS[TOO_FEW_GPUS])
    assert simulation.apply(Resize(0, 4, "consolidate")) == ""
    assert simulation.log().lines()[-1] == "5.000000 resume job 0 tier 0 gpus 0,1,2,3 from 65.000000"


def test_a_resize_ends_the_lease_of_a_gang() -> None:
    instance = instance_of([2], [100.0], resize_s=0.0)
    simulation = played(instance, (0, Start(0)), (0, Lease(0, 20.0)), (10, Resize(0, 4)))
    validate(instance, simulation.log())
    assert simulation.now_s == 10 + 90 / 2


def test_what_is_refused_when_a_workload_is_made() -> None:
    rigid = Workload.from_columns([0.0, 0.0], [2, 3], iterations=[1.0, 1.0])
    elastic = make_elastic(rigid, linear, 1, 8)
    with pytest.raises(ScenarioError, match="cannot share GPUs"):
        Instance(Cluster.parse("1x4"), elastic, sharing=Sharing())
    with pytest.raises(WorkloadError, match="not one of its sizes"):
        dataclasses.replace(elastic, jobs=rigid.select(np.array([1, 0])).jobs)
    with pytest.raises(WorkloadError, match="elastic already"):
        make_elastic(elastic, linear)
    with pytest.raises(WorkloadError, match="ascend"):
        Sizes.of_groups([0, 0], [[(2, 0), (2, 0)]])
    with pytest.raises(WorkloadError, match="no options"):
        Sizes.of_groups([0, 1], [[(2, 0)]])
    with pytest.raises(WorkloadError, match="least <= most"):
        size_range(3, 2)
    with pytest.raises(WorkloadError, match="0 to 1"):
        amdahl(1.5)
    assert size_range(1, 9) == [1, 2, 4, 8]
    assert size_range(2, 9, 3) == [2, 5, 8]
    assert amdahl(0.25)(4) == pytest.approx(1 / (0.25 + 0.75 / 4))


def test_an_elastic_workload_survives_a_file_and_a_selection(tmp_path: object) -> None:
    workload = make_elastic(Workload.from_columns([0.0, 1.0], [2, 3], iterations=[5.0, 6.0]), linear, 1, 8)
    path = f"{tmp_path}/workload.npz"
    workload.save(path)
    loaded = Workload.load(path)
    assert loaded.fingerprint() == workload.fingerprint()
    assert loaded.fingerprint() != Workload.from_columns([0.0, 1.0], [2, 3], iterations=[5.0, 6.0]).fingerprint()
    second = Instance(Cluster.parse("2x4"), loaded.select(np.array([1])))
    assert second.sizes.gpus[second.sizes.first[0] :].tolist() == [1, 2, 3, 4, 8]


SCHEDULERS = ("fifo", "srtf", "tiresias", "las")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_jobs_of_one_size_give_the_log_of_rigid_jobs(scheduler: str) -> None:
    rng = np.random.default_rng(5)
    rigid = random_workload(rng, 40, 8)
    group = np.arange(len(rigid), dtype=np.int32)
    pairs = [[(int(job["gpus"]), int(job["profile"]))] for job in rigid.jobs]
    one_size = dataclasses.replace(rigid, sizes=Sizes.of_groups(group, pairs))
    logs = [simulate(Instance(Cluster.parse("4x4/2"), each), make_scheduler(scheduler)) for each in (rigid, one_size)]
    assert logs[0].digest() == logs[1].digest()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_that_choose_no_sizes_play_the_requested_ones(scheduler: str) -> None:
    rigid = random_workload(np.random.default_rng(6), 40, 8)
    elastic = make_elastic(rigid, amdahl(0.1), 1, 8)
    instances = [Instance(Cluster.parse("4x4/2"), each) for each in (rigid, elastic)]
    logs = [simulate(instance, make_scheduler(scheduler)) for instance in instances]
    assert logs[0].digest() == logs[1].digest()
    ours, theirs = (summarise(instance, log) for instance, log in zip(instances, logs, strict=True))
    assert ours["mean_jct_s"] == theirs["mean_jct_s"]


def test_hadare_forks_rigid_jobs_beside_elastic_ones() -> None:
    """Job 0 has one size and gets a copy on each idle node; job 1 has several sizes and runs as one gang."""
    both = make_elastic(Workload.from_columns([0.0, 0.0], [4, 4], iterations=[4e3, 4e3]), linear, 4, 8)
    assert both.sizes is not None
    rigid_first = Sizes(np.array([-1, both.sizes.group[1]], np.int32), both.sizes.options)
    jobs = dataclasses.replace(both, sizes=rigid_first)
    instance = Instance(Cluster.parse("3x4"), jobs, Network("none"), Semantics(max_copies=3))
    log = simulate(instance, make_scheduler("hadare"))
    validate(instance, log)
    table = segments(instance, log)
    assert set(table["gpus"][table["job"] == 0].tolist()) == {8}
    assert set(table["gpus"][table["job"] == 1].tolist()) == {4}
    simulation = Simulation(instance)
    simulation.advance()
    assert simulation.apply(Start(1, gpus=tuple(range(12)))) == REFUSALS[BAD_SIZE]
    assert simulation.apply(Start(1, gpus=tuple(range(8)), size=4)) == REFUSALS[BAD_SIZE]  # no two copies of four
    assert simulation.apply(Start(0, gpus=tuple(range(8)))) == ""
    simulation.wake_at(10.0)
    simulation.advance()
    assert simulation.apply(Resize(0, 4)) == REFUSALS[BAD_SIZE]  # a job of one size never resizes


def test_bounds_hold_for_copies_of_a_rigid_job_beside_an_elastic_one() -> None:
    """Job 0 has one size: in three copies it ends after a third of its run time. Job 1 takes 1,000 s on 4 GPUs."""
    jobs = Workload.from_columns([0.0, 0.0], [4, 4], iterations=[4e3, 1e3])
    both = make_elastic(jobs, linear, 4, 8)
    assert both.sizes is not None
    one_size = Sizes(np.array([-1, both.sizes.group[1]], np.int32), both.sizes.options)
    rules = Semantics(max_copies=3, restore_s=0.0)
    instance = Instance(Cluster.parse("5x4"), dataclasses.replace(both, sizes=one_size), Network("none"), rules)
    log = played(instance, (0, Start(0, gpus=tuple(range(12)))), (0, Start(1, gpus=tuple(range(12, 20)), size=8))).log()
    figures, bounds = summarise(instance, log), lower_bounds(instance)
    assert figures["makespan_s"] == pytest.approx(4e3 / 3) == pytest.approx(bounds["makespan_s"])
    assert figures["mean_jct_s"] == pytest.approx((4e3 / 3 + 500.0) / 2) == pytest.approx(bounds["mean_jct_s"])


def draw_elastic(rng: np.random.Generator) -> Instance:
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    rules = Semantics(
        round_s=float(rng.choice([0, 0, 60])),
        checkpoint_s=float(rng.choice([0, 30])),
        restore_s=float(rng.choice([0, 30, 300])),
        resize_s=None if rng.random() < 0.5 else float(rng.choice([0, 7.5])),
        time_limit_s=float(rng.choice([np.inf, np.inf, 2_000])),
    )
    network = draw_network(rng)
    if network.topology is None:  # topologies cannot price copies
        rules = dataclasses.replace(rules, max_copies=int(rng.choice([1, 3])))
    workload = random_workload(rng, int(rng.integers(1, 15)), cluster.gpus, cluster.gpu_types, 60.0)
    elastic = make_elastic(workload, amdahl(float(rng.choice([0.0, 0.1, 1.0]))), 1, None, int(rng.integers(0, 3)))
    assert elastic.sizes is not None
    group = np.where(rng.random(len(workload)) < 0.3, -1, elastic.sizes.group).astype(np.int32)  # some are rigid
    elastic = dataclasses.replace(elastic, sizes=Sizes(group, elastic.sizes.options))
    return Instance(cluster, elastic, network, rules)


def draw_sized(rng: np.random.Generator, simulation: Simulation) -> object:
    view = ClusterView(simulation)
    job = int(rng.integers(0, len(simulation.instance.workload)))
    if len(view.running) and rng.random() < 0.7:
        job = int(rng.choice(view.running))
    gpus = int(rng.integers(0, simulation.instance.cluster.gpus + 2))
    if job < view.arrived and rng.random() < 0.8:
        gpus = int(rng.choice(view.sizes(job)))
    rule = str(rng.choice(["pack", "spread", "consolidate", "random"]))
    kind = rng.random()
    if kind < 0.2:
        return draw_decision(rng, simulation)
    if kind < 0.55:
        return Start(job, rule, size=gpus)
    if kind < 0.8:
        return Resize(job, gpus, rule)
    known = np.arange(simulation.instance.cluster.gpus)
    if kind < 0.9:
        rigid = [row for row in view.waiting.tolist() if len(view.sizes(row)) == 1]
        job = int(rng.choice(rigid)) if rigid else job
        gang = int(view.gpus[job]) if job < view.arrived else 1
        free = rng.permutation(known[simulation.arrays.holder[known] == -1])
        copies = max(1, min(len(free) // gang, int(rng.integers(2, 4))))
        return Start(job, gpus=tuple(free[: gang * copies].tolist()))
    mine = simulation.arrays.holder[known] == max(simulation.arrays.jobs["replica"][job], -1)
    allowed = rng.permutation(known[mine | (simulation.arrays.holder[known] == -1)])[:gpus]
    return Resize(job, len(allowed), gpus=tuple(allowed.tolist()))


@settings(max_examples=150)
@given(st.integers(0, 2**32))
@example(9163448)  # copies of a rigid job beside an elastic job
def test_random_play_conserves_work_and_obeys_the_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = draw_elastic(rng)
    simulation = Simulation(instance, seed)
    left = work_of(simulation)
    outcome = Outcome.DECIDE
    for _ in range(400):
        outcome = simulation.advance()
        check_counts(simulation)
        now_left = work_of(simulation)
        assert (now_left <= left).all(), "work grew"
        left = now_left
        if outcome is not Outcome.DECIDE:
            break
        for _ in range(int(rng.integers(0, 6))):
            decision, before = draw_sized(rng, simulation), state_bytes(simulation)
            if simulation.apply(decision):  # type: ignore[arg-type]
                assert state_bytes(simulation) == before, decision
            check_counts(simulation)
            assert (work_of(simulation) == left).all(), "a decision changed work"
            waiting = simulation.arrays.jobs["status"] == 1
            assert simulation.arrays.world["waiting_gpus"] == simulation.arrays.jobs["gpus"][waiting].sum()
    log = simulation.log()
    validate(instance, log, complete=outcome in (Outcome.DONE, Outcome.TIME_LIMIT))
    rigid = instance.sizes.count == 1
    held = log.events["gpu_count"] > 0
    demand = instance.workload.jobs["gpus"]
    of_rigid = held & rigid[log.events["job"]]
    copies = log.events["gpu_count"][of_rigid] / demand[log.events["job"][of_rigid]]
    assert np.isin(copies, np.arange(1, instance.semantics.max_copies + 1)).all()
    times = job_times(instance, log, end_s=simulation.now_s)
    inside = times["arrival_s"] <= simulation.now_s
    life = np.where(np.isnan(times["jct_s"]), simulation.now_s - times["arrival_s"], times["jct_s"])
    parts = times["queueing_s"] + times["service_s"] + times["overhead_s"]
    np.testing.assert_allclose(parts[inside], life[inside], rtol=1e-9, atol=1e-6)
    assert times["resizes"].sum() == (log.events["kind"] == RESIZE).sum()
    if outcome is Outcome.DONE:
        figures, bounds = summarise(instance, log), lower_bounds(instance)
        assert figures["mean_jct_s"] >= bounds["mean_jct_s"] * (1 - 1e-9)
        assert figures["makespan_s"] >= bounds["makespan_s"] * (1 - 1e-9)
    view = ClusterView(simulation)
    rows = np.arange(view.arrived) if instance.semantics.max_copies == 1 else np.flatnonzero(~rigid[: view.arrived])
    np.testing.assert_allclose(view.attained_gpu_s(rows), times["service_gpu_s"][rows], rtol=1e-9, atol=1e-6)


def test_random_play_meets_resizes() -> None:
    """The property above would be vacuous if no gang were resized, or no rigid job ran in copies."""
    grown = shrunk = moved = forked = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        simulation = Simulation(draw_elastic(rng), seed)
        for _ in range(100):
            if simulation.advance() is not Outcome.DECIDE:
                break
            for _ in range(5):
                simulation.apply(draw_sized(rng, simulation))  # type: ignore[arg-type]
        table = segments(simulation.instance, simulation.log())
        at = np.flatnonzero((table["stop_event"] >= 0) & (table["stop_event"] == table["free_event"]))
        at = at[at + 1 < len(table)]
        at = at[table["job"][at] == table["job"][at + 1]]  # a complete event ends the last segment of a job
        change = table["gpus"][at + 1].astype(int) - table["gpus"][at]
        grown, shrunk, moved = grown + (change > 0).sum(), shrunk + (change < 0).sum(), moved + (change == 0).sum()
        gang, _ = simulation.instance.gangs(table["job"], table["gpus"])
        forked += (table["gpus"] > gang).sum()
    assert min(grown, shrunk, moved) > 20
    assert forked > 5


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("value", 1.0, "not conserved"),  # work that nobody did
        ("gpu_count", -1, "wrong size"),
        ("time_s", 1.0, "at once"),
        ("value", 3.0, "progress must begin"),
    ],
)
def test_the_validator_refuses_a_wrong_resize(field: str, change: float, message: str) -> None:
    instance = instance_of([2], [100.0], checkpoint_s=1.0, restore_s=4.0)
    log = played(instance, (0, Start(0)), (10, Resize(0, 4))).log()
    validate(instance, log)
    events = log.events.copy()
    at = int(np.flatnonzero(events["kind"] == RESIZE)[0]) + (message != "not conserved")
    events[field][at] += change
    if field == "time_s":
        events["value"][at] += change
    with pytest.raises(ScheduleError, match=message):
        validate(instance, EventLog(events, log.gpus))
