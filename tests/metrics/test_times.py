"""Job times, series, fairness and summaries: values by hand, and identities."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from cost import lines_run
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_reference import (
    communicating_profiles,
    instance_i,
    play,
    random_instance,
    shortest_remaining,
    unit_instance,
)

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import EVENT_DTYPE, EventLog
from gpusched_env.metrics import (
    COLUMNS,
    finish_time_fairness,
    held_gpus,
    job_times,
    jobs_in_system,
    jobs_running,
    jobs_waiting,
    lower_bounds,
    segments,
    summarise,
    validate,
)
from gpusched_env.network import Network
from gpusched_env.portable.arrays import mean
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.reports.curves import completion_times
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate


def preempted_once() -> tuple[Instance, EventLog]:
    """Two GPUs. Job 0 (100 s) runs 0-40, checkpoints 40-45; job 1 (10 s) runs 45-55; job 0 restores 55-62, ends 122."""
    instance = unit_instance([0, 40], [2, 2], [100, 10], "1x2", checkpoint_s=5.0, restore_s=7.0)
    return instance, play(instance, shortest_remaining, preemptive=True)


def test_hand_computed_preemption() -> None:
    instance, log = preempted_once()
    validate(instance, log)
    first, second = job_times(instance, log)
    assert (first["first_start_s"], first["finish_s"], first["jct_s"]) == (0, 122, 122)
    assert (first["queueing_s"], first["service_s"], first["overhead_s"]) == (10, 100, 12)
    assert (first["gpu_seconds"], first["preemptions"], first["segments"]) == (2 * 112, 1, 2)
    assert (second["queueing_s"], second["service_s"], second["overhead_s"], second["jct_s"]) == (5, 10, 0, 15)
    numbers = summarise(instance, log)
    assert numbers["makespan_s"] == 122
    assert numbers["mean_jct_s"] == (122 + 15) / 2
    assert numbers["utilisation"] == 1.0
    assert numbers["productive_share"] == 110 / 122
    assert numbers["overhead_share"] == pytest.approx(12 / 122, rel=1e-15)
    assert numbers["preemptions_per_job"] == 0.5
    assert numbers["mean_slowdown"] == pytest.approx((1.22 + 1.5) / 2)


def test_a_run_cut_in_the_middle() -> None:
    instance, log = preempted_once()
    for end, queueing, service, overhead in (
        (20, 0, 20, 0), (42, 0, 40, 2), (50, 5, 40, 5), (58, 10, 40, 8), (70, 10, 48, 12),
    ):  # fmt: skip
        times = job_times(instance, log, end)[0]
        assert (times["queueing_s"], times["service_s"], times["overhead_s"]) == (queueing, service, overhead), end
        assert math.isnan(times["finish_s"])
    numbers = summarise(instance, log, end_s=70)
    assert numbers["finished"] == 1
    assert math.isnan(numbers["makespan_s"])
    assert numbers["mean_jct_s"] == 15
    assert numbers["utilisation"] == 1.0
    nothing = summarise(instance, log, end_s=0)
    assert math.isnan(nothing["mean_jct_s"])
    assert math.isnan(nothing["utilisation"])


def test_a_time_limit_ends_the_run_at_the_limit() -> None:
    instance = unit_instance([0, 40], [2, 2], [100, 10], "1x2", time_limit_s=75.0)
    log = play(instance)
    assert job_times(instance, log)["service_s"].tolist() == [75, 0]
    assert job_times(instance, log)["queueing_s"].tolist() == [0, 35]


def test_preempted_while_restoring_does_no_work() -> None:
    """Job 0 resumes at 12, is preempted at 13 before its 5 s restore is over: no service, all overhead."""
    instance = unit_instance([0, 10, 13], [1, 1, 1], [100, 2, 1], "1x1", restore_s=5.0)
    log = play(instance, shortest_remaining, preemptive=True)
    validate(instance, log)
    held = segments(instance, log)
    assert held[held["job"] == 0]["hold_s"].tolist() == [0, 12, 14]
    times = job_times(instance, log)[0]
    assert (times["service_s"], times["overhead_s"], times["queueing_s"], times["jct_s"]) == (100, 6, 3, 109)


@pytest.mark.parametrize("preemptive", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_identities(seed: int, preemptive: bool) -> None:
    instance = random_instance(seed, checkpoint_s=11.0, restore_s=17.0)
    log = play(instance, shortest_remaining, preemptive, seed=seed)
    validate(instance, log)
    times, numbers = job_times(instance, log), summarise(instance, log)
    span = numbers["makespan_s"]
    parts = times["queueing_s"] + times["service_s"] + times["overhead_s"]
    np.testing.assert_allclose(parts, times["jct_s"], rtol=1e-12)
    assert (times["jct_s"] >= instance.ideal_s * (1 - 1e-12)).all()
    assert (times["communication_s"] <= times["service_s"]).all()
    np.testing.assert_allclose(numbers["mean_jobs_in_system"] * span, times["jct_s"].sum(), rtol=1e-12)  # Little's law
    first, last = times["arrival_s"].min(), times["finish_s"].max()
    np.testing.assert_allclose(held_gpus(instance, log).mean(first, last) / 16, numbers["utilisation"], rtol=1e-12)
    np.testing.assert_allclose(jobs_waiting(log).integral(last), times["queueing_s"].sum(), rtol=1e-12)
    running = times["service_s"].sum() + times["overhead_s"].sum()
    np.testing.assert_allclose(jobs_running(log).integral(last), running, rtol=1e-12)
    np.testing.assert_array_equal(jobs_waiting(log).values + jobs_running(log).values, jobs_in_system(log).values)
    assert numbers["productive_share"] + numbers["overhead_share"] == pytest.approx(1.0, abs=1e-12)
    assert held_gpus(instance, log).values.max() <= 16
    assert jobs_in_system(log).values[-1] == 0
    if preemptive:
        assert times["preemptions"].sum() > 10
        assert (times["segments"] == times["preemptions"] + 1).all()


def test_communication_is_iteration_beyond_compute() -> None:
    """A gang of 2 across two nodes: with p = 1 the time of the ring adds to the compute."""
    workload = Workload.from_columns([0], [2], iterations=[100.0], profiles=communicating_profiles(), profile=[0])
    network = Network(bandwidth_GBps=(10.0, 1.0, 0.5), latency_s=(0, 0, 0))
    instance = Instance(Cluster.homogeneous(2, 1), workload, network)
    times = job_times(instance, play(instance))[0]
    assert times["service_s"] == pytest.approx(100 * (0.25 + 0.5))  # 2 (g - 1) / g x 5e8 bytes at 1e9 byte/s
    assert times["communication_s"] == pytest.approx(100 * 0.5)
    assert summarise(instance, play(instance))["communication_share"] == pytest.approx(0.5 / 0.75)


def test_a_mixed_gang_computes_at_its_slowest_type() -> None:
    """With both types an iteration takes the time of the slow type; idle time of the fast type is not communication."""
    row = dict(name="x", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(1.0, 3.0))
    profiles = Profiles.from_rows([row], ("fast", "slow"))
    cluster = Cluster([NodeGroup(1, 1, "fast"), NodeGroup(1, 1, "slow")])
    workload = Workload.from_columns([0, 0], [2, 1], iterations=[10.0, 10.0], profiles=profiles)
    instance = Instance(cluster, workload, Network("none"))
    log = play(instance)
    validate(instance, log)
    held = segments(instance, log)
    assert held["iteration_s"].tolist() == [3.0, 1.0]
    assert held["compute_s"].tolist() == [3.0, 1.0]
    assert job_times(instance, log)["communication_s"].tolist() == [0, 0]


def test_fairness_by_hand() -> None:
    """Four GPUs. Job 0 (4 GPUs, 10 s) 0-10, job 1 (4 GPUs, 10 s) 10-20: two jobs in the system for 10 s, then one."""
    instance = unit_instance([0, 0], [4, 4], [10, 10])
    log = play(instance)
    rho = finish_time_fairness(instance, log, job_times(instance, log)["finish_s"])
    # N_avg of job 0 is 2 -> T_id 20; of job 1 it is (2 x 10 + 1 x 10) / 20 = 1.5 -> T_id 15
    assert rho.tolist() == [10 / 20, 20 / 15]
    numbers = summarise(instance, log)
    assert (numbers["rho_mean"], numbers["rho_max"], numbers["rho_fair_share"]) == (11 / 12, 4 / 3, 0.5)


def test_a_job_alone_has_fairness_one() -> None:
    instance = unit_instance([3.3], [3], [7.7])
    numbers = summarise(instance, play(instance))
    assert numbers["rho_fair_share"] == 1.0
    assert numbers["mean_slowdown"] == pytest.approx(1.0)


def test_the_window_tracks_arrival_ranks() -> None:
    instance = random_instance(3)
    log = play(instance)
    times = job_times(instance, log)
    numbers, whole = summarise(instance, log, window=(10, 25)), summarise(instance, log)
    assert numbers["jobs"] == 15
    assert numbers["mean_jct_s"] == mean(times["jct_s"][10:25])
    for column in COLUMNS:
        if column.scope == "run":
            assert numbers[column.name] == whole[column.name]
    for bad in ((5, 5), (-1, 4), (0, 61)):
        with pytest.raises(GpuschedError, match="window"):
            summarise(instance, log, window=bad)


def test_the_window_is_the_scenario_s_by_itself() -> None:
    scenario = get_scenario("tiny-v1")
    whole, windowed = (one.instance(0) for one in (scenario, scenario.replace(tracked_window=(3, 9))))
    assert whole.fingerprint() == windowed.fingerprint()  # no run depends on the window
    log = simulate(windowed, make_scheduler("fifo"))
    everything, part = (0, len(whole.workload)), (3, 9)
    numbers = summarise(windowed, log)
    assert numbers["jobs"] == 6
    assert numbers == summarise(whole, log, window=part) == summarise(windowed, log, window=part)
    assert summarise(whole, log) == summarise(windowed, log, window=everything)
    assert lower_bounds(windowed) == lower_bounds(whole, part) != lower_bounds(whole)
    assert lower_bounds(windowed, everything) == lower_bounds(whole)
    assert len(completion_times(windowed, log)) == 6


def test_series_by_hand() -> None:
    instance, log = preempted_once()
    held = held_gpus(instance, log)
    assert held.times_s.tolist() == [0, 40, 45, 55, 122]
    assert held.values.tolist() == [2, 2, 2, 2, 0]
    waiting = jobs_waiting(log)
    assert waiting.at(np.array([-1, 0, 40, 44.9, 45, 54, 55, 200])).tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    assert waiting.integral(np.array([-1.0, 40, 50, 55, 200])).tolist() == [0, 0, 10, 15, 15]
    assert waiting.mean(40, 55) == 1.0
    assert waiting.binned(np.array([0.0, 40, 80])).tolist() == [0, 15 / 40]
    assert math.isnan(waiting.mean(5, 5))


@settings(max_examples=50)
@given(
    jobs=st.lists(
        st.tuples(st.floats(0, 1e6), st.integers(1, 8), st.floats(1e-3, 1e5)), min_size=1, max_size=25
    ),
    checkpoint=st.sampled_from([0.0, 30.0]),
    preemptive=st.booleans(),
)  # fmt: skip
def test_identities_hold_for_any_schedule(jobs: list, checkpoint: float, preemptive: bool) -> None:
    instance = unit_instance(*map(list, zip(*jobs, strict=True)), "2x4", checkpoint_s=checkpoint, restore_s=checkpoint)
    log = play(instance, shortest_remaining, preemptive)
    validate(instance, log)
    times = job_times(instance, log)
    parts = times["queueing_s"] + times["service_s"] + times["overhead_s"]
    np.testing.assert_allclose(parts, times["jct_s"], rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(jobs_in_system(log).integral(1e9), times["jct_s"].sum(), rtol=1e-9, atol=1e-6)
    assert list(summarise(instance, log)) == [column.name for column in COLUMNS]


def log_of(jobs: int) -> tuple[Instance, EventLog]:
    """A long log, made without a simulation: one-GPU jobs that overlap and never wait."""
    rng = np.random.default_rng(0)
    duration = rng.uniform(1, 60, jobs)
    instance = unit_instance(np.arange(jobs, dtype=float).tolist(), [1] * jobs, duration.tolist(), "8x8")
    arrival = instance.workload.jobs["arrival_s"]
    finish = arrival + duration
    rows = np.arange(jobs)
    events = np.zeros(3 * jobs, EVENT_DTYPE)
    times = np.concatenate([finish, arrival, arrival])
    kinds = np.repeat([5, 0, 1], jobs)
    order = np.lexsort([np.tile(rows, 3), np.repeat([0, 1, 2], jobs), times])
    events["job"], events["kind"], events["time_s"] = np.tile(rows, 3)[order], kinds[order], times[order]
    events["sub_steps"] = 1
    events["tier"] = events["gpu_at"] = -1
    start = events["kind"] == 1
    events["value"][start] = events["time_s"][start]
    events["replica"] = np.where(events["kind"] == 0, -1, events["job"] % 64)
    events["gpu_count"][start], events["tier"][start], events["gpu_at"][start] = 1, 0, np.arange(jobs)
    return instance, EventLog(events, (rows % 64).astype(np.int32))


def test_segments_of_a_sealed_log_are_computed_once() -> None:
    instance, log = preempted_once()
    sealed, table = log.sealed(), segments(instance, log)
    assert sealed.digest() == log.digest()
    assert (segments(instance, sealed) == table).all()
    assert segments(instance, sealed) is segments(instance, sealed)
    assert segments(instance, log) is not segments(instance, log)
    cut = segments(instance, sealed, end_s=20.0)
    assert len(cut) < len(table)
    assert (segments(instance, sealed) == table).all()
    other, _ = preempted_once()
    assert segments(other, sealed) is not segments(instance, sealed)
    with pytest.raises(ValueError, match="read-only"):
        sealed.events["time_s"][0] = 1.0


@pytest.mark.parametrize("work", [summarise, validate])
def test_metrics_run_no_line_of_python_for_each_event(work: Callable[[Instance, EventLog], object]) -> None:
    few, many = log_of(100), log_of(2_000)
    for logged in (few, many):  # the first calls import, and compute what an instance keeps
        work(*logged)
    assert lines_run(work, *many) == lines_run(work, *few) > 100


def test_a_makespan_ends_with_the_last_job() -> None:
    instance = unit_instance([0], [1], [10])
    assert summarise(instance, play(instance), end_s=1000.0)["makespan_s"] == 10.0


@pytest.mark.parametrize(
    ("options", "finish"),
    [
        (dict(strict=True), [10, 14, 20, 16, 34]),
        (dict(), [10, 27, 7, 12, 23]),
        (dict(key=shortest_remaining, preemptive=True), [16, 4, 10, 6, 24]),
    ],
    ids=["fifo-strict", "fifo-skip", "srtf"],
)
def test_the_reference_scheduler_plays_known_schedules(options: dict, finish: list) -> None:
    log = play(instance_i(), **options)
    validate(instance_i(), log)
    assert job_times(instance_i(), log)["finish_s"].tolist() == finish
