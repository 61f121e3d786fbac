"""Every registered scenario gives the same event logs alone, in a batch, on any number of threads, compiled or not."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import plain_python_digests

from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.scenarios import list_scenarios

SEEDS = (200_000, 200_001, 200_002, 200_003)
STEPS = 50  # of each environment
PLAIN_STEPS = 20  # of each environment that plain Python plays
# Scenarios with an environment id use its rules and windows; all others use small windows.
OWN_ID = {arguments["scenario"]: name for name, arguments in ENVIRONMENTS.items() if "scenario" in arguments}
SMALL: dict[str, Any] = dict(id="gpusched/Cluster-v0", queue_window=6, running_window=3)


def options(scenario: str) -> dict[str, Any]:
    return {"id": OWN_ID[scenario]} if scenario in OWN_ID else SMALL | {"scenario": scenario}


def draws(seed: int, steps: int = STEPS) -> list[float]:
    return np.random.default_rng(seed).random(steps).tolist()


def chosen(mask: np.ndarray, draw: float) -> int:
    """A feasible action; 0 if there is none."""
    feasible = np.flatnonzero(mask)
    return int(feasible[int(draw * len(feasible))]) if len(feasible) else 0


@cache
def alone(scenario: str, seed: int, steps: int = STEPS) -> str:
    """Digest after some steps of a single environment."""
    env = gym.make(**options(scenario))
    _, info = env.reset(seed=seed)
    for draw in draws(seed, steps):
        _, _, terminated, truncated, info = env.step(chosen(info["action_mask"], draw))
        if terminated or truncated:
            break
    return str(env.unwrapped.event_log().digest())  # type: ignore[attr-defined]


def batched(scenario: str, threads: int, count: int = len(SEEDS)) -> list[str]:
    """Digests after STEPS steps of a batch, or at the end of episodes that end earlier."""
    envs: Any = gym.make_vec(
        num_envs=count, threads=threads, keep_logs=True, autoreset_mode="SameStep", **options(scenario)
    )  # fmt: skip
    _, infos = envs.reset(seed=list(SEEDS[:count]))
    ended: dict[int, str] = {}
    for many in zip(*map(draws, SEEDS[:count]), strict=True):
        actions = [chosen(mask, draw) for mask, draw in zip(infos["action_mask"], many, strict=True)]
        _, _, terminated, truncated, infos = envs.step(np.array(actions))
        for b in np.flatnonzero(terminated | truncated).tolist():
            ended.setdefault(b, infos["final_info"]["digest"][b])
    found = [ended.get(b) or envs.event_log(b).digest() for b in range(count)]
    envs.close()
    return found


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("scenario", list_scenarios())
def test_a_batch_on_any_number_of_threads_plays_like_single_environments(scenario: str, threads: int) -> None:
    expected = [alone(scenario, seed) for seed in SEEDS]
    assert len(set(expected)) == len(SEEDS)
    assert batched(scenario, threads) == expected


def digests() -> list[str]:
    """Digest of each scenario alone; printed by the subprocess. The battery's twins play batches in plain Python."""
    return [alone(scenario, SEEDS[0], PLAIN_STEPS) for scenario in list_scenarios()]


def test_plain_python_plays_alike() -> None:
    assert plain_python_digests("tests.envs.test_all_scenarios") == digests()
