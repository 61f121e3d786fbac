"""Reward components. Each is minus the increase of a cost during the step; the reward is their weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Final, NamedTuple

from gpusched_env.core.handle import Numbered, kernel
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import Run
from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.portable.arrays import total
from gpusched_env.problem.instance import Instance

__all__ = ["reward_component"]

MOST_WEIGHT: Final = 1e100  # of a reward component, so that a reward is finite


class Component(NamedTuple):
    """A reward component: minus the increase of a level (accumulated cost), divided by a scale of the instance."""

    number: int
    meaning: str
    scale: Callable[[Instance], float]


def _signature(sim: Run) -> float:
    raise NotImplementedError


# In a kernel: level_of(number, sim).
level_of: Final = Numbered("reward-levels", _signature, most=64)
COMPONENTS: Final[dict[str, Component]] = {}


def reward_component(name: str, meaning: str, scale: Callable[[Instance], float]) -> Callable[[Any], Any]:
    """Register a reward component, which the argument ``reward`` of an environment can then name.

    Decorate a function ``(sim: Run) -> float`` that returns the level (accumulated cost) at the current time: a kernel,
    or a plain Python function where speed does not matter. The reward of a step is minus the increase of the level
    since the last step, divided by the scale. The level must be 0 at the beginning.

    Parameters
    ----------
    name : name of the component
    meaning : half a sentence for tables: the return of an episode
    scale : returns a positive number for an instance, so that returns do not grow with the workload
    """

    def register(function: Any) -> Any:
        put_named("reward component", name, name in COMPONENTS, len(COMPONENTS), [(level_of, function)])
        COMPONENTS[name] = Component(len(COMPONENTS), meaning, scale)
        return function

    return register


@reward_component("jct", "-(mean JCT) / (mean ideal run time) (Little's law)", lambda instance: total(instance.ideal_s))
@kernel(lazy=True)
def job_seconds(sim: Run) -> float:
    """Integral of the number of jobs in the system [job s]."""
    return sim.world["job_seconds"]


@reward_component("slowdown", "-(mean slowdown, JCT / ideal run time)", lambda instance: float(len(instance.workload)))
@kernel(lazy=True)
def slowdown_seconds(sim: Run) -> float:
    """Sum over jobs of (time in the system / ideal run time)."""
    return sim.world["slowdown_seconds"]


@reward_component(
    "makespan",
    "-(time of the last event) / (GPU-seconds of work / GPUs)",
    lambda instance: total(instance.ideal_s * instance.workload.jobs["gpus"]) / instance.cluster.gpus,
)
@kernel(lazy=True)
def clock(sim: Run) -> float:
    """Simulated time [s]."""
    return sim.world["clock_s"]


@reward_component(
    "fairness",
    "-(mean finish-time fairness rho); nonzero only at completions",
    lambda instance: float(len(instance.workload)),
)
@kernel(lazy=True)
def fairness_sum(sim: Run) -> float:
    """Sum of the finish-time fairness rho over finished jobs."""
    return sim.world["fairness_sum"]


def _energy_scale(name: str) -> Callable[[Instance], float]:
    """Return the scale of a meter: what the work takes on GPUs that compute, at the largest value of the series."""

    def scale(instance: Instance) -> float:
        energy = instance.energy
        if energy is None or name not in energy.meters:
            raise ScenarioError(f"reward: the scenario has no {name}: give its field energy, with what {name} needs")
        watts = float(energy.of_types(instance.cluster).max())
        largest = float(abs(energy.meters[name]["value"]).max())
        return total(instance.ideal_s * instance.workload.jobs["gpus"]) * watts * largest or 1.0

    return scale


_OF_WORK: Final = "-({}) / (that of the ideal work on GPUs that compute, at the largest price or intensity)"


@reward_component("energy", _OF_WORK.format("energy"), _energy_scale("energy_kwh"))
@kernel(lazy=True)
def energy_used(sim: Run) -> float:
    """Energy of all GPUs [kWh]."""
    return sim.meters[0]["total"]


@reward_component("cost", _OF_WORK.format("cost"), _energy_scale("cost"))
@kernel(lazy=True)
def cost_of_energy(sim: Run) -> float:
    """Cost of this energy [currency]."""
    return sim.meters[1]["total"]


@reward_component("carbon", _OF_WORK.format("carbon"), _energy_scale("carbon_kg"))
@kernel(lazy=True)
def carbon_of_energy(sim: Run) -> float:
    """Carbon dioxide emitted for this energy [kg]."""
    return sim.meters[2]["total"]


def parse_reward(reward: str | Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each component that ``reward`` names; the components are compiled."""
    if not isinstance(reward, str | Mapping):
        raise ScenarioError(f"reward is {reward!r}: give a name, or weights by name; names: {', '.join(COMPONENTS)}")
    weights = {reward: 1.0} if isinstance(reward, str) else dict(reward)
    for name, weight in weights.items():
        if not isinstance(name, str):
            raise ScenarioError(f"reward: {name!r} is no name; names: {', '.join(COMPONENTS)}")
        if name not in COMPONENTS:
            raise ScenarioError(f"reward: {unknown_name('reward component', name, COMPONENTS)}")
        if isinstance(weight, bool) or not isinstance(weight, Real) or not abs(weight) <= MOST_WEIGHT:
            raise ScenarioError(
                f"reward[{name!r}] is {weight!r}: it must be a finite number from {-MOST_WEIGHT:g} to {MOST_WEIGHT:g}"
            )
        level_of.prepare(COMPONENTS[name].number)
    if not weights:
        raise ScenarioError(f"reward is empty: name a component, one of {', '.join(COMPONENTS)}")
    return {name: float(weight) for name, weight in weights.items()}
