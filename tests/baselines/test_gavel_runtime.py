"""Gavel's runtime on a cluster: rounds that are planned before the present one is over."""

from __future__ import annotations

import numpy as np
import pytest
from gavel_runtime import Runtime
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.gavel.scheduler import Gavel
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import COMPLETE, PREEMPT, RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload

L = 120.0  # [s] round
NAMES = {START: "start", RESUME: "start", PREEMPT: "stop", COMPLETE: "end"}


def instance(
    arrival: list[float], work_s: list[float], cluster: str, restart_s: float = 0.0, weights: list[float] | None = None
) -> Instance:
    told = {"priority_weight": np.array(weights or [1.0] * len(arrival))}
    jobs = Workload.from_columns(arrival, [1] * len(arrival), work_s, attributes=told)
    rules = Semantics(checkpoint_s=0.0, restore_s=restart_s, start_s=restart_s)
    return Instance(Cluster.parse(cluster), jobs, Network("none"), rules)


def scheduler(policy: str = "max_min_fairness", plan_at: float = 0.5, resolve_s: float = 1e6) -> Gavel:
    return Gavel(policy, round_s=L, plan_at=plan_at, resolve_s=resolve_s)


def turns(log: EventLog) -> list[tuple[float, str, int]]:
    kept = log.events[np.isin(log.events["kind"], list(NAMES))]
    return [(float(e["time_s"]), NAMES[int(e["kind"])], int(e["job"])) for e in kept]


def test_a_running_gang_keeps_its_gpus_where_it_would_tie_at_the_end_of_the_round() -> None:
    """Two jobs on a GPU, each credited 60 s. At 180 s, B has had 60 + 60 s and A 60 + 120 s, so the lease of B is
    renewed; at 300 s, B has had 60 + 180 s and A 180 s. From there on, leases last two rounds, not one.
    """
    problem = instance([0, 0], [600, 600], "1x1")
    first = [
        (0, "start", 0), (120, "stop", 0), (120, "start", 1), (360, "stop", 1), (360, "start", 0), (600, "stop", 0),
        (600, "start", 1), (840, "stop", 1), (840, "start", 0), (1080, "end", 0), (1080, "start", 1), (1200, "end", 1),
    ]  # fmt: skip
    assert turns(play(problem, scheduler())) == first
    alternating = turns(play(problem, scheduler(plan_at=1.0)))
    assert [job for _, what, job in alternating if what == "start"] == [0, 1] * 5


def test_time_of_a_restart_is_not_time_received() -> None:
    """As above with restarts of 70 s. At 60 s, A has had nothing, and its lease is renewed; at 180 s, it has had 110 s.
    At 300 s, B has had nothing; at 420 s, 110 s, less than the 170 s of A; at 540 s, 230 s.
    """
    log = play(instance([0, 0], [600, 600], "1x1", restart_s=70.0), scheduler())
    assert turns(log)[:5] == [(0, "start", 0), (240, "stop", 0), (240, "start", 1), (600, "stop", 1), (600, "start", 0)]


def test_free_gpus_go_to_the_next_round_at_once_and_an_ended_job_keeps_its_place() -> None:
    """Job 0 ends at 90 s, after the plan at 60 s for jobs 2 and 0; job 2 waits for the GPU of job 1. The GPU of job 0
    is idle until the plan at 180 s, which gives it to job 1 at once, before the round begins at 240 s.
    """
    problem = instance([0, 0, 0], [90, 500, 500], "1x2")
    assert turns(play(problem, scheduler()))[:7] == [
        (0, "start", 0), (0, "start", 1), (90, "end", 0), (120, "stop", 1), (120, "start", 2), (180, "start", 1),
        (560, "end", 1),
    ]  # fmt: skip


def test_a_job_that_comes_after_the_plan_starts_if_the_system_is_empty() -> None:
    log = play(instance([0, 90], [100, 50], "1x1"), scheduler())
    assert turns(log) == [(0, "start", 0), (100, "end", 0), (100, "start", 1), (150, "end", 1)]


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    gpus=st.integers(2, 4),
    restart_s=st.sampled_from([0.0, 13.0, 42.0]),
    middle=st.sampled_from([0.25, 0.5, 0.75]),
    reset_s=st.sampled_from([300.0, 1_000.0]),
)
def test_every_lease_is_that_of_the_published_runtime(
    seed: int, gpus: int, restart_s: float, middle: float, reset_s: float
) -> None:
    """While at least twice as many jobs are present as GPUs: no share reaches 1, so all shares are unique."""
    rng = np.random.default_rng(seed)
    count = 5 * gpus
    arrival = np.sort(np.where(np.arange(count) < 3 * gpus, 0.0, rng.uniform(1.0, 900.0, count))).tolist()
    work, weights = rng.uniform(30.0, 1_000.0, count).tolist(), rng.uniform(0.8, 1.25, count).tolist()
    problem = instance(arrival, work, f"1x{gpus}", restart_s, weights)
    found = turns(play(problem, scheduler(plan_at=middle, resolve_s=reset_s)))
    busy_s = [time for time, what, _ in found if what == "end"][-2 * gpus]
    runtime = Runtime(list(zip(arrival, work, weights, strict=True)), gpus, L, reset_s, restart_s, middle)
    expected = sorted((round(time, 6), what, job) for time, what, job, _ in runtime.run(busy_s))
    to_s = runtime.valid_to_s - 1e-3
    assert sorted((round(time, 6), what, job) for time, what, job in found if time < to_s) == expected


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1_000),
    policy=st.sampled_from(
        ["max_min_fairness_perf", "finish_time_fairness", "allox", "fifo_perf", "min_total_duration"]
    ),
    costs=st.sampled_from([(0.0, 0.0), (30.0, 30.0), (200.0, 0.0)]),
    plan_at=st.sampled_from([0.1, 0.5, 0.9]),
)
def test_every_job_ends(seed: int, policy: str, costs: tuple[float, float], plan_at: float) -> None:
    rng = np.random.default_rng(seed)
    jobs = Workload.from_columns(
        np.cumsum(rng.exponential(100.0, 15)) * (rng.random() < 0.7),
        rng.choice([1, 1, 2, 4], 15),
        rng.uniform(1, 3e3, 15),
    )
    rules = Semantics(checkpoint_s=costs[0], restore_s=costs[1], start_s=costs[1])
    problem = Instance(Cluster.parse("2x4"), jobs, Network("none"), rules)
    log = play(problem, scheduler(policy, plan_at, 500.0))  # play validates the log
    assert not np.isnan(job_times(problem, log)["finish_s"]).any()


@pytest.mark.parametrize("rest", [{"gavel_compat": True}, {"whole_steps": True}, {"policy": "gandiva"}])
def test_it_is_for_whole_gpus_and_continuous_work(rest: dict[str, object]) -> None:
    with pytest.raises(SchedulerError, match=r"plan_at=0.5 is for whole GPUs.*or plan_at=1"):
        Gavel(plan_at=0.5, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize("plan_at", [0.0, 1e-20, 5e-324, 1.5, float("nan")])
def test_plan_at_is_a_fraction(plan_at: float) -> None:
    with pytest.raises(SchedulerError, match=r"plan_at.*fraction of a round"):
        Gavel(plan_at=plan_at)
