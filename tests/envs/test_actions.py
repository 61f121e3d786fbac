"""What actions mean: numbers and meanings are inverse to each other, and meanings are what happens."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gpusched_env import Preempt, Start, Wait
from gpusched_env.core.api import Run, kernel, preempt
from gpusched_env.envs.actions import SLOT_ACTIONS, Action, number_of, slot_action
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.errors import GpuschedError, ScenarioError

MORE: dict[str, dict[str, Any]] = {
    "delays": dict(delays_s=(60.0, 900.0), rules=("pack", "spread"), queue_window=3),
    "sub-batches": dict(scenario="bsbf-sim-240-v1", partner_window=3, sub_batches=2, queue_window=5),
    "partners": dict(scenario="bsbf-sim-240-v1", partner_window=2, running_window=3, queue_window=2),
    "refusals": dict(scenario="slo-v0", sizes=(1, 4), delays_s=(9.0,), more_actions=("refuse",), queue_window=7),
    "no running slots": dict(scenario="slo-v0", running_window=0, more_actions=("refuse",)),
}


@pytest.mark.parametrize("name", [*ENVIRONMENTS, *MORE])
def test_numbers_and_meanings_are_inverse_to_each_other(name: str) -> None:
    env: Any = ClusterEnv(**MORE[name]) if name in MORE else gym.make(name).unwrapped
    meanings = [env.action_meaning(action) for action in range(env.action_space.n)]
    assert len(set(meanings)) == env.action_space.n
    assert [env.action_of(meaning) for meaning in meanings] == list(range(env.action_space.n))
    env.reset(seed=1)
    shown = [env.action_meaning(action) for action in range(env.action_space.n)]
    assert shown == meanings, "the job of a slot is no part of the meaning"
    assert {one.job for one in shown if one.kind == "start"} - {None} == set(env.encoder.queue_slots.tolist()) - {-1}
    if name in ENVIRONMENTS:
        envs: Any = gym.make_vec(name, num_envs=1)
        assert [envs.action_of(envs.action_meaning(action)) for action in range(len(meanings))] == list(
            range(len(meanings))
        )
        envs.close()


def test_the_layout_is_that_of_the_documentation() -> None:
    env = ClusterEnv(queue_window=3, running_window=2, rules=("pack", "spread"), delays_s=(60.0,))
    assert env.action_meaning(5) == Action("start", slot=2, rule="spread")
    assert env.action_meaning(7) == Action("preempt", slot=1)
    assert env.action_meaning(8) == Action("wait")
    assert env.action_meaning(9) == Action("wait", delay_s=60.0)
    sized = ClusterEnv("slo-v0", queue_window=3, running_window=2, sizes=(1, 4), more_actions=("refuse",))
    assert sized.action_meaning(9) == Action("resize", slot=1, rule="pack", size=4)
    assert sized.action_meaning(12) == Action("wait")
    assert sized.action_meaning(15) == Action("refuse", slot=2)


def test_decisions_are_the_meanings_of_actions() -> None:
    env = ClusterEnv("tiny-v1", queue_window=12, delays_s=(5.0,), migration=True, least_run_s=0.0)
    rng, over = np.random.default_rng(0), False
    env.reset(seed=2)
    kinds = set()
    while not over:
        action = int(rng.choice(np.flatnonzero(env.mask)))
        meaning = env.action_meaning(action)
        kinds.add(meaning.kind)
        if meaning.kind == "wait":
            bounded = None if meaning.delay_s is None else Wait(env.simulation.now_s + meaning.delay_s)
            assert env.encoder.decision_of(action) == bounded
        else:
            assert meaning.job is not None
            made = Start(meaning.job, "pack") if meaning.kind == "start" else Preempt(meaning.job)
            assert env.encoder.decision_of(action) == made
            assert env.action_of(made) == action
        _, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    assert kinds == {"start", "preempt", "wait"}


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Action("strt", 0, "pack"), "unknown kind 'strt': did you mean 'start'"),
        (Action("start", 32, "pack"), "slot is 32, but the environment has 0, 1"),
        (Action("start", 0, "spread"), "rule is 'spread', but the environment has pack"),
        (Action("start", 0, "pack", size=2), "size is 2, but the environment has None"),
        (Action("start", 0, partner=0), "partner is 0, but the environment has none"),
        (Action("resize", 0, "pack", size=2), "slot is 0, but the environment has none"),
        (Action("wait", delay_s=5.0), "delay_s is 5.0"),
        (Action("refuse", 0), "unknown kind 'refuse'"),
        (Action("wait", slot=3), "this kind of action has no slot; leave it out"),
        (Action("preempt", 0, "pack", size=4), "this kind of action has no rule, size"),
        (Action("start", 0, "pack", delay_s=9.0), "this kind of action has no delay_s"),
    ],
)
def test_an_action_that_the_environment_lacks_is_refused(action: Action, message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        ClusterEnv().action_of(action)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("start", "'start' has no action: give an Action, or a Start"),
        (Wait(5.0), "has no action: give an Action, or a Start"),
        (Start("a"), "a job is named by its row, a whole number"),  # type: ignore[arg-type]
        (Preempt(0.5), "a job is named by its row, a whole number"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_action_is_refused(wanted: Any, message: str) -> None:
    env = ClusterEnv("tiny-v1")
    env.reset(seed=0)
    with pytest.raises(GpuschedError, match=message):
        env.action_of(wanted)
    envs: Any = gym.make_vec("gpusched/Cluster-v0", 1, scenario="tiny-v1")
    with pytest.raises(GpuschedError, match="is no Action"):
        envs.action_of(wanted)


def test_wrong_names_of_more_actions_are_refused() -> None:
    with pytest.raises(ScenarioError, match="more_actions: unknown action 'refse': did you mean 'refuse'"):
        ClusterEnv(more_actions=("refse",))
    with pytest.raises(ScenarioError, match="contains a name twice"):
        ClusterEnv(more_actions=("refuse", "refuse"))
    with pytest.raises(ScenarioError, match=r"more_actions is 'refuse': give a sequence of names"):
        ClusterEnv(more_actions="refuse")
    with pytest.raises(GpuschedError, match="action 'start' exists already"):
        slot_action("start", "queue", Preempt, preempt)(lambda sim, env, row: True)
    with pytest.raises(GpuschedError, match="unknown slots 'node'"):
        slot_action("odd", "node", Preempt, preempt)(lambda sim, env, row: True)


def test_a_registered_action_about_running_gangs() -> None:
    """It preempts gangs of one GPU only, and is played like the preemption that it stands for."""
    if "stop-small" not in SLOT_ACTIONS:

        @slot_action("stop-small", "running", Preempt, preempt)
        @kernel
        def may_stop(sim: Run, env: EnvArrays, row: int) -> bool:
            return sim.jobs[row]["gpus"] == 1 and env.first_gangs[0] >= 0

    env = ClusterEnv(more_actions=("refuse", "stop-small"), running_window=4, least_run_s=0.0)
    assert number_of(env.windows, Action("stop-small", 3)) == env.action_space.n - 1
    rng, stopped = np.random.default_rng(0), 0
    env.reset(seed=3)
    for _ in range(400):
        gangs = env.simulation.arrays.jobs["gpus"]
        first = env.action_of(Action("stop-small", 0))
        for slot, job in enumerate(env.encoder.running_slots.tolist()):
            assert env.mask[first + slot] == (job >= 0 and gangs[job] == 1)
        # an own kernel may allow what the core refuses, such as the preemption of a gang that starts at this instant
        action = int(rng.choice(np.flatnonzero(env.mask[: env.windows.first_slot_action])))
        if env.mask[first] and env.mask[env.windows.first_preemption]:
            job, action, stopped = int(env.encoder.running_slots[0]), first, stopped + 1
            before = env.simulation.arrays.jobs["preemptions"][job]
            env.step(action)
            assert env.simulation.arrays.jobs["preemptions"][job] == before + 1
        else:
            env.step(action)
    assert stopped > 5
