"""Jobs that are killed at their time limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScheduleError, WorkloadError
from gpusched_env.event_log import COMPLETE
from gpusched_env.metrics import job_times, lower_bounds, summarise, validate
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate

KILLS = Semantics(checkpoint_s=0.0, restore_s=0.0, kill_at_limit=True)


def left_of(instance: Instance, log: object) -> dict[int, float]:
    """Iterations that each killed job had left."""
    events = log.events[log.events["kind"] == COMPLETE]  # type: ignore[attr-defined]
    return {int(event["job"]): float(event["value"]) for event in events if event["value"] > 0}


def test_a_job_that_exceeds_its_limit_ends_at_the_limit_and_one_that_does_not_ends_when_its_work_is_done() -> None:
    workload = Workload.from_columns(
        [0.0] * 4, [2] * 4, [100.0, 100.0, 100.0, 100.0], estimate_s=[60, 100, 150, np.nan]
    )
    instance = Instance(Cluster.parse("1x8"), workload, semantics=KILLS)
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    assert job_times(instance, log)["finish_s"].tolist() == [60.0, 100.0, 100.0, 100.0]
    assert left_of(instance, log) == {0: 40.0}
    summary = summarise(instance, log)
    assert summary["killed"] == 1.0
    assert summary["mean_slowdown"] == 1.0  # the shortest run of the killed job is its limit
    assert log.lines()[-4] == "60.000000 complete job 0 left 40.000000"


def test_a_preempted_job_is_killed_when_its_times_with_progress_add_up_to_its_limit() -> None:
    """Job 0 runs for 10 s, is preempted by job 1 for 5 s, and has 10 s of its limit left after that."""
    workload = Workload.from_columns([0.0, 10.0], [4, 4], [100.0, 5.0], estimate_s=[20.0, 5.0])
    instance = Instance(Cluster.parse("1x4"), workload, semantics=KILLS)
    log = simulate(instance, make_scheduler("srtf"))
    validate(instance, log)
    assert job_times(instance, log)["finish_s"].tolist() == [25.0, 15.0]
    assert left_of(instance, log) == {0: 80.0}


def test_without_the_option_jobs_run_on_after_their_limits() -> None:
    workload = Workload.from_columns([0.0], [2], [100.0], estimate_s=[60.0])
    instance = Instance(Cluster.parse("1x8"), workload)
    log = simulate(instance, make_scheduler("fifo"))
    assert job_times(instance, log)["finish_s"][0] == 100.0
    assert "killed" not in summarise(instance, log)
    killed = Instance(Cluster.parse("1x8"), workload, semantics=KILLS)
    with pytest.raises(ScheduleError, match=r"its limit is 60.0 s"):
        validate(killed, log)
    with pytest.raises(ScheduleError, match="its value must be 0"):
        validate(instance, simulate(killed, make_scheduler("fifo")))


def test_a_limit_of_zero_is_refused() -> None:
    workload = Workload.from_columns([0.0], [2], [100.0], estimate_s=[0.0])
    with pytest.raises(WorkloadError, match="job 0: its time limit is 0"):
        Instance(Cluster.parse("1x8"), workload, semantics=KILLS)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 8), st.integers(1, 80), st.integers(1, 80)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([0.0, 3.0]),
    st.sampled_from(["fifo-skip", "srtf", "las", "slurm", "slurm-multifactor", "drf", "gandiva-lite"]),
)
def test_killed_jobs_run_exactly_as_long_as_their_limit(rows: list[tuple[int, ...]], cost_s: float, spec: str) -> None:
    arrival, gpus, duration, limit = (np.array(column, float) for column in zip(*rows, strict=True))
    workload = Workload.from_columns(arrival, gpus, duration, estimate_s=limit)
    rules = Semantics(checkpoint_s=cost_s, restore_s=cost_s, kill_at_limit=True)
    instance = Instance(Cluster.parse("2x4"), workload, semantics=rules)
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    service = job_times(instance, log)["service_s"]
    limits = instance.limit_s
    claims = instance.workload.jobs["duration_s"]
    np.testing.assert_allclose(service, np.minimum(claims, limits), rtol=1e-9)
    assert set(left_of(instance, log)) == set(np.flatnonzero(claims > limits).tolist())
    summary = summarise(instance, log)
    bounds = lower_bounds(instance)
    assert summary["mean_jct_s"] >= bounds["mean_jct_s"] * (1 - 1e-9)
    assert summary["makespan_s"] >= bounds["makespan_s"] * (1 - 1e-9)


def with_limits(name: str, limit_s: float, kill: bool) -> Instance:
    plain = get_scenario(name).instance(1)
    jobs = plain.workload.jobs[:400].copy()
    jobs["estimate_s"] = limit_s
    rules = dataclasses.replace(plain.semantics, kill_at_limit=kill)
    return Instance(plain.cluster, Workload(jobs, plain.workload.profiles), plain.network, rules)


@pytest.mark.parametrize("name", ["philly-64-v1", "leaf-spine-256-v1"])
def test_limits_that_no_job_reaches_change_no_event(name: str) -> None:
    logs = [simulate(with_limits(name, 1e12, kill), make_scheduler("tiresias")) for kill in (False, True)]
    assert logs[0].digest() == logs[1].digest()


def test_where_rates_change_killed_jobs_run_as_long_as_their_limit() -> None:
    instance = with_limits("leaf-spine-256-v1", 1800.0, True)
    log = simulate(instance, make_scheduler("tiresias"))
    validate(instance, log)
    killed = list(left_of(instance, log))
    assert len(killed) > 10
    np.testing.assert_allclose(job_times(instance, log)["service_s"][killed], 1800.0, rtol=1e-9)
