"""Decisions per second of a learned agent in evaluation, in one process, on clusters of 64 and of 2,048 GPUs.

    python benchmarks/decisions.py [--runs 20] [--clock cpu] [--output FILE.json]

The token network has its initial weights: what it decides does not change what a decision costs. Each measurement plays
the first 20,000 decisions of all runs, side by side as in evaluate_policy: simulation, observation, network and draw.
It takes one process and one thread.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from machine import CLOCKS, save_figures

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.evaluation import decisions_of
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.scenarios import get_scenario, save_scenario
from gpusched_env.support.commands import run_script

SCENARIOS: Final = {"64 GPUs": "philly-64-v1", "2,048 GPUs, 32 racks": "leaf-spine-2048-v1"}
DECISIONS: Final = 20_000


@dataclass
class Settings:
    """Measure both sizes."""

    runs: int = 20
    """Runs that are played side by side."""
    clock: Literal["wall", "cpu"] = "wall"
    """Seconds of which clock: wall, or cpu for a machine that does other work, too."""
    output: Path | None = None
    """JSON file for the results."""


def agent_of(scenario: str, folder: Path) -> LearnedScheduler:
    """Train an agent for one update on thirty jobs of the scenario."""
    chosen = get_scenario(scenario)
    small = chosen.replace(workload=dataclasses.replace(chosen.workload, jobs=30))
    save_scenario(small, folder / "scenario.json")
    config = TrainingConfig(
        scenario=str(folder / "scenario.json"), steps=1, workloads=1, copies=2, validations=1, validation_seeds=1
    )
    return LearnedScheduler(str(train(config, folder)), initial=True)


def rate(scenario: str, runs: int, clock: Callable[[], float]) -> float:
    """Measure decisions per second of a clock."""
    with tempfile.TemporaryDirectory() as folder:
        player = agent_of(scenario, Path(folder))
        chosen = get_scenario(scenario)
        seeds = range(chosen.seeds.validation[0], chosen.seeds.validation[0] + runs)
        episodes = Episodes(ClusterEnv(chosen, **dataclasses.asdict(player.windows)), seeds)
        player.prepare(episodes.shapes)  # loads the network
        done, begin = 0, clock()
        for decisions in decisions_of(player, episodes):
            done += decisions
            if done >= DECISIONS:
                break
        return done / (clock() - begin)


def main(settings: Settings) -> None:
    """Measure, print and save."""
    figures = {}
    for name, scenario in SCENARIOS.items():
        figures[name] = rate(scenario, settings.runs, CLOCKS[settings.clock])
        print(f"{name}: {figures[name]:,.0f} decisions per second")
    save_figures(figures, settings.output)


if __name__ == "__main__":
    run_script(main)
