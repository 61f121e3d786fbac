"""Reward components: rates of what hurts, integrated over the elapsed time. The scalar is their weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.core.handle import Numbered, kernel
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import Run
from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.instance import Instance
from gpusched_env.portable.arrays import total


class Component(NamedTuple):
    """A reward component: minus the increase of a level, divided by a scale of the instance."""

    number: int
    meaning: str
    scale: Callable[[Instance], float]


def _signature(sim: Run) -> float:
    raise NotImplementedError


# In a kernel: level_of(number, sim).
level_of: Final = Numbered("reward-levels", _signature, most=64)
COMPONENTS: Final[dict[str, Component]] = {}


def reward_component(name: str, meaning: str, scale: Callable[[Instance], float]) -> Callable[[Any], Any]:
    """Register a reward component, which ``reward=`` of environments then names.

    It decorates a function ``(sim: Run) -> float``, the level as of the clock: a kernel, or a plain Python function
    where speed does not matter. A step pays minus what the level has risen by since the step before, over the scale.
    The level is 0 at the beginning.

    Parameters
    ----------
    meaning : half a sentence for tables: what an episode's return is
    scale : gives a positive number for an instance, so that returns do not grow with the workload

    Raises
    ------
    GpuschedError : the name is taken, or a kernel of another signature
    """

    def register(function: Any) -> Any:
        put_named("reward component", name, name in COMPONENTS, len(COMPONENTS), [(level_of, function)])
        COMPONENTS[name] = Component(len(COMPONENTS), meaning, scale)
        return function

    return register


@reward_component(
    "jct",
    "summed over an episode: -(mean JCT) / (mean ideal run time) (Little's law)",
    lambda instance: total(instance.ideal_s),
)
@kernel(lazy=True)
def job_seconds(sim: Run) -> float:
    """Seconds of jobs in the system [s]."""
    return sim.world["job_seconds"]


@reward_component(
    "slowdown",
    "summed over an episode: -(mean slowdown JCT / ideal run time)",
    lambda instance: float(len(instance.workload)),
)
@kernel(lazy=True)
def slowdown_seconds(sim: Run) -> float:
    """Sum over jobs of seconds in the system / ideal run time."""
    return sim.world["slowdown_seconds"]


@reward_component(
    "makespan",
    "summed over an episode: -(time of the last event) / (GPU-seconds of work / GPUs)",
    lambda instance: total(instance.ideal_s * instance.workload.jobs["gpus"]) / instance.cluster.gpus,
)
@kernel(lazy=True)
def clock(sim: Run) -> float:
    """Simulated time [s]."""
    return sim.world["clock_s"]


@reward_component(
    "fairness",
    "summed over an episode: -(mean finish-time fairness rho); paid at completions",
    lambda instance: float(len(instance.workload)),
)
@kernel(lazy=True)
def fairness_sum(sim: Run) -> float:
    """Finish-time fairness rho summed over finished jobs."""
    return sim.world["fairness_sum"]


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
