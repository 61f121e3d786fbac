"""Measure the files of one search, each of another seed of the search: the ratios of each, and of all.

    python -m studies.index_search.measure pk-0.npz pk-1.npz --scenario bsbf-sim-240-v1 --schedulers sjf-bsbf,srsf

The interval is over the searches and the seeds of the problems. ``gpusched agents measure NAME`` measures an agent of
the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import typer

from gpusched_env.agents.measuring import played
from gpusched_env.cli.parsing import chosen_schedulers
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.metrics import COLUMN_OF
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp
from gpusched_env.scenarios import get_scenario
from gpusched_env.support.commands import run_script

RESAMPLES: Final = 2_000


@dataclass
class Settings:
    """How the agents of a search are measured."""

    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of one search.")]
    scenario: str
    """Name or path."""
    schedulers: tuple[str, ...]
    """Rivals."""
    metrics: tuple[str, ...] = ("mean_jct_s",)
    """Metrics."""
    seeds: int = 20
    """Number of seeds."""
    validation: bool = False
    """Validation seeds, not report seeds."""
    workers: int = 1
    """Number of processes."""


def main(settings: Settings) -> None:
    """Print the ratios of each file and of all."""
    for metric in settings.metrics:
        if metric not in COLUMN_OF:
            raise GpuschedError(f"--metrics: {unknown_name('metric', metric, COLUMN_OF)}")
    seeds = get_scenario(settings.scenario).seeds
    first, end = seeds.validation if settings.validation else seeds.report
    drawn = range(first, min(first + settings.seeds, end))
    agents = [f"learned:path={file}" for file in settings.files]
    rivals = chosen_schedulers([",".join(settings.schedulers)])
    print_ratios(settings.scenario, agents, rivals, settings.metrics, drawn, settings.workers)


def print_ratios(
    scenario: str,
    agents: Sequence[str],
    rivals: Sequence[str],
    metrics: Sequence[str],
    seeds: Sequence[int],
    workers: int = 1,
) -> None:
    """Print metric of each agent / that of each rival, and of all agents together, which other seeds have found."""
    found = get_scenario(scenario)
    mine = [played(agent, found, seeds, workers) for agent in agents]
    theirs = {rival: played(rival, found, seeds, workers) for rival in rivals}
    for metric in metrics:
        print(f"{metric} of agents / that of others, {scenario}, seeds {seeds[0]}:{seeds[-1] + 1}")
        own = np.array([[one.metrics[metric] for one in results] for results in mine])
        for rival, results in theirs.items():
            ratios = own / np.array([one.metrics[metric] for one in results])
            middle, low, high = ratio_over_agents(ratios)
            each = ", ".join(f"{exp(arrays.mean(arrays.log(row))):.4f}" for row in ratios)
            print(f"  {rival}: {middle:.4f} [{low:.4f}, {high:.4f}]; each agent {each}")


def ratio_over_agents(ratios: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean of ratios, float64 [agents, problems], and its 95 % interval by bootstrap over both."""
    logs = arrays.log(ratios)
    rng = np.random.default_rng(0)
    count, length = logs.shape
    means = [
        logs[np.ix_(rng.integers(count, size=count), rng.integers(length, size=length))].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    middle, low, high = arrays.exp(np.array([logs.mean(), low, high])).tolist()
    return middle, low, high


if __name__ == "__main__":
    run_script(main)
