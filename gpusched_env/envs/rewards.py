"""Reward components: rates of what hurts, integrated over the elapsed time. The scalar is their weighted sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.instance import Instance
from gpusched_env.portable.arrays import total

# Each component is minus the increase of one field of the world, divided by a scale of the instance.
COMPONENTS: Final[dict[str, tuple[str, str]]] = {
    "jct": ("job_seconds", "summed over an episode: -(mean JCT) / (mean ideal run time) (Little's law)"),
    "slowdown": ("slowdown_seconds", "summed over an episode: -(mean slowdown JCT / ideal run time)"),
    "makespan": ("clock_s", "summed over an episode: -(time of the last event) / (GPU-seconds of work / GPUs)"),
    "fairness": ("fairness_sum", "summed over an episode: -(mean finish-time fairness rho); paid at completions"),
}


def parse_reward(reward: str | Mapping[str, float]) -> dict[str, float]:
    """Turn ``reward`` into weights of components.

    Raises
    ------
    ScenarioError : unknown component, or a weight that is not a finite number
    """
    weights = {reward: 1.0} if isinstance(reward, str) else dict(reward)
    for name, weight in weights.items():
        if name not in COMPONENTS:
            raise ScenarioError(f"reward: {unknown_name('reward component', name, COMPONENTS)}")
        if not np.isfinite(weight):
            raise ScenarioError(f"reward[{name!r}] is {weight!r}: it must be a finite number")
    if not weights:
        raise ScenarioError(f"reward is empty: name a component, one of {', '.join(COMPONENTS)}")
    return {name: float(weight) for name, weight in weights.items()}


def scales(instance: Instance) -> dict[str, float]:
    """Give each component's scale, so that an episode's return does not grow with the workload."""
    work = total(instance.ideal_s * instance.workload.jobs["gpus"])
    return {
        "jct": total(instance.ideal_s),
        "slowdown": float(len(instance.workload)),
        "makespan": work / instance.cluster.gpus,
        "fairness": float(len(instance.workload)),
    }
