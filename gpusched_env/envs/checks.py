"""Checks of the instance that an episode begins with: every job must be able to start, and the observation must fit."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.placement.placing import fits
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import ScenarioError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import TENANT
from gpusched_env.simulator import RULE_NUMBER, Simulation

MOST_CLUSTERS: Final = 16  # whose checked gangs are remembered
# Profile, size, node set and demand for nodes of the gangs that fit
CheckedGangs = dict[Cluster, set[tuple[int, int, int, int]]]


def check_instance(instance: Instance, windows: Windows) -> None:
    """Refuse an instance whose jobs or tenants do not fit the windows, before anything of the last run is given up."""
    _check_sizes(instance, windows)
    check_tenants(instance, windows)


def check_begin(simulation: Simulation, windows: Windows, checked: CheckedGangs) -> None:
    """Refuse a run, before its first event, with a gang that no rule places; new gangs are added to ``checked``."""
    cluster = simulation.instance.cluster
    if cluster not in checked and len(checked) >= MOST_CLUSTERS:  # scenarios that vary draw another for each seed
        del checked[next(iter(checked))]
    known = checked.setdefault(cluster, set())
    instance = simulation.instance
    kinds = zip(instance.classes.tolist(), instance.class_set.tolist(), instance.class_counts.tolist(), strict=True)
    for kind, ((profile, gang), group, demand) in enumerate(kinds):
        key = profile, gang, group, demand
        if key in known:
            continue
        if not any(fits(simulation.arrays, kind, gang, RULE_NUMBER[rule]) for rule in windows.rules):
            raise ScenarioError(
                f"rules {tuple(windows.rules)}: none of them places a gang of {gang} GPUs even on the empty cluster; "
                "add a rule that may cross racks, such as 'pack'"
            )
        known.add(key)


def _check_sizes(instance: Instance, windows: Windows) -> None:
    """Refuse named sizes with which some job could never start."""
    sizes, table = tuple(windows.sizes), instance.sizes
    if not sizes:
        return
    if not table.elastic:
        raise ScenarioError(
            f"sizes is {sizes}, but no job of this scenario is elastic; leave it empty, or "
            "choose a scenario with elastic jobs, such as pollux-64-v0"
        )
    rows = np.arange(len(instance.workload))
    startable = np.zeros(len(rows), bool)
    for gpus in sizes:
        startable |= table.find(rows, np.full(len(rows), gpus, np.int32)) >= 0
    if not startable.all():
        job = int(np.argmin(startable))
        first = table.first[job]
        has = ", ".join(map(str, table.gpus[first : first + table.count[job]].tolist()))
        raise ScenarioError(
            f"sizes is {sizes}: job {job} has none of these sizes, so no action starts it; add one of its sizes: {has}"
        )


def check_tenants(instance: Instance, windows: Windows) -> None:
    """Refuse trees that are larger than the observation, and jobs that no limit ever admits."""
    shown = windows.tenant_window
    if not shown:
        return
    if TENANT not in instance.workload.attributes:
        raise ScenarioError(
            f"tenant_window is {shown}, but no job of this scenario has a tenant; leave it 0, or choose a scenario "
            "with tenants, such as cohort-256-v0"
        )
    tree, leaf = instance.tenancy
    if len(tree.names) - 1 > shown:
        raise ScenarioError(
            f"tenant_window is {shown}, but the scenario has {len(tree.names) - 1} tenants; show them all"
        )
    if not windows.limits:
        return
    most = tree.limits
    for row in range(1, len(most)):
        most[row] = min(most[row], most[tree.parent[row]])
    gangs = instance.workload.jobs["gpus"]
    beyond = gangs > most[leaf]
    if beyond.any():
        job = int(np.argmax(beyond))
        raise ScenarioError(
            f"limits: job {job} requests {gangs[job]} GPUs, but tenant {tree.names[leaf[job]]!r} may hold "
            f"{most[leaf[job]]}; raise its field most or borrow, or that of a tenant above, or set limits=False"
        )
