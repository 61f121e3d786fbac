"""Delay timers as an environment: actions, observations, rewards, and equality with static timers."""

from __future__ import annotations

import math
import pickle
import warnings
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cost import lines_run
from gymnasium.utils.env_checker import check_env
from helpers import random_workload, unit_instance
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.delay_timers import columns
from gpusched_env.delay_timers.actions import TimerActions, timer_action, timer_seconds
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.delay_timers.observer import TimerObserver, observation_space
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.event_log import ARRIVAL, COMPLETE, RELEASE, RESUME, START
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.scenarios import Seeds, get_scenario
from gpusched_env.simulator import Outcome, Preempt, Simulation, Start, simulate

CLUSTER = Cluster.parse("32x8/8")

# --- actions


def test_actions_give_known_timers() -> None:
    seconds = timer_seconds(np.array([0.0, -0.5, 0.5]))
    np.testing.assert_allclose(seconds, [6_023.95, 465.38, 77_974.73], atol=0.005)
    assert timer_seconds(np.array(0.38469)) == pytest.approx(43_200, rel=1e-4)
    assert timer_action([43_200.0])[0] == pytest.approx(0.38469, abs=5e-6)


def test_both_ends_are_reached_before_the_limits() -> None:
    assert timer_seconds(np.array([-1.0, -0.9, 0.9, 1.0])).tolist() == [0.0, 0.0, math.inf, math.inf]
    near = timer_seconds(np.array([-0.899, 0.899]))
    assert 60.0 < near[0] < 61.0
    assert 590_000 < near[1] < 604_800


@given(st.floats(61.0, 604_000.0))
def test_timers_round_trip_through_actions(seconds: float) -> None:
    assert timer_seconds(timer_action([seconds]))[0] == pytest.approx(seconds, rel=1e-5)


@given(st.lists(st.floats(-1, 1), min_size=12, max_size=12))
def test_the_network_timer_is_never_below_the_rack_timer_where_a_machine_may_hold_the_gang(values: list[float]) -> None:
    action = np.reshape(values, (6, 2))
    actions = TimerActions(CLUSTER)
    waits = actions.waits(action)
    own = timer_seconds(action)
    assert (waits[2:9, 1] >= waits[2:9, 0]).all()
    np.testing.assert_array_equal(waits[2:9, 1], waits[2:9, 0] + own[actions.class_of[2:9], 1])
    # larger than a machine: the network timer only
    np.testing.assert_array_equal(waits[9:, 1], own[actions.class_of[9:], 1])
    assert (waits[:2] == 0).all()


def test_classes_of_gang_sizes() -> None:
    classes = TimerActions(CLUSTER).class_of
    assert classes[[0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 256]].tolist() == [-1, -1, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_class_that_straddles_the_machine_size_treats_its_demands_apart() -> None:
    actions = TimerActions(Cluster.parse("4x6/2"))
    waits = actions.waits(np.zeros((6, 2)))
    one = timer_seconds(np.array(0.0))
    assert waits[6].tolist() == [one, 2 * one]
    assert waits[7].tolist() == [one, one]


def test_residual_actions_multiply_by_at_most_sixteen() -> None:
    actions = TimerActions(CLUSTER, residual=True)
    assert (actions.factors(np.zeros((6, 2))) == 1.0).all()
    factors = actions.factors(np.tile([1.0, -0.5], (6, 1)))
    assert (factors[2:] == [16.0, 0.25]).all()
    assert (factors[:2] == 1.0).all()


@pytest.mark.parametrize("action", [np.zeros(12), np.zeros((5, 2)), [[math.nan, 0.0]] * 6, "far", [[0.0], [0.0, 1.0]]])
def test_an_invalid_action_is_refused(action: object) -> None:
    with pytest.raises(GpuschedError, match="action"):
        TimerActions(CLUSTER).waits(action)  # type: ignore[arg-type]


@pytest.mark.parametrize("classes", [(), (1, 4), (4, 4), (8, 4)])
def test_classes_that_do_not_ascend_are_refused(classes: tuple[int, ...]) -> None:
    with pytest.raises(GpuschedError, match="ascend"):
        TimerActions(CLUSTER, classes)


# --- observations


def at(observation: dict[str, np.ndarray], name: str, demand_class: int | None = None) -> float:
    if demand_class is None:
        return float(observation["cluster"][getattr(columns.CLUSTER, name)])
    return float(observation["classes"][demand_class, getattr(columns.CLASS, name)])


def seconds(value: float) -> float:
    """The time that a scaled value means [s]."""
    return 60.0 * math.expm1(value * math.log1p(30 * 86_400 / 60.0))


def count(value: float) -> float:
    return 8.0 * value / (1.0 - value)


def test_observations_of_an_hour_stepped_by_hand() -> None:
    """Two racks of two machines of four GPUs. A gang of 6 waits 600 s for its rack, one of 3 for a machine."""
    instance = unit_instance([0, 0, 600, 900], [8, 4, 6, 3], [600, 5_000, 9_000, 100], "4x4/2")
    simulation, actions = Simulation(instance), TimerActions(instance.cluster)
    observer = TimerObserver(simulation, actions, 1_800.0)
    waits = actions.waits(np.full((6, 2), -0.5))
    assert simulation.advance() is Outcome.DECIDE  # jobs 0 and 1 arrive
    assert simulation.apply(Start(0, gpus=tuple(range(8)))) == ""
    assert simulation.apply(Start(1, gpus=(8, 9, 12, 13))) == ""
    simulation.advance()  # job 0 ends and job 2 arrives
    simulation.advance()  # job 3 arrives
    assert simulation.now_s == 900
    assert simulation.apply(Start(2, gpus=(0, 1, 2, 10, 11, 14))) == ""
    seen = observer.observe(waits, 1_000.0)

    assert observation_space(6).contains(seen)
    assert [count(at(seen, "arrivals", number)) for number in range(6)] == pytest.approx([0, 2, 2, 0, 0, 0])
    assert count(at(seen, "completions", 2)) == pytest.approx(1)
    assert count(at(seen, "wait_count_rack", 1)) == pytest.approx(1)  # job 1: 4 GPUs on two machines
    assert at(seen, "expired_machine", 1) == 1.0
    assert at(seen, "expired_rack", 1) == 0.0
    assert seconds(at(seen, "wait_mean_network", 2)) == pytest.approx(300.0, rel=1e-4)  # job 2: from 600 to 900
    assert count(at(seen, "wait_count_rack", 2)) == pytest.approx(1)  # job 0 did not wait
    assert at(seen, "expired_rack", 2) == 0.5
    assert count(at(seen, "queued", 1)) == pytest.approx(1)
    assert seconds(at(seen, "waited_max", 1)) == pytest.approx(100.0, rel=1e-4)
    assert count(at(seen, "refusing_rack", 1)) == pytest.approx(1)
    assert at(seen, "queued_gpus", 1) == pytest.approx(3 / 19)
    assert seconds(at(seen, "timer_rack", 0)) == pytest.approx(465.38, rel=1e-4)
    assert at(seen, "free") == pytest.approx(6 / 16)
    assert at(seen, "machines_4") == pytest.approx(1 / 4)
    assert at(seen, "machines_1") == pytest.approx(3 / 4)
    assert at(seen, "largest_rack") == pytest.approx(5 / 8)
    assert at(seen, "fragmentation") == pytest.approx(2 / 6)
    assert at(seen, "running_rack") == pytest.approx(4 / 16)
    assert at(seen, "running_network") == pytest.approx(6 / 16)
    assert at(seen, "running_worse") == pytest.approx(10 / 16)  # the gang of 4 fits a machine, the gang of 6 a rack
    assert at(seen, "day_sin") == pytest.approx(math.sin(2 * math.pi * 1_000 / 86_400))

    again = observer.observe(waits, 1_000.0)
    assert at(again, "arrivals", 1) == at(again, "completions", 2) == 0.0  # counted once
    assert at(again, "wait_count_rack", 2) == at(seen, "wait_count_rack", 2)  # kept for a day
    later = observer.observe(waits, 900.0 + 86_400.0)
    assert at(later, "wait_count_network", 2) == 0.0


def recounted_waits(instance: Instance, events: np.ndarray, now_s: float) -> dict[tuple[int, int], list[float]]:
    """Waits of the placements of the last day by class and tier, recounted job by job."""
    classes = TimerActions(instance.cluster).class_of
    found: dict[tuple[int, int], list[float]] = {}
    for job in range(len(instance.workload)):
        since = instance.workload.jobs["arrival_s"][job]
        for event in events[events["job"] == job]:
            if event["kind"] == RELEASE:
                since = event["time_s"]
            if event["kind"] in (START, RESUME) and event["time_s"] > now_s - 86_400:
                key = (int(classes[instance.workload.jobs["gpus"][job]]), int(event["tier"]))
                found.setdefault(key, []).append(event["time_s"] - since)
    return {key: waits for key, waits in found.items() if key[0] >= 0}


@pytest.mark.parametrize("seed", range(4))
def test_waits_equal_those_of_the_log_for_any_interval(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster.parse("4x4/2")
    instance = Instance(cluster, random_workload(rng, 60, 12, spacing_s=3_000.0), Network(), Semantics())
    simulation, actions = Simulation(instance), TimerActions(cluster)
    observer = TimerObserver(simulation, actions, 1_800.0)
    waits = actions.waits(np.zeros((6, 2)))
    arrivals = completions = 0.0
    while simulation.advance() is Outcome.DECIDE:
        world = simulation.arrays.world
        for row in waiting_rows(simulation.arrays).tolist():
            simulation.apply(Start(row, ("pack", "spread")[rng.integers(2)]))
        running = simulation.arrays.replicas["job"][simulation.arrays.running[: world["running"]]].tolist()
        if running and rng.random() < 0.3:
            simulation.apply(Preempt(running[rng.integers(len(running))]))
        if rng.random() < 0.5:
            seen = observer.observe(waits, simulation.now_s)
            assert observation_space(6).contains(seen)
            arrivals += sum(count(at(seen, "arrivals", number)) for number in range(6))
            completions += sum(count(at(seen, "completions", number)) for number in range(6))
    seen = observer.observe(waits, simulation.now_s)
    arrivals += sum(count(at(seen, "arrivals", number)) for number in range(6))
    completions += sum(count(at(seen, "completions", number)) for number in range(6))
    events = simulation.log().events
    gangs = int((instance.workload.jobs["gpus"] > 1).sum())
    assert arrivals == pytest.approx(gangs, abs=1e-3)
    assert completions == pytest.approx(gangs, abs=1e-3)
    assert {ARRIVAL, COMPLETE} < set(events["kind"].tolist())
    found = recounted_waits(instance, events, simulation.now_s)
    for number in range(6):
        for tier, name in enumerate(("machine", "rack", "network")):
            own = found.get((number, tier), [])
            assert count(at(seen, f"wait_count_{name}", number)) == pytest.approx(len(own), abs=1e-3)
            if own:
                assert seconds(at(seen, f"wait_mean_{name}", number)) == pytest.approx(np.mean(own), rel=1e-3, abs=0.1)
                assert seconds(at(seen, f"wait_sigma_{name}", number)) == pytest.approx(np.std(own), rel=1e-3, abs=0.1)


# --- the environment

SMALL = "dally-drift-v1:jobs=60,load=0.9"


@dataclass
class Given:
    """A scenario with a fixed instance."""

    problem: Instance
    seeds: Seeds = field(default_factory=Seeds)
    tracked_window: None = None
    variation: None = None

    @property
    def cluster(self) -> Cluster:
        return self.problem.cluster

    def instance(self, seed: int) -> Instance:
        return self.problem


def two_jobs(**rules: float) -> Any:
    return Given(unit_instance([0, 20], [1, 1], [100, 30], "1x4", **rules))


def play_constant(env: DelayTimersEnv, action: Any, seed: int = 0) -> tuple[list[float], dict[str, Any]]:
    """Rewards and last info of an episode with a constant action."""
    env.reset(seed=seed)
    rewards, over, info = [], False, {}
    while not over:
        _, reward, terminated, truncated, info = env.step(np.broadcast_to(np.asarray(action, float), env.timers.shape))
        rewards.append(reward)
        over = terminated or truncated
    return rewards, info


def test_rewards_of_two_jobs_by_hand() -> None:
    """Jobs [0, 100] and [20, 50], intervals of 60 s."""
    env = DelayTimersEnv(two_jobs(), interval_s=60.0, scale=1.0)
    rewards, info = play_constant(env, 0.0)
    assert rewards == [-90.0, -40.0]
    assert info["metrics"]["mean_jct_s"] == 65.0
    assert info["dt"] == 40.0


def test_a_truncated_episode_pays_to_the_horizon_and_reports_no_mean_of_finished_jobs() -> None:
    for env in (
        DelayTimersEnv(two_jobs(), interval_s=60.0, scale=1.0, horizon_s=80.0),
        DelayTimersEnv(two_jobs(time_limit_s=80.0), interval_s=60.0, scale=1.0),
    ):
        rewards, info = play_constant(env, 0.0)
        assert rewards == [-90.0, -20.0]
        assert all(map(math.isinf, info["metrics"].values()))
        assert (info["jobs_left"], info["mean_time_in_system_s"]) == (1, 55.0)
        with pytest.raises(gym.error.ResetNeeded):
            env.step(np.zeros((6, 2)))


@pytest.mark.parametrize("seed", [0, 1_000])
def test_the_return_of_an_episode_is_minus_total_jct_over_total_ideal_time(seed: int) -> None:
    env = DelayTimersEnv(SMALL)
    rewards, info = play_constant(env, -0.2, seed)
    jct_s = job_times(env.simulation.instance, env.event_log())["jct_s"]
    assert sum(rewards) == pytest.approx(-jct_s.sum() / env.simulation.instance.ideal_s.sum(), rel=1e-12)
    assert info["metrics"]["mean_jct_s"] == pytest.approx(jct_s.mean())


PER_CLASS = np.linspace(-1, 1, 12).reshape(6, 2)


@pytest.mark.parametrize(
    "action", [(-1.0, -1.0), (1.0, 1.0), (-0.4, 0.4), PER_CLASS], ids=["0", "inf", "pair", "class"]
)
def test_a_constant_action_is_static_timers_byte_for_byte(action: Any) -> None:
    env = DelayTimersEnv(SMALL)
    _, info = play_constant(env, action, 3)
    instance = get_scenario(SMALL).instance(3)
    run = DelayRun(instance, Dally(tuner="off"))
    run.waits_s[:] = env.timers.waits(np.broadcast_to(np.asarray(action), (6, 2)))
    run.play()
    assert info["digest"] == run.simulation.log().digest()


@pytest.mark.parametrize(("action", "wait"), [(-1.0, 0.0), (1.0, math.inf)])
def test_the_ends_of_the_range_are_no_wait_and_full_consolidation(action: float, wait: float) -> None:
    _, info = play_constant(DelayTimersEnv(SMALL), action, 3)
    log = simulate(get_scenario(SMALL).instance(3), Dally(tuner="off", rack_wait=wait, nw_wait=wait))
    assert info["digest"] == log.digest()


def test_no_residual_is_the_hand_tuner_byte_for_byte() -> None:
    _, info = play_constant(DelayTimersEnv(SMALL, mode="residual"), 0.0, 3)
    assert info["digest"] == simulate(get_scenario(SMALL).instance(3), make_scheduler("dally:tuner=hand")).digest()


def test_a_residual_scales_the_hand_tuners_timers() -> None:
    env = DelayTimersEnv(SMALL, mode="residual")
    env.reset(seed=3)
    env.step(np.zeros((6, 2)))
    hand = env._run.waits_s.copy()
    env.step(np.full((6, 2), -0.5))
    demands = env.simulation.instance.workload.jobs["gpus"]
    several = np.unique(demands[demands > 1])
    assert (env._run.waits_s[several] <= hand[several] / 4 + 1e-9).all()  # floors of 6 and 12 leases, quartered
    assert env._run.waits_s[several].min() >= 6 * 3_600 / 4


@pytest.mark.parametrize("mode", ["absolute", "residual"])
def test_checkers_pass(mode: str) -> None:
    env = gym.make("gpusched_env:gpusched/DelayTimers-v0", scenario="dally-poisson-v1:jobs=20", mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checker.check_env(env.unwrapped)
    assert [str(w.message) for w in caught if "unconventional shape" not in str(w.message)] == []


def rollout(env: gym.Env, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [env.reset(seed=seed), *(env.step(rng.uniform(-1, 1, (6, 2))) for _ in range(30))]


def test_same_seed_same_rollout_in_copies_too() -> None:
    env = DelayTimersEnv(SMALL)
    first = rollout(env, 5)
    np.testing.assert_equal(first, rollout(env, 5))
    np.testing.assert_equal(first, rollout(pickle.loads(pickle.dumps(DelayTimersEnv(SMALL))), 5))
    with pytest.raises(AssertionError):
        np.testing.assert_equal(first, rollout(env, 6))


def test_an_action_refused_in_one_environment_changes_no_other() -> None:
    envs, others = (gym.make_vec("gpusched_env:gpusched/DelayTimers-v0", num_envs=3, scenario=SMALL) for _ in range(2))
    envs.reset(seed=1)
    others.reset(seed=1)
    actions = np.random.default_rng(0).uniform(-1, 1, (3, 6, 2))
    broken = actions.copy()
    broken[1, 2, 0] = math.nan
    with pytest.raises(GpuschedError, match=r"environment 1: .*NaN.*none has been stepped"):
        envs.step(broken)
    with pytest.raises(GpuschedError, match="2 actions for 3 environments"):
        envs.step(actions[:2])
    with pytest.raises(GpuschedError, match="None actions for 3 environments"):
        envs.step(None)
    with pytest.raises(GpuschedError, match="environment 0: action has shape"):
        envs.step(actions[:, :3])
    np.testing.assert_equal(envs.step(actions), others.step(actions))


def test_a_reset_without_seed_draws_training_seeds() -> None:
    env = DelayTimersEnv(SMALL, train_seeds=(4, 7))
    assert {env.reset()[1]["seed"] for _ in range(30)} == {4, 5, 6}


def test_impossible_arguments_and_steps_are_refused() -> None:
    env = DelayTimersEnv(SMALL)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros((6, 2)))
    env.reset(seed=0)
    with pytest.raises(GpuschedError, match="NaN"):
        env.step(np.full((6, 2), math.nan))
    with pytest.raises(GpuschedError, match="shape"):
        env.step(np.zeros((2, 6)))
    for arguments in ({"mode": "relative"}, {"interval_s": 0.0}, {"scale": -1.0}, {"interval_s": math.inf}):
        with pytest.raises(ScenarioError, match=next(iter(arguments))):
            DelayTimersEnv(SMALL, **arguments)


def test_an_interval_runs_few_lines_of_python_for_its_events() -> None:
    action = np.zeros((6, 2))
    short, whole = DelayTimersEnv("dally-poisson-v1"), DelayTimersEnv("dally-poisson-v1", interval_s=1e9)
    for env in (short, whole):
        env.reset(seed=0)
        env.step(action)  # the first call imports
        env.reset(seed=0)
    assert max(lines_run(short.step, action) for _ in range(50)) < 1_000
    assert lines_run(whole.step, action) < len(whole.event_log().events) / 3  # including the summary at the end
