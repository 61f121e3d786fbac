"""Steps per second of one environment beside CartPole-v1 in the same run, and the time of an agent's episode.

    python benchmarks/environment.py [--steps 20000] [--repeats 5] [--output FILE.json]

Both environments run through ``gymnasium.make`` with its default wrappers. This package's environment, ClusterEnv,
plays random feasible actions on 256 GPUs with a queue window of 32. The actions are drawn in an earlier pass over the
same episodes that is not timed, because choosing actions is the agent's work, not the environment's. The speed that
includes choosing is reported as well. The agent's episode has 1,000 jobs on the same cluster; the agent starts the
first job that fits, and waits if none fits. All times are CPU seconds, after compilation; medians over repeats.
"""

from __future__ import annotations

import dataclasses
import pickle
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from machine import save_figures
from rich.console import Console
from rich.table import Table

from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script


@dataclass
class Settings:
    """Measure the single environment."""

    steps: int = 20_000
    """Steps of one repeat."""
    repeats: int = 5
    """Repeats; the median is reported."""
    output: Path | None = None
    """JSON file for the results."""


def cartpole_rate(steps: int) -> float:
    """Measure CartPole-v1 with random actions [steps per CPU second]."""
    actions = np.random.default_rng(0).integers(2, size=steps).tolist()
    return rate_of(gymnasium.make("CartPole-v1"), actions)


def cluster_rates(steps: int) -> tuple[float, float]:
    """Measure ClusterEnv with random feasible actions, without and with choosing them [steps per CPU second]."""
    env = gymnasium.make("gpusched/Cluster-v0", scenario="philly-256-v1", queue_window=32)
    actions, chosen = random_play(env, steps)
    return rate_of(env, actions), chosen


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Divide rates pair by pair; the rates of a pair were measured in turn, under the same load of the machine."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def random_play(env: gymnasium.Env[Any, Any], steps: int) -> tuple[list[int], float]:
    """Play random feasible actions from seed 0; return the actions, and steps per CPU second with resets included."""
    _, info = env.reset(seed=0)
    draws = np.random.default_rng(0).random(steps).tolist()
    actions = []
    begin = time.process_time()
    for draw in draws:
        feasible = info["action_mask"].nonzero()[0]
        action = int(feasible[int(draw * len(feasible))])
        actions.append(action)
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
    return actions, steps / (time.process_time() - begin)


def rate_of(env: gymnasium.Env[Any, Any], actions: Sequence[int]) -> float:
    """Play these actions from seed 0 [steps per CPU second], resets included."""
    env.reset(seed=0)
    begin = time.process_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return len(actions) / (time.process_time() - begin)


def episode_seconds(jobs: int = 1000) -> dict[str, float]:
    """Measure an episode of the agent that starts the first job that fits, and waits if none fits [CPU s].

    Returns
    -------
    reset : time to draw the workload
    steps : time of all calls of ``step``; the last call includes the summary of the episode
    summary : time of the summary, measured separately
    number : number of steps
    """
    scenario = get_scenario("philly-256-v1")
    workload = dataclasses.replace(scenario.workload, jobs=jobs)
    env = gymnasium.make(
        "gpusched/Cluster-v0", scenario=dataclasses.replace(scenario, workload=workload), running_window=0
    )
    begin = time.process_time()
    _, info = env.reset(seed=0)
    reset = time.process_time() - begin
    number, over = 0, False
    begin = time.process_time()
    while not over:
        _, _, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
        over = terminated or truncated
        number += 1
    steps = time.process_time() - begin
    base: Any = env.unwrapped
    begin = time.process_time()
    base.summary(base.simulation)
    return {"reset": reset, "steps": steps, "summary": time.process_time() - begin, "number": number}


def snapshot_seconds(jobs: int = 1000, repeats: int = 1000) -> tuple[float, int]:
    """Measure ``snapshot`` and ``restore`` on 256 GPUs with contention on links, half-way through an episode.

    Returns
    -------
    seconds : CPU seconds of both calls together
    size : of the pickled snapshot [byte]
    """
    scenario = get_scenario("leaf-spine-256-v1")
    workload = dataclasses.replace(scenario.workload, jobs=jobs)
    env: Any = gymnasium.make(
        "gpusched/Cluster-v0", scenario=dataclasses.replace(scenario, workload=workload)
    ).unwrapped
    _, info = env.reset(seed=0)
    for _ in range(jobs // 2):
        *_, info = env.step(int(info["action_mask"].argmax()))
    begin = time.process_time()
    for _ in range(repeats):
        snapshot = env.snapshot()
        env.restore(snapshot)
    return (time.process_time() - begin) / repeats, len(pickle.dumps(snapshot))


def interval_rate() -> float:
    """Measure an episode of DelayTimers-v0 with all timers in the middle of their range [intervals per CPU second]."""
    env = gymnasium.make("gpusched/DelayTimers-v0", scenario="dally-poisson-v1")
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape or ())
    intervals, over = 0, False
    begin = time.process_time()
    while not over:
        _, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
        intervals += 1
    return intervals / (time.process_time() - begin)


def measure(steps: int = 20_000, repeats: int = 5) -> dict[str, float]:
    """Measure everything; return medians."""
    cluster_rates(100)  # compile
    cartpole, cluster, chosen, episodes, snapshots = [], [], [], [], []
    for _ in range(repeats):
        cartpole.append(cartpole_rate(steps))
        alone, together = cluster_rates(steps)
        cluster.append(alone)
        chosen.append(together)
        episodes.append(episode_seconds())
        snapshots.append(snapshot_seconds())
    episode = {name: statistics.median(one[name] for one in episodes) for name in episodes[0]}
    return {
        "cartpole_steps_per_cpu_s": statistics.median(cartpole),
        "cluster_steps_per_cpu_s": statistics.median(cluster),
        "ratio": statistics.median(ratios(cluster, cartpole)),
        "chosen_steps_per_cpu_s": statistics.median(chosen),
        "chosen_ratio": statistics.median(ratios(chosen, cartpole)),
        "episode_ms": 1e3 * statistics.median(one["reset"] + one["steps"] for one in episodes),
        "episode_reset_ms": 1e3 * episode["reset"],
        "episode_summary_ms": 1e3 * episode["summary"],
        "episode_steps": episode["number"],
        "snapshot_us": 1e6 * statistics.median(seconds for seconds, _ in snapshots),
        "snapshot_bytes": snapshots[0][1],
    }


def main(settings: Settings) -> None:
    """Measure, print and save."""
    measured = measure(settings.steps, settings.repeats)
    table = Table(title="one environment through gymnasium.make", title_justify="left")
    for heading in ("environment", "steps per CPU second", "ratio to CartPole-v1"):
        table.add_column(heading, justify="left" if heading == "environment" else "right")
    table.add_row("CartPole-v1", f"{measured['cartpole_steps_per_cpu_s']:,.0f}", "1")
    table.add_row(
        "gpusched/Cluster-v0, 256 GPUs, window 32",
        f"{measured['cluster_steps_per_cpu_s']:,.0f}",
        f"{measured['ratio']:.2f}",
    )
    table.add_row(
        "the same, with choosing the actions",
        f"{measured['chosen_steps_per_cpu_s']:,.0f}",
        f"{measured['chosen_ratio']:.2f}",
    )
    console = Console(width=100)
    console.print(table)
    console.print(
        f"an episode of 1,000 jobs, {measured['episode_steps']:.0f} steps: {measured['episode_ms']:.1f} ms, of which "
        f"reset {measured['episode_reset_ms']:.1f} ms and metrics and digest {measured['episode_summary_ms']:.1f} ms"
    )
    console.print(
        f"snapshot and restore, 256 GPUs with links, 1,000 jobs: {measured['snapshot_us']:.0f} us; "
        f"a snapshot has {measured['snapshot_bytes']:,.0f} bytes"
    )
    save_figures(measured, settings.output)


if __name__ == "__main__":
    run_script(main)
