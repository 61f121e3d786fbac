"""Make the jobs of a workload elastic: give each job a range of sizes, and its speed at each of them."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.problem.sizes import DOUBLING, Sizes, size_range
from gpusched_env.problem.workload import PROFILE_DTYPE, Profiles, Workload
from gpusched_env.traces.elastic_applications import (
    SPEEDS,
    adaptive_jobs,
    fixed_batch_jobs,
    limits_of,
    scaled_batch_jobs,
)
from gpusched_env.traces.profile_tables import load_measured

__all__ = ["amdahl", "make_elastic", "plan_sizes"]

TABLE = "elasticflow"  # of the measured speeds
SpeedUp = Callable[[int], float]


def amdahl(serial: float) -> SpeedUp:
    """Return Amdahl's speed-up of a gang over one GPU, by its size: 1 / (serial + (1 - serial) / GPUs)."""
    if not 0 <= serial <= 1:
        raise WorkloadError(f"serial is {serial!r}: it must be a number from 0 to 1")
    return lambda gpus: 1.0 / (serial + (1.0 - serial) / gpus)


def make_elastic(
    workload: Workload, speed_up: SpeedUp, least: int = 1, most: int | None = None, step: int = DOUBLING
) -> Workload:
    """Let every job run on a range of sizes; it keeps the size that it requests, and its run time on this size.

    On r GPUs, an iteration takes ``speed_up(requested) / speed_up(r)`` times as long as on the requested GPUs: compute
    time and gradients are scaled by this factor.

    Parameters
    ----------
    speed_up : number of GPUs -> speed of a gang, in any unit; :func:`amdahl` or a table's ``__getitem__``
    least, most : smallest and largest size [GPU]; the requested size is added if it is outside. ``most`` None = the
        largest size that a job of the workload requests
    step : distance of the sizes; DOUBLING = least, 2 least, 4 least, ...
    """
    if workload.sizes is not None:
        raise WorkloadError(f"workload {workload.name!r}: its jobs are elastic already")
    jobs, own = workload.jobs, workload.profiles
    if len(own.plans):
        raise WorkloadError(f"workload {workload.name!r}: its profiles have plans; use rule 'plans' (plan_sizes)")
    sizes = size_range(least, int(jobs["gpus"].max()) if most is None else most, step)
    requests = list(zip(jobs["profile"].tolist(), jobs["gpus"].tolist(), strict=True))
    group_of = {request: number for number, request in enumerate(sorted(set(requests)))}
    rows, compute, options = [own.rows], [own.compute_s], []
    count = len(own.rows)
    for profile, requested in group_of:
        pairs = [(requested, profile)]
        for gpus in sizes:
            if gpus == requested:
                continue
            factor = _speed(speed_up, requested) / _speed(speed_up, gpus)
            row = own.rows[[profile]].astype(PROFILE_DTYPE)
            row["name"] = f"{own.rows['name'][profile]} ({requested}:{gpus})"
            row["gradient_bytes"] *= factor
            rows.append(row)
            compute.append(own.compute_s[[profile]] * factor)
            pairs.append((gpus, count))
            count += 1
        options.append(pairs)
    profiles = Profiles(
        np.concatenate(rows), np.concatenate(compute), own.gpu_types, own.measured, own.shaped, own.accumulation
    )
    table = Sizes.of_groups([group_of[request] for request in requests], options)
    return workload.unchecked_replace(profiles=profiles, sizes=table)


def plan_sizes(workload: Workload) -> Workload:
    """Let every job whose profile has plans run on each gang size of a plan; other jobs stay rigid.

    A profile of ``llm_profiles`` has the fastest plan that fits on each of its sizes, with the same batch on all of
    them: an iteration is the same progress. So sizes are multiples of the GPUs of a copy of the model.
    """
    plans, jobs = workload.profiles.plans, workload.jobs
    if workload.sizes is not None or not len(plans):
        raise WorkloadError(f"workload {workload.name!r}: its jobs are elastic already, or no profile has plans")
    profiles, first = np.unique(plans["profile"], return_index=True)  # plans are sorted by profile
    parts = [part.tolist() for part in np.split(plans[["gpus", "profile"]], first[1:])]
    group_of = dict(zip(profiles.tolist(), range(len(profiles)), strict=True))
    groups = [group_of.get(profile, -1) for profile in jobs["profile"].tolist()]
    return dataclasses.replace(workload, sizes=Sizes.of_groups(groups, parts))


def _speed(speed_up: SpeedUp, gpus: int) -> float:
    speed = float(speed_up(gpus))
    if not 0 < speed < math.inf:
        raise WorkloadError(f"the speed on {gpus} GPUs is {speed!r}: it must be a finite number > 0")
    return speed


def _amdahl_jobs(
    workload: Workload, serial: float = 0.05, least: int = 1, most: int | None = None, step: int = DOUBLING
) -> Workload:
    return make_elastic(workload, amdahl(serial), least, most, step)


def measured_jobs(workload: Workload, most: int | None = None) -> Workload:
    """Let every job run on the measured numbers of GPUs, 1, 2, 4 to 64, with a fixed batch for the whole gang.

    The profiles of the jobs must be of the table ``elasticflow``. A job keeps its run time on the GPUs that it
    requests. Some models are slower on many GPUs than on few; a scheduler need not use these sizes.
    """
    table, types = load_measured(TABLE), workload.profiles.gpu_types
    kinds, kind = np.unique(workload.jobs["profile"], return_inverse=True)
    names = [str(name) for name in workload.profiles.rows["name"][kinds]]
    for name in names:
        if name not in table.models:
            raise WorkloadError(
                f"workload {workload.name!r}: profile {name!r} is not of the table {TABLE!r}; set profiles to {TABLE!r}"
            )
    sizes = [
        [gpus for gpus in table.models[name].gangs if gpus <= (most or gpus) and table.gpu_types_of(name, gpus)]
        for name in names
    ]
    each = [(name, gpus) for name, gangs in zip(names, sizes, strict=True) for gpus in gangs]
    profiles, rows = table.for_jobs([name for name, _ in each], [gpus for _, gpus in each], types)
    row_of = dict(zip((name for name, _ in each), rows.tolist(), strict=True))
    options = [[(gpus, row_of[name]) for gpus in gangs] for name, gangs in zip(names, sizes, strict=True)]
    jobs = workload.jobs.copy()
    jobs["profile"] = np.array([row_of[name] for name in names], np.int32)[kind]
    table_of_sizes = Sizes.of_groups(kind, options)
    return Workload(jobs, profiles, workload.name, workload.source, workload.attributes, table_of_sizes)


ELASTIC_RULES: Final[dict[str, Callable[..., Workload]]] = {
    "amdahl": _amdahl_jobs,
    "adaptive-batch": adaptive_jobs,
    "fixed-batch": fixed_batch_jobs,
    "scaled-batch": scaled_batch_jobs,
    "elasticflow": measured_jobs,
    "plans": plan_sizes,
}


def elastic_jobs(workload: Workload, rule: str, **parameters: Any) -> Workload:
    """Make the jobs of a workload elastic by a rule.

    Parameters
    ----------
    rule : "amdahl" = :func:`make_elastic` with Amdahl's speed-up; "adaptive-batch" = Pollux's applications, with the
        batch of the largest goodput at each size; "fixed-batch" = the same, with the batch that each job requests;
        "scaled-batch" = the same, with the batch on each GPU that each job requests; "elasticflow" = ElasticFlow's
        measured speeds, for jobs with profiles of the table elasticflow; "plans" = :func:`plan_sizes`
    parameters : for "amdahl": ``serial`` (default 0.05), ``least``, ``most`` and ``step``; for "elasticflow": ``most``;
        for the others: ``speeds``, "fitted" (default) or "measured"; for "adaptive-batch" also ``slowdowns``
    """
    check_rule(rule, parameters)
    return ELASTIC_RULES[rule](workload, **parameters)


def check_rule(rule: str, parameters: Mapping[str, Any]) -> None:
    """Refuse an unknown rule, and parameters that it does not have."""
    if rule not in ELASTIC_RULES:
        raise WorkloadError(unknown_name("rule of elastic jobs", rule, ELASTIC_RULES))
    known = list(inspect.signature(ELASTIC_RULES[rule]).parameters)[1:]
    for name, value in parameters.items():
        if name not in known:
            raise WorkloadError(f"elastic rule {rule!r}: " + unknown_name("parameter", name, known or ["no parameter"]))
        whole = isinstance(value, int) or value is None
        if name == "speeds":
            if value not in SPEEDS:
                raise WorkloadError(f"elastic rule {rule!r}: " + unknown_name("speeds", str(value), SPEEDS))
        elif name == "slowdowns":
            _check_slowdowns(rule, value)
        elif isinstance(value, bool) or not isinstance(value, int | float | None) or (name != "serial" and not whole):
            raise WorkloadError(f"elastic rule {rule!r}: {name} is {value!r}: it must be a number of GPUs, or a share")


def _check_slowdowns(rule: str, slowdowns: Any) -> None:
    if not isinstance(slowdowns, Mapping):
        raise WorkloadError(f"elastic rule {rule!r}: slowdowns is {slowdowns!r}: give an object of application: factor")
    for name, factor in slowdowns.items():
        limits_of(name)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < math.inf:
            raise WorkloadError(f"elastic rule {rule!r}: slowdowns.{name} is {factor!r}: it must be a number > 0")
