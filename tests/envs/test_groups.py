"""The observation array ``groups`` and gpusched/Pretraining-v0, against a count of each pair of peers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gpusched_env.envs.observation.groups import GROUPS_COLUMNS
from gpusched_env.network import Network
from gpusched_env.scenarios import get_scenario

NAME = "gpusched/Pretraining-v0"


def counted(plan: Any, node: np.ndarray, rack: np.ndarray) -> list[float]:
    """Shares of ranks whose next peer is on another machine, and in another rack; ``node`` [ranks] of the gang."""
    tp, cp, ep, dp, pp = (int(plan[name]) for name in ("tp", "cp", "ep", "dp", "pp"))
    size = tp * cp * dp
    if plan["order"]:  # tp-cp-pp-dp
        stages = node.reshape(dp, pp, tp * cp).transpose(1, 0, 2).reshape(pp, size)
    else:
        stages = node.reshape(pp, size)
    shares = []
    for peers in (
        np.roll(stages.reshape(pp, -1, tp), -1, axis=2).reshape(pp, size),
        np.roll(stages.reshape(pp, -1, ep), -1, axis=2).reshape(pp, size),
        np.roll(stages, -tp, axis=1),
        np.roll(stages, -1, axis=0),
    ):
        shares += [(peers != stages).mean(), (rack[peers] != rack[stages]).mean()]
    return shares


@pytest.mark.parametrize("order", [0, 1])
def test_groups_are_those_of_a_count(order: int) -> None:
    env: Any = gym.make(NAME, rules=("rails", "spread", "random"), delays_s=(), step_limit=5_000).unwrapped
    _, info = env.reset(seed=200_000)
    rng = np.random.default_rng(order)
    instance = env.simulation.instance
    plans = {(int(row["profile"]), int(row["gpus"])): row for row in instance.workload.profiles.plans}
    rack, seen = instance.cluster.nodes["rack"], set()
    for _ in range(400):
        feasible = np.flatnonzero(info["action_mask"])
        observation, _, over, _, info = env.step(int(rng.choice(feasible)))
        if over:
            break
        for slot, job in enumerate(env.encoder.running_slots.tolist()):
            told = observation["groups"][slot]
            if job < 0:
                assert not told.any()
                continue
            number = env.simulation.arrays.jobs[job]["replica"]
            node = instance.cluster.node_of_gpu[np.flatnonzero(env.simulation.arrays.holder == number)]
            row = instance.workload.jobs[job]
            plan = plans[int(row["profile"]), int(row["gpus"])]
            assert told == pytest.approx(counted(plan, node, rack), abs=1e-6)
            seen |= {column for column, share in enumerate(told.tolist()) if share}
    assert len(seen) >= 6  # of eight columns


def test_groups_appear_only_with_plans_and_links() -> None:
    assert "groups" in gym.make(NAME).observation_space.spaces
    assert "groups" not in gym.make("gpusched/Tenants-v0").observation_space.spaces
    assert "groups" not in gym.make("gpusched/Cluster-v0", scenario="leaf-spine-256-v1").observation_space.spaces
    tiers = get_scenario("llm-1024-h100-v0").replace(network=Network())
    assert "groups" not in gym.make(NAME, scenario=tiers).observation_space.spaces
    assert len(GROUPS_COLUMNS) == 8


def test_a_gang_on_whole_machines_keeps_its_tensor_groups_inside() -> None:
    """By rails, the GPUs of a tensor-parallel group are on one machine; spread over all machines, none are."""
    told = {}
    for rule in ("rails", "spread"):
        env: Any = gym.make(NAME, rules=(rule,), delays_s=(), running_window=32).unwrapped
        observation, info = env.reset(seed=200_000)
        while not observation["groups"].any():
            starts = np.flatnonzero(info["action_mask"][: env.windows.first_preemption])
            action = int(starts[0]) if len(starts) else env.windows.wait_action
            observation, _, _, _, info = env.step(action)
        while env.simulation.arrays.jobs["gpus"][env.encoder.running_slots].max() < 256:
            starts = np.flatnonzero(info["action_mask"][: env.windows.first_preemption])
            observation, _, _, _, info = env.step(int(starts[0]) if len(starts) else env.windows.wait_action)
        told[rule] = observation["groups"]
    assert not told["rails"][:, 0].any()
    assert told["spread"][:, 0].max() > 0.9


def test_evaluations_can_be_held() -> None:
    """All waiting jobs may stay in the queue: a bounded wait passes at most its seconds."""
    env: Any = gym.make(NAME).unwrapped
    env.reset(seed=200_000)
    before = env.simulation.arrays.world["clock_s"]
    env.step(env.windows.wait_action + 1)
    assert 0 < env.simulation.arrays.world["clock_s"] - before <= 600.0
