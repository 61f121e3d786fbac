"""Deadlines in environments: columns, reward and refusals, and the same runs as schedulers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scheduler_player import play_scheduler, wide_open

from gpusched_env import Refuse, Scenario, get_scenario, make_scheduler, simulate
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.deadlines import DEADLINES
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import REFUSE
from gpusched_env.metrics import validate
from gpusched_env.simulator import ClairvoyantView

SHOWN: dict[str, Any] = dict(
    extras=("queue_deadlines", "running_deadlines"), more_actions=("refuse",), reward="deadlines"
)


def slo(jobs: int = 40) -> Scenario:
    scenario = get_scenario("slo-v0")
    return scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=jobs))


def scaled(seconds: np.ndarray) -> np.ndarray:
    return np.minimum(np.log1p(np.maximum(seconds, 0.0) / 60.0) / np.log1p(30 * 86_400 / 60.0), 1.0)


def draw(env: ClusterEnv, rng: np.random.Generator) -> int:
    """Draw a feasible action, refusals rarely."""
    feasible = np.flatnonzero(env.mask)
    others = feasible[feasible < env.windows.first_slot_action]
    return int(rng.choice(feasible if rng.random() < 0.1 or not len(others) else others))


@pytest.mark.parametrize("clairvoyant", [True, False])
def test_columns_and_return_follow_from_the_deadlines(clairvoyant: bool) -> None:
    env = ClusterEnv(slo(), queue_window=6, running_window=5, least_run_s=0.0, clairvoyant=clairvoyant, **SHOWN)
    rng, over, earned = np.random.default_rng(0), False, 0.0
    observation, _ = env.reset(seed=1)
    seen = []
    while not over:
        assert observation in env.observation_space
        simulation, now_s = env.simulation, env.simulation.now_s
        view, deadline_s = ClairvoyantView(simulation), simulation.instance.workload.deadline_s
        for slots, name in ((env.encoder.queue_slots, "queue"), (env.encoder.running_slots, "running")):
            shown = observation[f"{name}_deadlines"]
            jobs = slots[slots >= 0]
            assert not shown[len(jobs) :].any()
            left_s = deadline_s[jobs] + 1e-3 - now_s
            spare_s = (
                left_s
                - view.iterations_left(jobs)
                * simulation.instance.ideal_s[jobs]
                / (simulation.instance.iterations[jobs])
            )
            has, sure = np.isfinite(left_s), np.isfinite(left_s) & clairvoyant
            rigid = view.gpus[jobs] == simulation.instance.workload.jobs["gpus"][jobs]
            assert (shown[: len(jobs), DEADLINES.has] == has).all()
            assert (shown[: len(jobs), DEADLINES.late] == (has & (left_s < 0))).all()
            assert shown[: len(jobs), DEADLINES.left] == pytest.approx(np.where(has, scaled(left_s), 0.0), abs=2e-5)
            want = np.where(sure, scaled(spare_s), 0.0)
            assert shown[: len(jobs), DEADLINES.slack][rigid] == pytest.approx(want[rigid], abs=2e-5)
            assert (shown[: len(jobs), DEADLINES.reachable] == (sure & (spare_s >= 0)))[rigid].all()
            seen.append(shown[: len(jobs)])
        observation, reward, terminated, truncated, info = env.step(draw(env, rng))
        earned, over = earned + reward, terminated or truncated
    still = ~np.ptp(np.concatenate(seen), axis=0).astype(bool)
    assert still.tolist() == [False, False, False, not clairvoyant, not clairvoyant]
    assert earned == pytest.approx(info["metrics"]["deadlines_met"] - 1.0, abs=1e-9)
    assert (env.event_log().events["kind"] == REFUSE).sum() > 3
    validate(env.simulation.instance, env.event_log())


@pytest.mark.parametrize("spec", ["elasticflow", "edf-admission"])
def test_a_scheduler_that_refuses_plays_the_same_through_the_environment(spec: str) -> None:
    scenario = slo(60)
    direct = simulate(scenario.instance(7), make_scheduler(spec), seed=7)
    env = wide_open(scenario, 7, more_actions=("refuse",))
    assert play_scheduler(env, make_scheduler(spec), 7).digest() == direct.digest()
    assert (direct.events["kind"] == REFUSE).sum() > 3
    with pytest.raises(GpuschedError, match=r"has no action: make the environment with more_actions=\('refuse',\)"):
        play_scheduler(wide_open(scenario, 7), make_scheduler(spec), 7)


def test_the_shipped_agent_plays_the_same_through_the_environment_and_reads_deadlines() -> None:
    pytest.importorskip("torch")
    scenario, agent = slo(60), make_scheduler("learned:deadlines")
    direct = simulate(scenario.instance(7), agent, seed=7)
    assert isinstance(agent, LearnedScheduler)
    env, digests = ClusterEnv(scenario, **dataclasses.asdict(agent.windows)), []
    for blind in (False, True):
        observation, info = env.reset(seed=7)
        over, generator = False, np.random.default_rng(agent.seed)
        while not over:
            shown = {name: array * (not blind or "deadlines" not in name) for name, array in observation.items()}
            batch = {name: array[None].astype(np.float32) for name, array in shown.items()}
            [action] = agent.choose(batch, info["action_mask"][None].astype(bool), [generator])
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        digests.append(env.event_log().digest())
    assert digests[0] == direct.digest() != digests[1]


def test_an_episode_ends_when_every_job_has_been_refused() -> None:
    env = ClusterEnv(slo(12), skip_forced_waits=False, **SHOWN)
    env.reset(seed=3)
    earned, over = 0.0, False
    while not over:
        waiting = int(env.encoder.queue_slots[0])
        action = env.windows.wait_action if waiting < 0 else env.action_of(Refuse(waiting))
        assert action is not None
        assert env.mask[action]
        _, reward, over, truncated, info = env.step(action)
        earned += reward
        assert not truncated
    assert earned == pytest.approx(-1.0)
    assert info["metrics"]["deadlines_met"] == 0.0


def test_only_jobs_that_have_never_run_may_be_refused() -> None:
    env = ClusterEnv(slo(), migration=True, least_run_s=0.0, **SHOWN)
    env.reset(seed=1)
    job = int(env.encoder.queue_slots[0])
    refuse = env.action_of(Refuse(job))
    env.step(0)
    assert env.action_of(Refuse(job)) is None  # it runs
    while not env.mask[env.windows.first_preemption]:
        env.step(env.windows.wait_action)
    running = int(env.encoder.running_slots[0])
    env.step(env.windows.first_preemption)
    slot = env.encoder.queue_slots.tolist().index(running)
    assert refuse is not None
    assert not env.mask[env.windows.first_slot_action + slot]
    assert env.action_of(Refuse(running)) is None
