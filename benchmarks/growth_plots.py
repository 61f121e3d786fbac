"""A figure: how the cost of an event, and of an environment's step, grows with jobs, GPUs, waiting jobs and links.

    python benchmarks/growth_plots.py [--output docs/performance] [--repeats 3] [--quick]

There are four sweeps, each of one parameter:

- the number of jobs of a trace, on 2,000 GPUs;
- the number of GPUs, with 50,000 jobs;
- the number of waiting jobs, which all arrive at time 0, on 64 GPUs;
- the number of links of a leaf-spine network, with 20,000 jobs and max-min fair rates.

Each point of a sweep is measured for replays by FIFO, SRTF and Tiresias, as in growth.py, and for a batch of 32
environments on one thread that play random feasible actions on the same number of GPUs. The jobs of the environments
are like Philly's, 1,000 of them in the sweep of GPUs. In the sweep of waiting jobs, all arrive at time 0; in the sweep
of links, the jobs are those of leaf-spine-2048-v1. Times are CPU microseconds, after compilation; medians over repeats.
Writes growth.png and growth.json.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from growth import contended
from machine import machine, versions
from poisson_jobs import MACHINE, RACK, poisson
from rich.console import Console
from rich.table import Table
from vector import random_actions

from gpusched_env import get_scenario, make_scheduler, simulate
from gpusched_env.network import compiled_links
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.support.commands import run_script
from gpusched_env.support.figures import COLOURS, DASHES, save, tidy

SCHEDULERS: Final = ("fifo", "srtf", "tiresias")
STEP: Final = "step of a batch"
LINES: Final = dict.fromkeys(SCHEDULERS, "event: {}") | {STEP: "step of an environment in a batch"}
MARKERS: Final = "osD^"
SHRINK: Final = 16  # --quick leaves out sizes above the largest of a sweep / this


@dataclass
class Settings:
    """Measure growth and draw it."""

    output: Path = Path("docs/performance")
    """Folder of growth.png and growth.json."""
    repeats: int = 3
    """Repeats; the median is reported."""
    environments: int = 32
    """Environments of a batch."""
    steps: int = 200
    """Calls of ``step`` in one repeat."""
    quick: bool = False
    """Leave out the largest sizes."""


@dataclass(frozen=True)
class Sweep:
    """A sweep: its sizes, the instance that schedulers replay, and the scenario that environments play."""

    heading: str
    axis: str
    sizes: tuple[int, ...]
    instance: Callable[[int], Instance]
    scenario: Callable[[int], Scenario]
    largest_batch: int  # largest size with a batch: beyond it the arrays would be too large
    x: Callable[[int], float] = float


def cluster(gpus: int) -> Cluster:
    """Machines of eight GPUs, 25 to a rack."""
    return Cluster.homogeneous(gpus // MACHINE, MACHINE, RACK)


def burst(jobs: int, gpus: int = 64) -> Instance:
    """Draw jobs that all arrive at time 0."""
    later = poisson(jobs, gpus, 0).workload.jobs
    workload = Workload.from_columns(np.zeros(jobs), later["gpus"], later["duration_s"])
    return Instance(cluster(gpus), workload, None, Semantics(checkpoint_s=0.0, restore_s=0.0))


def arriving(jobs: int, gpus: int) -> Scenario:
    """Jobs like Philly's at load 0.95."""
    return Scenario(
        "growth", "", cluster(gpus).groups, WorkloadSpec("synthetic:philly", jobs=jobs, max_gpus=32, load=0.95)
    )


def waiting(jobs: int, gpus: int = 64) -> Scenario:
    """Jobs that all arrive at time 0."""
    return Scenario("growth", "", cluster(gpus).groups, WorkloadSpec("synthetic:batch", jobs=jobs, max_gpus=32))


def linked(gpus: int) -> Scenario:
    """The jobs and links of leaf-spine-2048-v1 on another number of GPUs."""
    return get_scenario("leaf-spine-2048-v1").with_cluster(cluster(gpus))


def links(gpus: int) -> float:
    """Number of links of the network of ``gpus`` GPUs."""
    instance = contended(1, gpus, 0)
    return float(len(compiled_links(instance.network, instance.cluster)[1]))


SWEEPS: Final = (
    Sweep(
        "jobs of a trace, 2,000 GPUs", "jobs", (1_000, 4_000, 16_000, 64_000, 256_000),
        lambda jobs: poisson(jobs, 2_000, 0), lambda jobs: arriving(jobs, 2_000), 16_000,
    ),
    Sweep(
        "GPUs, 50,000 jobs", "GPUs", (64, 256, 1_024, 4_096, 16_384),
        lambda gpus: poisson(50_000, gpus, 0), lambda gpus: arriving(1_000, gpus), 16_384,
    ),
    Sweep(
        "jobs that wait at time 0 for 64 GPUs", "jobs", (256, 1_024, 4_096, 16_384), burst, waiting, 16_384,
    ),
    Sweep(
        "links, max-min fair, 20,000 jobs", "links", (200, 400, 800, 1_600, 3_200, 6_400, 12_800),
        lambda gpus: contended(20_000, gpus, 0), linked, 12_800, links,
    ),
)  # fmt: skip


def event_us(instance: Instance, scheduler: str, repeats: int) -> float:
    """CPU microseconds per event."""
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        log = simulate(instance, make_scheduler(scheduler))
        taken.append(1e6 * (time.process_time() - begin) / len(log.events))
    return statistics.median(taken)


def step_us(scenario: Scenario, settings: Settings) -> float:
    """CPU microseconds per step of one environment of a batch, including the resets at the beginnings of episodes."""
    envs = gymnasium.make_vec(
        "gpusched/Cluster-v0", num_envs=settings.environments, scenario=scenario, copy=False, threads=1, keep_logs=False
    )
    rng, infos, taken = np.random.default_rng(0), envs.reset(seed=0)[1], []
    for _ in range(settings.repeats):
        spent = 0.0
        for _ in range(settings.steps):
            actions = random_actions(infos["action_mask"], rng)
            begin = time.process_time()
            infos = envs.step(actions)[-1]
            spent += time.process_time() - begin
        taken.append(1e6 * spent / settings.steps / settings.environments)
    envs.close()
    return statistics.median(taken)


def measure(sweep: Sweep, settings: Settings) -> Iterator[tuple[str, float, float]]:
    """Yield (line, x, microseconds) of a sweep."""
    sizes = [size for size in sweep.sizes if not settings.quick or size <= sweep.sizes[-1] // SHRINK]
    simulated = sweep.instance(sizes[0])
    for scheduler in SCHEDULERS:
        simulate(simulated, make_scheduler(scheduler))  # compile
    for size in sizes:
        instance = sweep.instance(size)
        for scheduler in SCHEDULERS:
            yield scheduler, sweep.x(size), event_us(instance, scheduler, settings.repeats)
        if size <= sweep.largest_batch:
            yield STEP, sweep.x(size), step_us(sweep.scenario(size), settings)


def draw(found: dict[str, list[tuple[str, float, float]]], path: Path) -> None:
    """Draw all sweeps with a common vertical axis."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    figure = Figure(figsize=(10.0, 6.4), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True).flat
    for axes, sweep in zip(panels, SWEEPS, strict=True):
        for i, (name, label) in enumerate(LINES.items()):
            points = [(x, us) for line, x, us in found[sweep.heading] if line == name]
            axes.plot(
                *zip(*points, strict=True), color=COLOURS[i], linestyle=DASHES[i], marker=MARKERS[i], markersize=5,
                label=label.format(name),
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(sweep.axis)
        axes.set_title(sweep.heading, loc="left", fontsize=11)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.minorticks_off()
        tidy(axes)
    figure.supylabel("CPU time [µs]", fontsize=11)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(LINES), frameon=False)
    save(figure, path)


def main(settings: Settings) -> None:
    """Measure, print, draw and save."""
    console, found = Console(width=100), {}
    for sweep in SWEEPS:
        found[sweep.heading] = points = list(measure(sweep, settings))
        table = Table(title=f"CPU microseconds: {sweep.heading}", title_justify="left")
        for heading in (sweep.axis, *LINES):
            table.add_column(heading, justify="right")
        for x in dict.fromkeys(x for _, x, _ in points):
            row = {line: f"{us:.2f}" for line, at, us in points if at == x}
            table.add_row(f"{x:,.0f}", *(row.get(line, "") for line in LINES))
        console.print(table)
    draw(found, settings.output / "growth.png")
    data: dict[str, Any] = {"machine": machine(), "versions": versions(), "sweeps": found}
    (settings.output / "growth.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
