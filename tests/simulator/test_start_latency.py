"""The latency of first starts in a run: worked by hand, in the log, for the validator, and in environments."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers import Script, plain_python_digests, play
from scheduler_player import play_scheduler, wide_open

from gpusched_env import Cluster, Instance, Network, Preempt, Semantics, Start, Workload, make_scheduler, simulate
from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import RESUME, START
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.workload import START_LATENCY
from gpusched_env.scenarios import Scenario, get_scenario


def instance(latency_s: list[float] | None, second_s: float = 20.0, **rules: Any) -> Instance:
    """Two jobs of 10 s on one machine of four GPUs, of which each needs all; the second arrives at ``second_s``."""
    told = {} if latency_s is None else {START_LATENCY: np.array(latency_s)}
    workload = Workload.from_columns([0.0, second_s], [4, 4], [10.0, 10.0], attributes=told)
    return Instance(Cluster.parse("1x4"), workload, Network("none"), Semantics(**rules))


def test_a_gang_holds_its_gpus_before_its_first_progress_and_not_again_after_a_preemption() -> None:
    """Job 0: 7 + 3 s, 2 s of progress up to 12 s, a checkpoint of 1 s, a restore of 2 s, and 8 s of progress.

    Job 1 waits for it until 23 s, then needs 0.5 + 3 s, and 10 s.
    """
    problem = instance([7.0, 0.5], 12.0, start_s=3.0, checkpoint_s=1.0, restore_s=2.0)
    log = play(problem, Script({0.0: [Start(0)], 12.0: [Preempt(0)], 13.0: [Start(0)]}, then="pack"))
    events = log.events
    assert events["value"][events["kind"] == START].tolist() == [10.0, 23.0 + 3.5]
    assert events["value"][events["kind"] == RESUME].tolist() == [15.0]
    times = job_times(problem, log)
    assert times["first_start_s"].tolist() == [0.0, 23.0]
    assert times["finish_s"].tolist() == [23.0, 36.5]
    assert times["overhead_s"].tolist() == [10.0 + 1.0 + 2.0, 3.5]
    assert times["gpu_seconds"].tolist() == [4 * 23.0, 4 * 13.5]


def test_a_gang_preempted_before_its_first_progress_has_made_none() -> None:
    problem = instance([7.0, 1.0], 5.0, checkpoint_s=0.0, restore_s=2.0)
    log = play(problem, Script({0.0: [Start(0)], 5.0: [Preempt(0), Start(0)]}, then="pack"))
    assert job_times(problem, log)["finish_s"].tolist() == [5.0 + 2.0 + 10.0, 17.0 + 1.0 + 10.0]


def test_latencies_of_zero_change_nothing_and_others_do() -> None:
    logs = [simulate(instance(each), make_scheduler("fifo")).digest() for each in (None, [0.0, 0.0], [0.0, 1.0])]
    assert logs[0] == logs[1] != logs[2]


def test_the_validator_refuses_another_latency() -> None:
    log = simulate(instance([7.0, 1.0]), make_scheduler("fifo"))
    validate(instance([7.0, 1.0]), log)
    with pytest.raises(ScheduleError, match=r"progress must begin .* and its latency after a start"):
        validate(instance([7.0, 2.0]), log)
    with pytest.raises(ScheduleError, match="progress must begin"):
        validate(instance(None), log)


def noisy(name: str = "philly-64-v1") -> Scenario:
    scenario = get_scenario(name)
    fields: dict[str, Any] = {"noise": {}, "start_latency": "container", "jobs": 60}
    return scenario.replace(workload=dataclasses.replace(scenario.workload, **fields), tracked_window=None)


@pytest.mark.parametrize("name", ["fifo", "srtf", "las:placement=spread"])
def test_the_environment_plays_alike(name: str) -> None:
    scenario, seed = noisy(), 200_000
    problem = scenario.instance(seed)
    direct = simulate(problem, make_scheduler(name), seed=seed)
    validate(problem, direct)
    through = play_scheduler(wide_open(scenario, seed, rules=("pack", "spread")), make_scheduler(name), seed)
    assert through.digest() == direct.digest()
    events = direct.events[direct.events["kind"] == START]
    waited = events["value"] - events["time_s"]
    assert waited == pytest.approx(problem.workload.attributes[START_LATENCY][events["job"]], rel=1e-9)


def digests() -> list[str]:
    problem = noisy("tiny-v1").instance(3)
    return [simulate(problem, make_scheduler(name), seed=3).digest() for name in ("srtf", "las", "random")]


def test_plain_python_plays_the_same() -> None:
    assert plain_python_digests("tests.simulator.test_start_latency") == digests()
