"""Steps per second of the batched environment and of MaskablePPO's rollout on it, beside CartPole-v1 in the same run.

    python benchmarks/vector.py [--environments 256] [--steps 200] [--repeats 5] [--output FILE.json]

The batch is made by ``make_vec`` with shared buffers and one thread, and plays random feasible actions with a queue
window of 32. It is measured on 256 GPUs without links, and on a leaf-spine network of 256 GPUs with max-min fair links.
Times are CPU seconds of ``step`` only, which include resets at the ends of episodes but not the choice of actions. The
third measurement is the environment's share of the time of a MaskablePPO rollout. Medians over repeats.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from environment import cartpole_rate, ratios
from machine import save_figures
from rich.console import Console
from rich.table import Table

import gpusched_env  # noqa: F401  registers the environments
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.scenarios import Scenario, Seeds, get_scenario
from gpusched_env.support.commands import run_script


@dataclass
class Settings:
    """Measure the batched environment."""

    environments: int = 256
    """Environments of the batch."""
    steps: int = 200
    """Calls of ``step`` in one repeat."""
    repeats: int = 5
    """Repeats; the median is reported."""
    rollout: int = 64
    """Steps of each of 64 environments in MaskablePPO's rollout; 0 = leave it out."""
    output: Path | None = None
    """JSON file for the results."""


def random_actions(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a feasible action for each environment of a batch."""
    return (mask * rng.random(mask.shape)).argmax(axis=1)


def batch_rate(scenario: str, environments: int, steps: int) -> float:
    """Measure one batch [steps of environments per CPU second]."""
    envs = gymnasium.make_vec(
        "gpusched/Cluster-v0",
        num_envs=environments,
        scenario=scenario,
        queue_window=32,
        copy=False,
        threads=1,
        keep_logs=False,
    )
    _, infos = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    seconds = 0.0
    for _ in range(steps):
        actions = random_actions(infos["action_mask"], rng)
        begin = time.process_time()
        *_, infos = envs.step(actions)
        seconds += time.process_time() - begin
    envs.close()
    return environments * steps / seconds


def first_feasible_rate(
    environments: int, steps: int, scenario: str | Scenario = "philly-64-v1", **options: Any
) -> tuple[float, float]:
    """Play the first feasible actions on a scenario with 300 jobs, with the resets of episodes that end.

    Returns
    -------
    reset_s : CPU seconds of a call of ``reset`` / environments
    rate : steps of environments per CPU second of ``step``
    """
    envs = gymnasium.make_vec(
        "gpusched/Cluster-v0",
        num_envs=environments,
        scenario=scenario,
        copy=False,
        threads=1,
        keep_logs=False,
        **options,
    )
    envs.reset(seed=0)  # allocates the batch
    begin = time.process_time()
    _, infos = envs.reset()
    reset_s = (time.process_time() - begin) / environments
    seconds = 0.0
    for _ in range(steps):
        actions = infos["action_mask"].argmax(axis=1)
        begin = time.process_time()
        *_, infos = envs.step(actions)
        seconds += time.process_time() - begin
    envs.close()
    return reset_s, environments * steps / seconds


def family_rates(environments: int, steps: int, problems: range) -> tuple[float, float, float]:
    """Measure a batch that draws some problems of ``gpusched/Family-v0``, and batches of each of them alone.

    Parameters
    ----------
    problems : seeds of the problems

    Returns
    -------
    reset_s, rate : of the batch in which each reset draws one of the problems, as of :func:`first_feasible_rate`
    fixed_rate : harmonic mean of the rates of the batches whose scenario is one problem
    """
    options = {**ENVIRONMENTS["gpusched/Family-v0"], "running_window": 0}
    end = problems.stop
    seeds = Seeds(train=(problems.start, end), validation=(end, end + 1), report=(end + 1, end + 2))
    varying = get_scenario("family-v1").replace(seeds=seeds)
    for seed in problems:  # its clusters and networks are made once
        varying.instance(seed)
    reset_s, rate = first_feasible_rate(environments, steps, **(options | {"scenario": varying}))
    fixed = [
        first_feasible_rate(environments, steps, **(options | {"scenario": f"family-v1:problem={seed}"}))[1]
        for seed in problems
    ]
    return reset_s, rate, statistics.harmonic_mean(fixed)


def rollout_share(steps: int) -> float:
    """Measure the environment's share of the CPU seconds in which MaskablePPO collects a rollout."""
    import torch
    from sb3_contrib import MaskablePPO

    from gpusched_env.integrations.stable_baselines3 import ClusterVecEnv

    torch.set_num_threads(1)
    batch = gymnasium.make_vec(
        "gpusched/Cluster-v0", num_envs=64, scenario="philly-256-v1", autoreset_mode="SameStep", threads=1
    )
    environments = ClusterVecEnv(batch)
    spent = 0.0

    def timed(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal spent
            begin = time.process_time()
            answer = function(*arguments, **named)
            spent += time.process_time() - begin
            return answer

        return call

    model = MaskablePPO("MultiInputPolicy", environments, n_steps=steps, batch_size=64, device="cpu", seed=0)
    _, callback = model._setup_learn(steps * 64)
    environments.step_wait = timed(environments.step_wait)  # type: ignore[method-assign]
    environments.env_method = timed(environments.env_method)  # type: ignore[method-assign]
    begin = time.process_time()
    model.collect_rollouts(environments, callback, model.rollout_buffer, steps)
    return spent / (time.process_time() - begin)


SCENARIOS = {"philly-256-v1": "256 GPUs", "leaf-spine-256-v1": "256 GPUs, leaf-spine, max-min"}


def measure(environments: int = 256, steps: int = 200, repeats: int = 5) -> dict[str, Any]:
    """Measure CartPole-v1 and a batch of each scenario; return medians."""
    for scenario in SCENARIOS:
        batch_rate(scenario, 2, 2)  # compile
    cartpole: list[float] = []
    rates: dict[str, list[float]] = {scenario: [] for scenario in SCENARIOS}
    for _ in range(repeats):
        cartpole.append(cartpole_rate(10_000))
        for scenario, measured in rates.items():
            measured.append(batch_rate(scenario, environments, steps))
    figures: dict[str, Any] = {"cartpole_steps_per_cpu_s": statistics.median(cartpole)}
    for scenario, measured in rates.items():
        ratio = statistics.median(ratios(measured, cartpole))
        figures[scenario] = {"steps_per_cpu_s": statistics.median(measured), "ratio": ratio}
    return figures


def main(settings: Settings) -> None:
    """Measure, print and save."""
    figures = measure(settings.environments, settings.steps, settings.repeats)
    table = Table(title=f"make_vec, {settings.environments} environments, one thread", title_justify="left")
    for heading in ("environment", "steps per CPU second", "ratio to CartPole-v1"):
        table.add_column(heading, justify="left" if heading == "environment" else "right")
    table.add_row("CartPole-v1, single", f"{figures['cartpole_steps_per_cpu_s']:,.0f}", "1")
    for scenario, title in SCENARIOS.items():
        of_batch = figures[scenario]
        table.add_row(f"{scenario}: {title}", f"{of_batch['steps_per_cpu_s']:,.0f}", f"{of_batch['ratio']:.2f}")
    console = Console(width=100)
    console.print(table)
    if settings.rollout:
        figures["rollout_share"] = rollout_share(settings.rollout)
        console.print(f"the environment's share of MaskablePPO's rollout: {figures['rollout_share']:.0%}")
    save_figures(figures, settings.output)


if __name__ == "__main__":
    run_script(main)
