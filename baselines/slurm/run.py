"""The arrays of a run under Slurm's rules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.baselines.slurm import priority
from gpusched_env.baselines.slurm.fair_share import decay
from gpusched_env.baselines.slurm.limits import limits_of
from gpusched_env.baselines.slurm.past_usage import PastUsage
from gpusched_env.baselines.slurm.profile import BLOCK
from gpusched_env.baselines.slurm.state import CONSERVATIVE, EASY, NONE, RULES_DTYPE, SlurmState
from gpusched_env.core.handle import Batched
from gpusched_env.core.placement.rules import rule_number
from gpusched_env.core.state import DRAIN
from gpusched_env.errors import SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.qos import ranks_of
from gpusched_env.problem.tenants import PRIORITY
from gpusched_env.simulator import Simulation

if TYPE_CHECKING:
    from gpusched_env.baselines.slurm.scheduler import Slurm

NEVER_S: Final = 1e15  # [s] when unplanned reservations begin, as far as plans know
BACKFILL = {"none": NONE, "easy": EASY, "conservative": CONSERVATIVE}


def state_of(simulation: Simulation, rules: Slurm) -> SlurmState:
    """Return the arrays of a run, filled from the parameters of the scheduler and the requests of the jobs."""
    instance = simulation.instance
    tree, of_job = instance.tenancy
    jobs = len(instance.workload)
    requests = requests_of(instance)
    row_of, partition = requests["row_of"], requests["partition"]
    several = len(row_of) > jobs
    limits = limits_s(instance, rules.limits, rules.default_limit_s, row_of, partition)
    classes, tiers = priority_classes(instance)[row_of], tiers_of(instance, partition)
    runs_as = running_requests(simulation, requests)
    slots = math.ceil(rules.bf_window_s / rules.bf_resolution_s)
    caps, cells = limits_of(instance), cells_of(instance)
    sizes = {
        "slots": slots, "blocks": math.ceil(slots / BLOCK), "cells": len(cells["node_in"]),
        "reservations": len(cells["closes_s"]), "requests": len(row_of), "jobs": jobs,
        "partitions": int(partition.max()) + 1, "replicas": instance.cluster.gpus * instance.gpu_jobs + 1,
        "counters": int(caps["counter"].max(initial=-1)) + 1, "tenants": len(tree.names),
        **node_sizes(instance, rules, row_of, slots),
    }  # fmt: skip
    state: SlurmState = Batched(
        SlurmState,
        1,
        sizes,
        memory=rules_of(rules, capped=len(caps["counter"]) > 0, several=several, instance=instance),
        **cells,
        **requests,
        runs_as=runs_as,
        runs_for_s=limits[runs_as],
        **ladder_of(instance, rules.preempt, classes, tiers, row_of),
        **modes_of(instance, rules.preempt, rules.grace_s, row_of, partition),
        keys=sort_keys(ranks_by(instance, rules.preempt, classes, row_of), tiers),
        fixed=fixed_points(instance, rules, limits, classes, row_of, partition),
        limit_s=limits,
        tenant=np.ascontiguousarray(of_job, np.int32),
        **caps,
    ).handle(0)
    return state


def rules_of(rules: Slurm, capped: bool, several: bool, instance: Instance) -> np.ndarray:
    """RULES_DTYPE: the rules of a run before its first event."""
    m = np.zeros((), RULES_DTYPE)
    m["age_weight"], m["share_weight"] = rules.age_weight, rules.fair_share_weight
    m["max_age_s"], m["period_s"] = rules.max_age_s, rules.calc_period_s
    m["decay"] = decay(rules.calc_period_s, rules.decay_half_life_s)
    m["capped"], m["divided"], m["by_node"] = capped, is_divided(instance), instance.node_counts is not None
    m["rule"] = rule_number(rules.placement)
    m["depth"], m["backfill"] = rules.queue_depth, BACKFILL[rules.backfill]
    m["interval_s"], m["slot_s"] = rules.bf_interval_s, rules.bf_resolution_s
    m["tests"], m["tenant_tests"] = rules.bf_max_job_test, rules.bf_max_job_user
    m["cycle_starts"], m["least_reserve"] = rules.bf_max_job_start, rules.bf_min_prio_reserve
    m["one_plan"] = rules.bf_one_resv_per_job and several
    m["preempts"], m["youngest"] = rules.preempt != "off", rules.youngest_first
    m["by_list"] = rules.preempt == "qos"
    m["exempt_s"] = rules.preempt_exempt_s
    m["cycle_s"], m["blocked"] = -math.inf, -1
    return m


def node_sizes(instance: Instance, rules: Slurm, row_of: np.ndarray, slots: int) -> dict[str, int]:
    """Return the lengths of the arrays of nodes.py, which are empty if no job demands a number of nodes."""
    names = ("node_slots", "entries", "plan_nodes", "node_gpus", "kinds")
    counts, cluster = instance.node_counts, instance.cluster
    if counts is None:
        return dict.fromkeys(names, 0)
    gpus = instance.workload.jobs["gpus"].astype(np.int64)
    parts = np.minimum(gpus // np.maximum(counts.part[counts.of_job], 1), len(cluster.nodes))
    booked = int(np.sort(parts[row_of])[::-1][: rules.bf_max_job_test].sum())
    entries = cluster.gpus + 2 * min(booked, len(cluster.nodes) * slots)
    largest = int(cluster.nodes["gpus"].max())
    return dict(zip(names, (slots, entries, len(cluster.nodes), largest + 1, len(instance.classes)), strict=True))


def recall(plan: SlurmState, past: PastUsage, names: tuple[str, ...]) -> None:
    """Begin with the usage of the past of the tenants ``names``; counting goes on at the moment of the takeover."""
    plan.memory["period"] = math.floor(past.time_s / plan.memory["period_s"])
    plan.memory["time_s"] = past.time_s
    for row, name in enumerate(names):
        plan.usage[row] = past.usage.get(name, 0.0)
        plan.recent[row] = past.recent.get(name, 0.0)


def fixed_points(
    instance: Instance, rules: Slurm, limits: np.ndarray, classes: np.ndarray, row_of: np.ndarray, partition: np.ndarray
) -> np.ndarray:
    """float64: sum of the weighted factors of each request that do not change."""
    cluster = instance.cluster
    gpus = instance.workload.jobs["gpus"][row_of]
    nodes = np.ceil(gpus / cluster.nodes["gpus"].max())
    size = priority.size(rules.size_factor, nodes, gpus, len(cluster.nodes), cluster.gpus, limits)
    points = rules.size_weight * size + rules.gpu_weight * (gpus / cluster.gpus)
    total: np.ndarray = points + rules.qos_weight * priority.of_largest(classes)
    if (sets := instance.node_sets) is not None:
        factors = priority.of_largest(np.array([one.priority for one in sets.partitions]))
        total = total + rules.partition_weight * factors[partition]
    return total


def requests_of(instance: Instance) -> dict[str, np.ndarray]:
    """Return the arrays of SlurmState that tell the requests: pairs of a job and one of its partitions."""
    sets, rows = instance.node_sets, np.arange(len(instance.workload) + 1, dtype=np.int32)
    if sets is None or not sets.choices.several:
        partition = np.zeros(len(rows) - 1, np.int32) if sets is None else sets.partition
        return {"row_of": rows[:-1], "request": rows, "partition": partition, "kinds": instance.job_class}
    choices = sets.choices
    return {
        "row_of": choices.job, "request": choices.first, "partition": choices.partition, "kinds": instance.choice_class
    }  # fmt: skip


def running_requests(simulation: Simulation, requests: dict[str, np.ndarray]) -> np.ndarray:
    """int32 [J]: the request with which each job runs, the first one of its class; of other jobs, their first."""
    row_of, found = requests["row_of"], requests["request"][:-1].copy()
    if len(row_of) > len(found):
        kind = simulation.arrays.jobs["job_class"][: len(found)]
        rows, first = np.unique(row_of[requests["kinds"] == kind[row_of]], return_index=True)
        found[rows] = np.flatnonzero(requests["kinds"] == kind[row_of])[first]
    return found


def tiers_of(instance: Instance, partition: np.ndarray) -> np.ndarray:
    """float64: tier of each of these partitions; 0 without partitions."""
    sets = instance.node_sets
    if sets is None:
        return np.zeros(len(partition))
    return np.array([one.tier for one in sets.partitions], float)[partition]


def ladder_of(
    instance: Instance, preempt: str, classes: np.ndarray, tiers: np.ndarray, row_of: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the arrays of SlurmState that tell which jobs preempt which."""
    table = instance.qos
    if preempt != "qos":
        ladder = -tiers if preempt == "tier" else -classes
        return {"ladder": ladder, "quality": np.zeros(len(row_of), np.int32), "preys": np.zeros((1, 1), np.int8)}
    if table is None:
        raise SchedulerError("slurm: preempt is 'qos', and the scenario has no QOS; list them in its tenants")
    names = [one.name for one in table.listed]
    preys = np.zeros((len(names) + 1, len(names) + 1), np.int8)
    for row, one in enumerate(table.listed):
        preys[row, [names.index(name) for name in one.preempts]] = 1
    priorities = np.array([*(one.priority for one in table.listed), 0.0])
    quality = table.of_job[row_of]
    return {"ladder": -priorities[quality], "quality": quality, "preys": preys}


def ranks_by(instance: Instance, preempt: str, classes: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """float64: jobs of higher numbers come first in the queue, because they may preempt those of lower ones."""
    if preempt == "qos" and instance.qos is not None:
        return np.array([*ranks_of(instance.qos.listed), 0.0])[instance.qos.of_job[row_of]]
    return classes if preempt == "class" else np.zeros(len(row_of))


def modes_of(
    instance: Instance, preempt: str, grace_s: float, row_of: np.ndarray, partition: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the arrays of SlurmState about the victims of preemption: those that are spared, and grace times."""
    sets, table = instance.node_sets, instance.qos
    if preempt == "tier" and sets is not None:
        modes, of_request = [(one.preempt_mode, one.grace_s) for one in sets.partitions], partition
    elif preempt == "qos" and table is not None:
        modes, of_request = (
            [*((one.preempt_mode, one.grace_s) for one in table.listed), ("off", 0.0)],
            table.of_job[row_of],
        )
    else:
        return {"spared": np.zeros(len(partition), np.int8), "grace_s": np.full(len(partition), float(grace_s))}
    spared = np.array([mode == "off" for mode, _ in modes], np.int8)
    return {
        "spared": spared[of_request],
        "grace_s": np.array([seconds for _, seconds in modes], np.float64)[of_request],
    }


def limits_s(
    instance: Instance, source: str, default_s: float, row_of: np.ndarray, partition: np.ndarray
) -> np.ndarray:
    """float64 [s]: time limit of each request: job ``row_of[i]`` in ``partition[i]``.

    "user" = the job's ``estimate_s``, else that of its partition or QOS, else ``default_s``; "oracle" = its slowest
    run.
    """
    if source == "user":
        claims = instance.workload.jobs["estimate_s"][row_of]
        told = instance.limits_in(row_of, partition)
        return np.where(np.isnan(claims), np.where(np.isinf(told), default_s, told), claims)
    oracle_s: np.ndarray = instance.iterations * instance.slowest_iteration_s
    return oracle_s[row_of]


def is_divided(instance: Instance) -> bool:
    """Return whether there are partitions or planned reservations, so that passes must distinguish nodes."""
    sets = instance.node_sets
    if sets is None:
        return False
    only_faults = len(sets.planned) > 0 and not sets.planned.any()
    return not (only_faults and len(sets.partitions) == 1 and bool(sets.belongs.all()))


def cells_of(instance: Instance) -> dict[str, np.ndarray]:
    """Return the arrays of SlurmState about cells; they have no entries without partitions and reservations."""
    sets = instance.node_sets
    if sets is None:
        belongs, reserved = np.zeros((0, 0), bool), np.zeros((0, 0), bool)
        closes_s = opens_s = step = np.zeros(0)
        types = np.zeros(0, np.int32)
    else:
        belongs, reserved = sets.belongs, sets.reserved & sets.planned[:, None]
        closes_s = np.where(sets.planned, sets.closes_s(instance.semantics), NEVER_S)
        opens_s = np.where(sets.planned, sets.end_s, NEVER_S)
        step = np.where(sets.drains, DRAIN, 1)
        types = instance.cluster.nodes["gpu_type"]
    marks = np.concatenate([belongs, reserved, types[None]])
    _, first, cell_of = np.unique(marks, axis=1, return_index=True, return_inverse=True)
    return {
        "cell_of": cell_of.reshape(-1).astype(np.int32),
        "node_in": first.astype(np.int32),
        "within": np.ascontiguousarray(belongs[:, first], np.int8),
        "holds_cell": np.ascontiguousarray(reserved[:, first], np.int8),
        "closes_s": np.array(closes_s, float),
        "opens_s": np.array(opens_s, float),
        "step": np.array(step, np.int64),
    }


def sort_keys(classes: np.ndarray, tiers: np.ndarray) -> np.ndarray:
    """float64 [J]: keys by which jobs of higher classes, and then of higher tiers, come first."""
    if not tiers.any():
        return -classes
    _, by_class = np.unique(-classes, return_inverse=True)
    _, by_tier = np.unique(-tiers, return_inverse=True)
    keys: np.ndarray = by_class * (by_tier.max() + 1.0) + by_tier
    return keys


def priority_classes(instance: Instance) -> np.ndarray:
    """float64: priority class of each job; 0 without classes."""
    workload = instance.workload
    if PRIORITY not in workload.attributes:
        return np.zeros(len(workload))
    classes = workload.told(PRIORITY)
    bad = ~(np.isfinite(classes) & (classes >= 0.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise SchedulerError(
            f"slurm: workload {workload.name!r}, job {workload.jobs['id'][row]}: {PRIORITY} is {classes[row]}: give a "
            "finite number >= 0"
        )
    return classes
