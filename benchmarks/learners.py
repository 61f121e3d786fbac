"""Decisions per second of our PPO and of MaskablePPO in the same settings: play and updates.

    python benchmarks/learners.py [--steps 80000] [--repeats 3] [--output FILE.json]

Both train on philly-64-v1 with the default windows, 32 episodes at once, three passes over minibatches of 1,024 steps.
Wall-clock seconds; torch uses one thread.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from machine import save_figures

from gpusched_env.agents.training import TrainingConfig, train


@dataclass
class Settings:
    """Measure both learners."""

    steps: int = 80_000
    """Steps of one training."""
    repeats: int = 3
    """Repeats; the median is reported."""
    output: Path | None = None
    """JSON file for the results."""


def rate(learner: Literal["ppo", "stable-baselines3"], steps: int) -> float:
    """Measure steps per second, from the first update to the end; one validation of one seed is a part of it."""
    begins: list[float] = []
    done = 0

    def watch(steps_done: int, total: int, said: str) -> None:
        nonlocal done
        begins.append(time.perf_counter())
        done = max(done, steps_done)

    config = TrainingConfig(learner=learner, steps=steps, validations=1, validation_seeds=1)
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder), watch)
    return done / (time.perf_counter() - begins[0])


def main(settings: Settings) -> None:
    """Measure, print and save."""
    rate("ppo", 1_000)  # compile
    pairs = [(rate("ppo", settings.steps), rate("stable-baselines3", settings.steps)) for _ in range(settings.repeats)]
    figures = {
        "ppo": statistics.median(ours for ours, _ in pairs),
        "stable-baselines3": statistics.median(other for _, other in pairs),
        "ratio": statistics.median(ours / other for ours, other in pairs),
    }
    print(f"our PPO: {figures['ppo']:,.0f} decisions per second")
    print(f"MaskablePPO: {figures['stable-baselines3']:,.0f} decisions per second")
    print(f"ratio: {figures['ratio']:.2f}")
    save_figures(figures, settings.output)


if __name__ == "__main__":
    main(tyro.cli(Settings))
