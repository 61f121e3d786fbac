"""Schedules of small workloads, drawn for the pages of the schedulers: FIFO above, the scheduler below."""

from __future__ import annotations

import dataclasses
import functools
import math
from pathlib import Path

from gpusched_env import Instance, make_scheduler, simulate
from gpusched_env.baselines.registry import Baseline
from gpusched_env.evaluation.schedule_panel import draw_schedule
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import summarise
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.support.figures import save
from gpusched_env.support.units import unit_for

SEED = 200_002
# Small enough that each bar is seen, busy enough that schedulers differ.
TIMERS = "timers.png"
SMALL_NAME = "40 network-sensitive gangs on 16 GPUs in two racks"
TENANTS_NAME = "40 gangs of three tenants on 16 GPUs in two racks"


def _small(max_gpus: int = 8) -> Scenario:
    scenario = get_scenario("dally-poisson-v1")
    jobs = dataclasses.replace(scenario.workload, jobs=40, load=0.9, max_gpus=max_gpus)
    return scenario.replace(name=SMALL_NAME, groups=(NodeGroup(4, 4, nodes_per_rack=2),), workload=jobs)


def _tenants() -> Scenario:
    # No gang is larger than the quota of its tenant, which hived would refuse.
    tree = (Tenant("a", quota=8, demand=3.0), Tenant("b", quota=4, demand=1.0), Tenant("c", quota=4, demand=1.0))
    return _small(max_gpus=4).replace(name=TENANTS_NAME, tenants=Tenants(tree))


def _scenario_name(baseline: Baseline) -> str:
    if "sharing" in baseline.needs:
        return "bsbf-physical-30-v1"
    if "deadlines" in baseline.needs:
        return "elasticflow-v0:jobs=40"
    if {"tenants", "quotas"} & set(baseline.needs):
        return TENANTS_NAME
    if "sizes" in baseline.needs:
        return "pollux-64-v0:jobs=40"
    if "hadare" in baseline.target:
        return "hadare-lab-v0"
    return "hadar-60gpu-v1:jobs=60" if "types" in baseline.needs else SMALL_NAME


@functools.cache
def _problem(name: str) -> Instance:
    own = {SMALL_NAME: _small, TENANTS_NAME: _tenants}
    scenario = own[name]() if name in own else get_scenario(name)
    return scenario.instance(SEED)


@functools.cache
def _played(scenario: str, scheduler: str) -> EventLog:
    return simulate(_problem(scenario), make_scheduler(scheduler))


def draw(name: str, baseline: Baseline, path: Path) -> None:
    """Draw the schedule of a scheduler below that of FIFO."""
    _draw(_scenario_name(baseline), ("fifo", name), path)


def draw_timers(path: Path) -> None:
    """Draw what the shortest and the longest delay timers do to a schedule."""
    _draw(SMALL_NAME, ("dally-no-wait", "dally-fully-consolidated"), path)


def _draw(scenario: str, schedulers: tuple[str, ...], path: Path) -> None:
    """Draw schedules of one workload, one below the other, if the file is not there yet."""
    if path.exists():
        return
    from matplotlib.figure import Figure

    logs = {spec: _played(scenario, spec) for spec in dict.fromkeys(schedulers)}
    figure = Figure(figsize=(9, 2.6 * len(logs) + 0.4), layout="constrained")
    panels = figure.subplots(len(logs), 1, sharex=True, squeeze=False)[:, 0]
    instance = _problem(scenario)
    end_s = max(float(log.events["time_s"].max()) for log in logs.values())
    unit = unit_for([end_s])
    for axes, (spec, log) in zip(panels, logs.items(), strict=True):
        draw_schedule(axes, instance, log, 0.0, unit.seconds)
        metrics = summarise(instance, log)
        mean_jct, makespan = metrics["mean_jct_s"] / unit.seconds, metrics["makespan_s"] / unit.seconds
        last = "some jobs refused" if math.isnan(makespan) else f"makespan {makespan:.2f} {unit.sign}"
        title = f"{spec}: mean JCT {mean_jct:.2f} {unit.sign}, {last}"
        axes.set_title(title, fontsize=10, loc="left")
        axes.autoscale_view(scaley=False)
    panels[-1].set_xlim(0, end_s / unit.seconds)
    panels[-1].set_xlabel(f"time [{unit.sign}]")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def preempts(name: str, baseline: Baseline) -> bool:
    """Tell whether the scheduler preempted a job in its picture."""
    scenario = _scenario_name(baseline)
    return summarise(_problem(scenario), _played(scenario, name))["preemptions_per_job"] > 0


def caption(name: str, baseline: Baseline) -> str:
    """Say what the picture shows."""
    scenario = _scenario_name(baseline)
    what = scenario if scenario in (SMALL_NAME, TENANTS_NAME) else f"the jobs of `{scenario}`"
    return f"The same workload under `fifo` and under `{name}`: {what}. A colour is a job; hatched: no progress."
