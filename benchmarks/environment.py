"""Steps per second of one environment, beside CartPole-v1 in the same run.

    python benchmarks/environment.py [--steps 20000] [--repeats 5] [--output FILE.json]

Both run through ``gymnasium.make`` with its default wrappers; ours plays random feasible actions on 256 GPUs with a
queue window of 32. CPU seconds, medians over repeats, after compilation.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

import gpusched_env


@dataclass
class Settings:
    """Measure the single environment."""

    steps: int = 20_000
    """Steps of one repeat."""
    repeats: int = 5
    """Repeats; the median counts."""
    output: Path | None = None
    """JSON file of the figures."""


def cartpole_rate(steps: int) -> float:
    """Measure CartPole-v1 with random actions [steps per CPU second]."""
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    draws = np.random.default_rng(0).random(steps).tolist()
    begin = time.process_time()
    for draw in draws:
        _, _, terminated, truncated, _ = env.step(int(draw * 2))
        if terminated or truncated:
            env.reset()
    return steps / (time.process_time() - begin)


def cluster_rate(steps: int) -> float:
    """Measure ClusterEnv with random feasible actions [steps per CPU second], resets included."""
    env = gymnasium.make("gpusched/Cluster-v0", scenario="philly-256-v0", queue_window=32)
    _, info = env.reset(seed=0)
    draws = np.random.default_rng(0).random(steps).tolist()
    begin = time.process_time()
    for draw in draws:
        feasible = info["action_mask"].nonzero()[0]
        _, _, terminated, truncated, info = env.step(int(feasible[int(draw * len(feasible))]))
        if terminated or truncated:
            _, info = env.reset()
    return steps / (time.process_time() - begin)


def main(settings: Settings) -> None:
    """Measure, print and save."""
    cluster_rate(100)  # compile
    cartpole, cluster = [], []
    for _ in range(settings.repeats):
        cartpole.append(cartpole_rate(settings.steps))
        cluster.append(cluster_rate(settings.steps))
    figures = {
        "cartpole_steps_per_cpu_s": statistics.median(cartpole),
        "cluster_steps_per_cpu_s": statistics.median(cluster),
        "ratio": statistics.median(cluster) / statistics.median(cartpole),
        "gpusched_env": gpusched_env.__version__,
        "gymnasium": gymnasium.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    table = Table(title="one environment through gymnasium.make", title_justify="left")
    for heading in ("environment", "steps per CPU second", "ratio to CartPole-v1"):
        table.add_column(heading, justify="left" if heading == "environment" else "right")
    table.add_row("CartPole-v1", f"{figures['cartpole_steps_per_cpu_s']:,.0f}", "1")
    table.add_row(
        "gpusched/Cluster-v0, 256 GPUs, window 32",
        f"{figures['cluster_steps_per_cpu_s']:,.0f}",
        f"{figures['ratio']:.2f}",
    )
    Console(width=100).print(table)
    if settings.output is not None:
        settings.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Settings))
