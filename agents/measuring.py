"""Ratios of an agent to its rivals, paired by seed."""

from __future__ import annotations

from collections.abc import Sequence

from gpusched_env.evaluation import evaluate
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import get_scenario


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
    played = evaluate(found, [agent, *rivals], range(first, first + seeds), workers)
    values = {spec: [one.metrics[metric] for one in played if one.spec == spec] for spec in (agent, *rivals)}
    ratios = {rival: paired_ratio(values[agent], values[rival]) for rival in rivals}
    return {rival: (ratio.mean, ratio.low, ratio.high) for rival, ratio in ratios.items()}
