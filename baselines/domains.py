"""What each scheduler needs to be itself, and which of it a problem lacks.

A scheduler outside its domain still plays, but its idea has no effect: there it is another, simpler policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.registry import BASELINES, Baseline
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Scheduler

Predicate = Callable[[Instance], bool]


class Need(NamedTuple):
    """A registered need: its words in tables, and whether a problem meets it."""

    words: str
    met: Predicate


NEEDS: Final[dict[str, Need]] = {}


def register_need(name: str, words: str) -> Callable[[Predicate], Predicate]:
    """Register a need, which schedulers may then declare in their attribute ``needs``.

    Use it as a decorator of a function that says whether an :class:`~gpusched_env.problem.instance.Instance` meets it.

    Parameters
    ----------
    name : name in declarations
    words : what a problem has that meets it, for tables, such as "several GPU types"

    Raises
    ------
    SchedulerError : the name is already in use
    """

    def register(met: Predicate) -> Predicate:
        if name in NEEDS:
            raise SchedulerError(f"need {name!r} exists already; choose another name")
        NEEDS[name] = Need(words, met)
        return met

    return register


def needs_of(scheduler: Scheduler, spec: str | None = None) -> tuple[str, ...]:
    """Return the names of what a scheduler needs: those of its registered name, then those that it adds itself.

    Its registered name is the one that implies most of its parameters, or else the name in ``spec``.

    Raises
    ------
    SchedulerError : it declares a need that is not registered
    """
    row = _registered(scheduler) or BASELINES.get((spec or "").partition(":")[0])
    names = tuple(dict.fromkeys((*(row.needs if row else ()), *scheduler.needs)))
    for name in names:
        if name not in NEEDS:
            raise SchedulerError(f"scheduler {scheduler.name!r}, needs: {unknown_name('need', name, NEEDS)}")
    return names


def _registered(scheduler: Scheduler) -> Baseline | None:
    target = f"{type(scheduler).__module__}:{type(scheduler).__qualname__}"
    rows = [
        row
        for row in BASELINES.values()
        if row.target == target
        and all(getattr(scheduler, name, None) == value for name, value in row.parameters.items())
    ]
    return max(rows, key=lambda row: len(row.parameters), default=None)


def needs_met(instance: Instance) -> set[str]:
    """Return the names of the needs that a problem meets."""
    return {name for name, need in NEEDS.items() if need.met(instance)}


def outside_domain(scheduler: Scheduler, instance: Instance, spec: str | None = None) -> tuple[str, ...]:
    """Return, in words, what a scheduler needs to be itself and a problem lacks; () = the problem is in its domain.

    ``spec`` : text from which the scheduler was made, if any
    """
    return tuple(NEEDS[name].words for name in needs_of(scheduler, spec) if not NEEDS[name].met(instance))


@register_need("types", "several GPU types")
def _types(instance: Instance) -> bool:
    return len(instance.cluster.gpu_types) > 1


@register_need("sharing", "GPU sharing")
def _sharing(instance: Instance) -> bool:
    return instance.gpu_jobs > 1


@register_need("links", "links that gangs share")
def _links(instance: Instance) -> bool:
    return instance.topology is not None


@register_need("tenants", "tenants")
def _tenants(instance: Instance) -> bool:
    return len(np.unique(instance.tenancy[1])) > 1


@register_need("quotas", "tenants with quotas")
def _quotas(instance: Instance) -> bool:
    return _tenants(instance) and bool(instance.tenancy[0].quota.any())


@register_need("sizes", "elastic jobs")
def _sizes(instance: Instance) -> bool:
    return bool(instance.sizes.elastic)


@register_need("deadlines", "deadlines")
def _deadlines(instance: Instance) -> bool:
    return instance.workload.deadline_s is not None


@register_need("estimates", "estimates of run times")
def _estimates(instance: Instance) -> bool:
    return bool(np.isfinite(instance.workload.jobs["estimate_s"]).any())


@register_need("node-gangs", "gangs that fit on one node")
def _node_gangs(instance: Instance) -> bool:
    return bool((instance.workload.jobs["gpus"] <= instance.cluster.nodes["gpus"].max()).all())


@register_need("gangs", "gangs of several sizes")
def _gangs(instance: Instance) -> bool:
    return len(np.unique(instance.workload.jobs["gpus"])) > 1


@register_need("spread", "gangs that are slower on distant GPUs")
def _spread(instance: Instance) -> bool:
    times = instance.iteration_s  # inf = no place of this kind
    slower = np.where(np.isfinite(times), times, 0.0).max(axis=1) > times.min(axis=1)
    return instance.topology is not None or instance.shapes is not None or bool(slower.any())


@register_need("copies", "copies of jobs")
def _copies(instance: Instance) -> bool:
    return instance.semantics.max_copies > 1
