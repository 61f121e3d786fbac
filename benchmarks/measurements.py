"""The runs of rows.py: each function returns samples by name, and compiles before it measures.

CPU seconds throughout.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import growth
import gymnasium
import numpy as np
from environment import cartpole_rate, cluster_rate, episode_seconds
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from memory import array_bytes, growth_bytes, long_run
from vector import batch_rate, rollout_share

Samples = dict[str, list[float]]
CARTPOLE_STEPS: Final = 10_000  # of each sample


def single(steps: int, repeats: int) -> Samples:
    """One environment and CartPole-v1 in turns."""
    cluster_rate(200)
    found: Samples = {"cartpole": [], "rate": []}
    for _ in range(repeats):
        found["cartpole"].append(cartpole_rate(steps))
        found["rate"].append(cluster_rate(steps))
    return found | {"ratio": [ours / theirs for ours, theirs in zip(found["rate"], found["cartpole"], strict=True)]}


def batch(scenario: str, steps: int, repeats: int, environments: int = 256) -> Samples:
    """A batch on one thread and CartPole-v1 in turns."""
    batch_rate(scenario, 2, 2)
    found: Samples = {"cartpole": [], "rate": []}
    for _ in range(repeats):
        found["cartpole"].append(cartpole_rate(CARTPOLE_STEPS))
        found["rate"].append(batch_rate(scenario, environments, steps))
    return found | {"ratio": [ours / theirs for ours, theirs in zip(found["rate"], found["cartpole"], strict=True)]}


def rollout(steps: int, repeats: int) -> Samples:
    """The environment's part of MaskablePPO's rollouts [%]."""
    rollout_share(2)
    return {"percent": [100 * rollout_share(steps) for _ in range(repeats)]}


def replay(case: dict[str, Any], repeats: int) -> Samples:
    """Replays of a case of growth.py, and where it asks for that of a tenth of its jobs, in turns."""
    found = growth.measure(growth.Case(**case), repeats)
    pairs = zip(found["seconds"], found["tenth_s"], strict=False)
    return {
        "seconds": found["seconds"],
        "tenth_s": found["tenth_s"],
        "growth": [whole / tenth for whole, tenth in pairs],
        "events": [found["events"]],
        "peak_GB": [found["peak_bytes"] / 1e9],
    }


def agent(jobs: int, repeats: int) -> Samples:
    """Episodes of the agent of environment.py."""
    episode_seconds(50)
    episodes = [episode_seconds(jobs) for _ in range(repeats)]
    return {
        "seconds": [episode["reset"] + episode["steps"] for episode in episodes],
        "reset_s": [episode["reset"] for episode in episodes],
        "summary_s": [episode["summary"] for episode in episodes],
        "steps": [episode["number"] for episode in episodes],
    }


def wrappers(steps: int, repeats: int) -> Samples:
    """Microseconds of a step, and how many each wrapper of ``gymnasium.make`` adds, all in turns."""
    stacks: dict[str, Callable[[Any], Any]] = {
        "none": lambda env: env,
        "checker": PassiveEnvChecker,
        "order": OrderEnforcing,
        "both": lambda env: OrderEnforcing(PassiveEnvChecker(env)),
    }
    bare = gymnasium.make("gpusched/Cluster-v0", scenario="philly-256-v0", queue_window=32).unwrapped
    draws = np.random.default_rng(0).random(steps).tolist()

    def microseconds(env: Any) -> float:
        _, info = env.reset(seed=0)
        begin = time.process_time()
        for draw in draws:
            feasible = info["action_mask"].nonzero()[0]
            _, _, terminated, truncated, info = env.step(int(feasible[int(draw * len(feasible))]))
            if terminated or truncated:
                _, info = env.reset()
        return 1e6 * (time.process_time() - begin) / steps

    microseconds(bare)
    taken: Samples = {name: [] for name in stacks}
    for _ in range(repeats):
        for name, stack in stacks.items():
            taken[name].append(microseconds(stack(bare)))
    added = {
        f"{name}_us": [us - base for us, base in zip(taken[name], taken["none"], strict=True)]
        for name in ("checker", "order", "both")
    }
    return {"none_us": taken["none"]} | added


def memory(scenario: str = "philly-256-v0", environments: int = 256) -> Samples:
    """Kilobytes of an environment of a batch: its arrays, and what the process grows by."""
    return {
        "arrays_kB": [array_bytes(scenario, environments) / environments / 1e3],
        "resident_kB": [growth_bytes(scenario, environments) / environments / 1e3],
    }


def flat(decisions: int) -> Samples:
    """Megabytes by which a batch of 256 on 256 GPUs grows after a tenth of the decisions, and its size at the end."""
    sizes = [resident for _, resident, _ in long_run("philly-256-v0", 256, decisions)]
    return {"grown_MB": [(sizes[-1] - sizes[0]) / 1e6], "resident_MB": [sizes[-1] / 1e6]}
