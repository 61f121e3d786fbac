"""Ratios of an agent to its rivals, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

from gpusched_env.agents.learned import LearnedScheduler
from gpusched_env.baselines import make_scheduler
from gpusched_env.evaluation import RunResult, evaluate
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import Scenario, get_scenario


def measured_ratios(
    agent: str, rivals: Sequence[str], scenario: str, metric: str, seeds: int, workers: int = 1
) -> dict[str, tuple[float, float, float]]:
    """Return metric of the agent / that of each rival: geometric mean over seeds, and its 95 % interval.

    Parameters
    ----------
    agent, rivals : specs of schedulers
    seeds : number of report seeds
    """
    found = get_scenario(scenario)
    first, _ = found.seeds.report
    drawn = range(first, first + seeds)
    played = evaluate(found, rivals, drawn, workers)
    own = [one.metrics[metric] for one in _played(agent, found, drawn, workers)]
    ratios = {
        rival: paired_ratio(own, [one.metrics[metric] for one in played if one.spec == rival]) for rival in rivals
    }
    return {rival: (ratio.mean, ratio.low, ratio.high) for rival, ratio in ratios.items()}


def _played(agent: str, scenario: Scenario, seeds: Sequence[int], workers: int) -> list[RunResult]:
    """Play the agent; networks play all seeds at once, which is faster and gives the same results."""
    if isinstance(player := make_scheduler(agent), LearnedScheduler):
        from gpusched_env.agents.evaluation import evaluate_policy  # needs torch, which other agents do not

        return evaluate_policy(player, scenario, seeds)
    return evaluate(scenario, [agent], seeds, workers)
