"""Observations updated in place equal observations computed from scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.encoder import Encoder
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.envs.slots import KEPT
from gpusched_env.envs.windows import WINDOW_ORDERS
from gpusched_env.scenarios import get_scenario

KINDS = ("start", "preempt", "wait")


def draw(mask: np.ndarray, env: ClusterEnv, rng: np.random.Generator, kind: int) -> int:
    """Draw a feasible action; with probability 4/5 one of the given kind if there is one."""
    feasible = np.flatnonzero(mask)
    preferred = feasible[kind_of(feasible, env) == kind]
    return int(rng.choice(preferred if len(preferred) and rng.random() < 0.8 else feasible))


def kind_of(actions: np.ndarray, env: ClusterEnv) -> np.ndarray:
    return (actions >= env.windows.first_preemption) + np.int64(actions >= env.windows.wait_action)


def check(env: ClusterEnv, steps: int, seed: int) -> dict[str, int]:
    """Play ``steps`` random feasible actions and compare observations; returns the number of actions of each kind."""
    rng = np.random.default_rng(seed)
    done = dict.fromkeys(KINDS, 0)
    observation, info = env.reset(seed=seed)
    for _ in range(steps):
        slots = env.encoder.queue_slots.copy(), env.encoder.running_slots.copy(), env.encoder.partner_slots.copy()
        # this environment has no earlier observation
        other = Encoder(env.windows, env.simulation, env.skips_forced_waits)
        anew, mask = other.take()
        np.testing.assert_equal(observation, anew)
        np.testing.assert_equal(info["action_mask"], mask)
        np.testing.assert_equal(slots, (other.queue_slots, other.running_slots, other.partner_slots))
        # Several steps between observations: updates of all of them must be written.
        kind = int(rng.integers(len(KINDS)))
        for _ in range(int(rng.integers(1, 2 * KEPT * 8))):
            action = draw(info["action_mask"], env, rng, kind)
            done[KINDS[int(kind_of(np.int64(action), env))]] += 1
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                observation, info = env.reset()
    return done


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_updates_equal_full_observations_in_registered_environments(name: str) -> None:
    env = gym.make(name).unwrapped
    assert isinstance(env, ClusterEnv)
    done = check(env, 30, 5)
    assert done["start"] > 50
    assert done["wait"] > 2


WIDE: dict[str, Any] = dict(queue_window=12, running_window=6, running_order="start", delays_s=(30.0, 1_000.0))
CASES: list[dict[str, Any]] = [
    *(
        dict(scenario=scenario, running_order=order, queue_window=12, running_window=4, migration=True)
        for scenario in ("philly-64-v1", "leaf-spine-256-v1")
        for order in WINDOW_ORDERS
    ),
    *(
        options | dict(checkpoint_s=checkpoint_s)
        for checkpoint_s in (0.0, 30.0)
        for options in (
            dict(queue_window=12, running_window=1, rules=("consolidate", "pack"), delays_s=(30.0,)),
            # gangs become preemptible as time passes
            *(WIDE | dict(lease_s=2_000.0, least_run_s=seconds) for seconds in (0.0, 45.0, 3_000.0)),
        )
    ),
]


@pytest.mark.parametrize("options", CASES, ids=lambda options: "-".join(map(str, options.values())))
def test_updates_equal_full_observations(options: dict[str, Any]) -> None:
    options = dict(options)
    scenario = get_scenario(options.pop("scenario", "philly-64-v1"))
    checkpoint_s = options.pop("checkpoint_s", scenario.semantics.checkpoint_s)
    scenario = replace(scenario, semantics=replace(scenario.semantics, checkpoint_s=checkpoint_s))
    assert min(check(ClusterEnv(scenario, **options), 70, 3).values()) > 50


def test_updates_equal_full_observations_when_all_gangs_restart() -> None:
    rules = replace(get_scenario("philly-64-v1").semantics, checkpoint_s=0.0, restart_all_s=45.0)
    scenario = replace(get_scenario("philly-64-v1"), semantics=rules)
    assert min(check(ClusterEnv(scenario, **WIDE | {"migration": True}), 40, 3).values()) > 20
