"""Extreme numbers play or are refused; nothing hangs, and what takes long returns to Python now and then."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.core import events
from gpusched_env.envs.step import MOST_LOGS
from gpusched_env.errors import EntryError, GpuschedError, MismatchError, ScenarioError, SchedulerError, WorkloadError
from gpusched_env.leaderboard import child_process, record
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Lease, Simulation, Start, Wait, simulate
from gpusched_env.support.units import LATEST_S
from soak.extremes import KINDS, play_extremes

resource = pytest.importorskip("resource")  # POSIX
MOST_CPU_S = 300  # a backstop: a trial that hangs ends the child, and its last line names the trial


# --- times beyond the clock


@pytest.mark.parametrize("round_s", [0.0, 60.0, 1e-3])
def test_a_lease_beyond_the_clock_is_refused_and_others_end_at_a_round(round_s: float) -> None:
    simulation = Simulation(unit_instance([0.0], [1], [1e4], "1x1", round_s=round_s))
    simulation.advance()
    assert not simulation.apply(Start(0))
    for until_s in (1e300, 1e15, math.nextafter(LATEST_S, math.inf)):
        assert "until_s of a lease is later than 1e+11 s" in simulation.apply(Lease(0, until_s))
    for until_s in (LATEST_S, 61.0, 60.0, 0.1 + 0.2, math.inf):
        assert not simulation.apply(Lease(0, until_s))
        end_s = float(simulation.arrays.replicas["lease_s"][0])
        assert end_s >= until_s
        assert end_s - until_s < max(round_s, 1e-9) or until_s == math.inf


@pytest.mark.parametrize("steps", [2**53 + 1, 10**400, -1, True, 1.5])
def test_steps_are_whole_numbers_that_a_float_holds(steps: float) -> None:
    with pytest.raises(ScenarioError, match=r"^semantics\.step_iterations is "):
        Semantics(step_iterations=steps)  # type: ignore[arg-type]
    assert Semantics(step_iterations=2**53).step_iterations == 2**53


@pytest.mark.parametrize("until_s", [1e300, 1e15, 10**400])
def test_a_wait_beyond_the_clock_is_refused(until_s: Any) -> None:
    simulation = Simulation(unit_instance([0.0], [1], [10.0], "1x1"))
    simulation.advance()
    with pytest.raises(GpuschedError, match="until_s"):
        simulation.apply(Wait(until_s))
    assert not simulation.apply(Wait(math.inf))


@pytest.mark.parametrize(
    "name", ["round_s", "checkpoint_s", "restore_s", "start_s", "merge_s", "slot_s", "resize_s", "time_limit_s"]
)
def test_rules_beyond_the_clock_are_refused(name: str) -> None:
    for value in (1e15, 1e300, 10**400):
        with pytest.raises(ScenarioError, match=rf"semantics\.{name} is .*: it must be at most 1e\+11 seconds"):
            Semantics(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(duration_s=[1e15]), r"job 0: 1e\+15 s is its run time: give 1e-09 to 1e\+11"),
        (dict(duration_s=[1e-300]), r"job 0: 1e-300 s is its run time"),
        (dict(arrival_s=[1e15]), r"arrival_s is 1.*expected arrival_s \(a number of seconds from 0 to 1e\+11\)"),
        (dict(step_iterations=1, duration_s=[1e9]), r"steps is its work"),
    ],
)
def test_work_beyond_the_clock_is_refused(changes: dict[str, Any], message: str) -> None:
    given = dict(arrival_s=[0.0], duration_s=[10.0]) | changes
    columns = given.pop("arrival_s"), [1], given.pop("duration_s")
    with pytest.raises(WorkloadError, match=message):
        unit_instance(*columns, "1x1", **given)


def test_a_run_that_goes_beyond_the_clock_is_an_error() -> None:
    instance = unit_instance([0.0, 0.0], [1, 1], [0.9 * LATEST_S, 0.9 * LATEST_S], "1x1")
    for scheduler in (make_scheduler("fifo"), make_scheduler("srtf")):
        with pytest.raises(SchedulerError, match=r"beyond 1e\+11 s, the latest time of the clock"):
            simulate(instance, scheduler)


def long_jobs(round_s: float, mean_s: float) -> Any:
    scenario = get_scenario("tiny-v1")
    parameters = dict(scenario.workload.parameters) | {"mean_duration_s": mean_s, "rate_per_s": 1.0}
    workload = dataclasses.replace(scenario.workload, parameters=parameters, jobs=2)
    return scenario.replace(workload=workload, semantics=dataclasses.replace(scenario.semantics, round_s=round_s))


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_an_environment_beyond_the_clock_is_an_error(make: Any) -> None:
    scenario = get_scenario("tiny-v1")
    parameters = dict(scenario.workload.parameters) | {"mean_duration_s": LATEST_S / 100}
    workload = dataclasses.replace(scenario.workload, parameters=parameters, jobs=1000)
    env = make("gpusched/Cluster-v0", scenario=scenario.replace(workload=workload), running_window=0)

    def play() -> None:
        _, info = env.reset(seed=4)
        for _ in range(4000):
            actions = np.atleast_2d(info["action_mask"]).argmax(axis=1)
            *_, info = env.step(actions if make is gym.make_vec else int(actions[0]))

    with pytest.raises(GpuschedError, match="latest time of the clock"):
        play()


# --- long kernels return


def test_a_compiled_loop_without_events_returns() -> None:
    rounds = 5 * events.MOST_QUIET
    instance = unit_instance([0.0], [1], [float(rounds)], "1x1", round_s=1.0)
    told: list[int] = []
    simulate(instance, make_scheduler("fifo"), progress=lambda done, jobs: told.append(done))
    assert len(told) >= 5


def test_a_long_step_of_a_batch_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    envs: Any = gym.make_vec(
        "gpusched/Cluster-v0", num_envs=1, scenario=long_jobs(1.0, 4.0 * MOST_LOGS * events.MOST_QUIET),
        running_window=0,
    )  # fmt: skip
    _, infos = envs.reset(seed=1)
    calls: list[int] = []
    drive = envs._runs._drive
    monkeypatch.setattr(envs._runs, "_drive", lambda: calls.append(1) or drive())
    steps, over = 0, False
    while not over:
        _, _, ended, cut, infos = envs.step(infos["action_mask"].argmax(axis=1))
        steps, over = steps + 1, bool(ended[0] or cut[0])
    assert len(calls) > steps
    envs.close()


# --- verification apart


def spin(answer: int, turns: float) -> int:
    """Work for a number of turns, without looking at a clock."""
    at = 0
    while at < turns:
        at += 1
    return answer


def test_a_call_apart_cannot_take_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "SPARE_S", 0.0)
    assert child_process.apart(spin, (5, 10), 1.0) == 5
    with pytest.raises(EntryError, match=r"more than 0\.1 s of CPU time"):
        child_process.apart(spin, (5, math.inf), 0.1)
    assert child_process.apart(spin, (6, 10), 1.0) == 6  # by another child
    with pytest.raises(TypeError):
        child_process.apart(spin, ("too", "few", "arguments"), 1.0)


def test_the_parent_ends_a_call_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARE_S", "COMPILE_S"):
        monkeypatch.setattr(child_process, name, 0.5)
    monkeypatch.setattr(child_process, "WALL", 1.0)
    with pytest.raises(EntryError):
        child_process.apart(time.sleep, (100.0,), 0.1)


def test_an_entry_with_a_lease_without_end_is_refused() -> None:
    """Its replay once counted up 2**63 rounds."""
    import msgspec

    from gpusched_env.leaderboard import About, Track, make_entry, unpack, verify
    from gpusched_env.leaderboard.columns import pack

    track = Track("hadar-test", "Hadar", "For tests.", "hadare-lab-v0", reports=1)
    entry = make_entry(track, "fifo", About("", "", "", "", [], "", ""))
    run = entry.runs[0]
    table = unpack(run.decisions)
    told = list(table.decisions())
    at = next(number for number, decision in enumerate(told) if isinstance(decision, Start))
    told.insert(at + 1, Lease(told[at].job, 1e300))
    points, times_s = table.points.tolist(), (table.times_ms / 1000.0).tolist()
    points.insert(at + 1, points[at])
    times_s.insert(at + 1, times_s[at])
    runs = [msgspec.structs.replace(run, decisions=pack(points, times_s, told))]
    forged = msgspec.structs.replace(entry, runs=runs, sha256="").sealed()
    with pytest.raises(MismatchError, match=r"Lease until .*is refused: until_s of a lease is later than"):
        verify(forged, track=track, seconds=3.0)


# --- every number


def test_extreme_numbers_play_or_are_refused() -> None:
    """In a child with a limit: a kernel that does not return can be stopped in no other way."""
    code = "from soak.extremes import main; main()"
    limit = (MOST_CPU_S, MOST_CPU_S)
    child = subprocess.run(
        [sys.executable, "-c", code, "10", "0", "scenarios", "environments", "decisions", "entries"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert child.returncode == 0, f"{child.stdout}\n{child.stderr[-600:]}"
    assert "0 findings" in child.stdout


def test_trials_depend_on_the_seed_alone() -> None:
    kept: list[list[str]] = []
    for _ in range(2):
        rng = np.random.default_rng(3)
        kept.append([KINDS[kind](rng)[0] for kind in sorted(KINDS) for _ in range(5)])
    assert kept[0] == kept[1]
    assert len(set(kept[0])) > 10
    assert not play_extremes(0, 0.0).trials


# --- schedulers


def test_usage_over_more_periods_than_are_counted_is_that_of_the_geometric_sum() -> None:
    """A job holds 4 GPUs for 1e8 periods of 1 s, with half-lives of 10 and 1e7 periods; then another one arrives."""
    for half_life_s in (10.0, 1e7):
        instance = unit_instance([0.0, 1e8], [4, 1], [1e8, 5.0], "1x4")
        scheduler = make_scheduler(
            "slurm", calc_period_s=1.0, decay_half_life_s=half_life_s, fair_share_weight=1.0, backfill="none"
        )
        simulation = Simulation(instance)
        player = scheduler.player(simulation)
        assert player is not None
        player.play()
        decay = 2.0 ** (-1.0 / half_life_s)
        ended = 4.0 * (1.0 - decay**1e8) / (1.0 - decay)
        assert player.own.usage.sum() == pytest.approx(ended, rel=1e-5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (Dally(idle_retry_s=1e-9), "idle_retry_s is 1e-09: give 0, 0.001 to 1e.11 seconds"),
        (Dally(idle_retry_s=1e12), "idle_retry_s is 1000000000000.0: give 0"),
        (Slurm(age_weight=1e13), "age_weight is 1.*: give a number of at most 1e.12"),
        (Slurm(queue_depth=2**40), "queue_depth is 1099511627776: give a whole number"),
    ],
    ids=repr,
)
def test_a_scheduler_that_is_made_directly_keeps_the_rules_of_make_scheduler(scheduler: Any, message: str) -> None:
    instance = unit_instance([0.0], [1], [5.0], "1x1")
    for play in (simulate, record):
        with pytest.raises(SchedulerError, match=message):
            play(instance, scheduler)
