"""Ratios of an agent to its rivals, paired by seed; ``gpusched agents measure`` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from gpusched_env.agents.evaluation import evaluate_policy  # needs torch, which other agents do not
from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import make_scheduler
from gpusched_env.evaluation import RunResult, by_scheduler, evaluate
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.support.tables import BOUND


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
    mine = played(agent, found, drawn, workers)
    others = [one for one in rivals if one != BOUND]
    theirs = evaluate(found, others, drawn, workers)
    values = {label: [one.metrics[metric] for one in runs] for label, runs in by_scheduler(theirs).items()}
    if BOUND in rivals and metric in mine[0].bounds:
        values[BOUND] = [one.bounds[metric] for one in mine]
    ratios = {rival: paired_ratio([one.metrics[metric] for one in mine], of) for rival, of in values.items()}
    return {rival: (ratio.mean, ratio.low, ratio.high) for rival, ratio in ratios.items()}


def played(agent: str, scenario: Scenario, seeds: Sequence[int], workers: int) -> list[RunResult]:
    """Play the agent; networks play all seeds at once, which is faster and gives the same results."""
    if isinstance(player := make_scheduler(agent), LearnedScheduler):
        return evaluate_policy(player, scenario, seeds)
    return evaluate(scenario, [agent], seeds, workers)
