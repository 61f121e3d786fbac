"""Ratios of an agent to its rivals, paired by seed; ``gpusched agents measure`` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpusched_env.agents.evaluation import evaluate_policy  # needs torch, which other agents do not
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import make_scheduler
from gpusched_env.evaluation import RunResult, by_scheduler, evaluate
from gpusched_env.evaluation.tables import BOUND
from gpusched_env.metrics import paired_ratio
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp
from gpusched_env.scenarios import Scenario, get_scenario

RESAMPLES: Final = 2_000


def measured_ratios(
    agent: str, rivals: Sequence[str], scenario: str, metric: str, seeds: int | Sequence[int], workers: int = 1
) -> dict[str, tuple[float, float, float]]:
    """Return metric of the agent / that of each rival: geometric mean over seeds, and its 95 % interval.

    Parameters
    ----------
    agent, rivals : specs of schedulers; BOUND = the lower bound of the metric, left out if it has none
    seeds : number of report seeds, or the seeds
    """
    found = get_scenario(scenario)
    first, _ = found.seeds.report
    drawn = range(first, first + seeds) if isinstance(seeds, int) else seeds
    mine = _played(agent, found, drawn, workers)
    played = [one for one in rivals if one != BOUND]
    theirs = evaluate(found, played, drawn, workers)
    values = {label: [one.metrics[metric] for one in runs] for label, runs in by_scheduler(theirs).items()}
    if BOUND in rivals and metric in mine[0].bounds:
        values[BOUND] = [one.bounds[metric] for one in mine]
    ratios = {rival: paired_ratio([one.metrics[metric] for one in mine], of) for rival, of in values.items()}
    return {rival: (ratio.mean, ratio.low, ratio.high) for rival, ratio in ratios.items()}


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
    mine = [_played(agent, found, seeds, workers) for agent in agents]
    theirs = {rival: _played(rival, found, seeds, workers) for rival in rivals}
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


def _played(agent: str, scenario: Scenario, seeds: Sequence[int], workers: int) -> list[RunResult]:
    """Play the agent; networks play all seeds at once, which is faster and gives the same results."""
    if isinstance(player := make_scheduler(agent), LearnedScheduler):
        return evaluate_policy(player, scenario, seeds)
    return evaluate(scenario, [agent], seeds, workers)
