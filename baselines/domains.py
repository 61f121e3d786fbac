"""What each scheduler needs to be itself, and which of it a problem lacks.

A scheduler outside its domain still plays, but its idea gains nothing there; often it is another, simpler policy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.registry import BASELINES
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Scheduler


class Need(NamedTuple):
    """A registered need: its words in tables, and the function that tells whether a problem meets it."""

    words: str
    met: Callable[[Instance], bool]


NEEDS: Final[dict[str, Need]] = {}


def register_need(name: str, words: str, met: Callable[[Instance], bool]) -> None:
    """Register a need, which schedulers may then declare by its name.

    ``words`` say in tables what meets it, such as "several GPU types"; ``met`` tells whether a problem does.
    """
    if name in NEEDS:
        raise SchedulerError(f"need {name!r} exists already; choose another name")
    NEEDS[name] = Need(words, met)


def check_needs(needs: Collection[str], scheduler: str) -> None:
    """Refuse needs that are no collection of registered names."""
    if isinstance(needs, str):
        raise SchedulerError(f"scheduler {scheduler!r}, needs: write a tuple, ({needs!r},)")
    for name in needs:
        if name not in NEEDS:
            raise SchedulerError(f"scheduler {scheduler!r}, needs: {unknown_name('need', name, NEEDS)}")


def needs_of(scheduler: Scheduler, spec: str | None = None) -> tuple[str, ...]:
    """Return the names of what a scheduler needs: those of its registered name, then those that it adds itself.

    Its registered name is the one that implies most of its parameters, or else the name in ``spec``.
    """
    target = f"{type(scheduler).__module__}:{type(scheduler).__qualname__}"
    given = scheduler.parameters.items()
    rows = [row for row in BASELINES.values() if row.target == target and row.parameters.items() <= given]
    named = BASELINES.get((spec or "").partition(":")[0])
    row = max(rows, key=lambda row: len(row.parameters), default=named)
    check_needs(scheduler.needs, scheduler.name)
    return tuple(dict.fromkeys((*(row.needs if row else ()), *scheduler.needs)))


def needs_met(instance: Instance) -> set[str]:
    """Return the names of the needs that a problem meets."""
    return {name for name, need in NEEDS.items() if need.met(instance)}


def outside_domain(scheduler: Scheduler, instance: Instance, spec: str | None = None) -> tuple[str, ...]:
    """Return, in words, what a scheduler needs to be itself and a problem lacks; () = the problem is in its domain.

    ``spec`` : text from which the scheduler was made, if any
    """
    return tuple(NEEDS[name].words for name in needs_of(scheduler, spec) if not NEEDS[name].met(instance))


def _distance_matters(instance: Instance) -> bool:
    times = instance.iteration_s  # inf = no place of this kind
    slower = np.where(np.isfinite(times), times, 0.0).max(axis=1) > times.min(axis=1)
    return instance.topology is not None or instance.shapes is not None or bool(slower.any())


def _on_one_node(instance: Instance) -> bool:
    return bool(instance.workload.jobs["gpus"].max() <= instance.cluster.nodes["gpus"].max())


def _several_tenants(instance: Instance) -> bool:
    return bool(np.ptp(instance.tenancy[1]) > 0)


register_need("types", "several GPU types", lambda one: len(one.cluster.gpu_types) > 1)
register_need("sharing", "GPU sharing", lambda one: one.gpu_jobs > 1)
register_need("spread", "gangs that are slower on distant GPUs", _distance_matters)
register_need("links", "links that gangs share", lambda one: one.topology is not None)
register_need("gangs", "gangs of several sizes", lambda one: bool(np.ptp(one.workload.jobs["gpus"]) > 0))
register_need("node-gangs", "gangs that fit on one node", _on_one_node)
register_need("copies", "copies of jobs", lambda one: one.semantics.max_copies > 1)
register_need("failures", "nodes or jobs that fail", lambda one: one.recovery is not None)
register_need("sizes", "elastic jobs", lambda one: bool(one.sizes.elastic))
register_need("deadlines", "deadlines", lambda one: one.workload.deadline_s is not None)
register_need("estimates", "estimates of run times", lambda one: not np.isnan(one.workload.jobs["estimate_s"]).all())
register_need("tenants", "several tenants", _several_tenants)
register_need("quotas", "tenants with quotas", lambda one: _several_tenants(one) and bool(one.tenancy[0].quota.any()))
