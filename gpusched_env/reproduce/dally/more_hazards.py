"""Further hazards: GPUs that leak, jobs that starve, and skew that is mistaken for sensitivity to the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.baselines.dally.state import LOW_SKEW
from gpusched_env.metrics import held_gpus, job_times, mean_interval
from gpusched_env.network.dimensions import dimensions
from gpusched_env.reproduce.dally.authors import AuthorsCell
from gpusched_env.reproduce.dally.cells import Cell, Conditions
from gpusched_env.reproduce.drawing import new_figure, shade
from gpusched_env.reproduce.report import FEWEST
from gpusched_env.support.figures import COLOURS, tidy
from gpusched_env.traces.profile_tables import load_efficiency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance
    from gpusched_env.reproduce.card import Measure
    from gpusched_env.reproduce.results import Results

HOUR: Final = 3_600.0  # [s]
SAMPLES_H: Final = (1, 3, 6, 12, 24, 48, 96, 192, 384, 768, 1_536, 3_072, 6_144, 12_288)
LEAK_CELL: Final = AuthorsCell("nvswitch", "poisson")
PRESETS: Final = ("authors", "authors_published")  # only the second has the leak, quirk Q1 (docs/dally.md, Presets)
STARVING: Final = Cell("poisson", load=1.1)
ASKED_BY: Final = {"nw": "by Nw", "arrival": "by arrival"}
# Placements of a gang of eight on two slots, with four GPUs on each: (racks, machines, slots).
PLACES: Final = {"a machine": (1, 1, 2), "a rack, 4 + 4": (1, 2, 2), "two racks, 4 + 4": (2, 2, 2)}
GANG: Final = 8  # [GPU]
Measured = tuple[Conditions, dict[str, Any], str, "Measure | None"]


def leak_labels(preset: str) -> dict[str, Any]:
    """Labels of the runs with and without the leak."""
    return {**LEAK_CELL.labels, "policy": "leak", "order": "asc", "rules": preset}


def starving_labels(priority: str) -> dict[str, Any]:
    """Labels of the runs that differ in the order in which jobs are asked."""
    return {**STARVING.labels, "policy": "priority", "order": "asc", "rules": priority}


def more_hazard_runs() -> Iterator[Measured]:
    """Yield cell, labels, spec and measure of each run; a quick call includes all of these few runs."""
    for preset in PRESETS:
        yield LEAK_CELL, leak_labels(preset), f"dally:preset={preset}", measure_leak
    for priority in ASKED_BY:
        yield STARVING, starving_labels(priority), f"dally:priority={priority}", measure_starving


def measure_leak(instance: Instance, log: EventLog, scheduler: str) -> dict[str, float]:
    """Measure the GPUs that are leased, and those of them that work, at SAMPLES_H.

    Returns
    -------
    leased_at_1h ..., working_at_1h ... : fractions of the cluster's GPUs

    Notes
    -----
    The event log does not show leaked GPUs. So the run is repeated, and leaked GPUs are read from the scheduler.
    """
    player = make_scheduler(scheduler)
    assert isinstance(player, Dally)
    run, working, found = DelayRun(instance, player), held_gpus(instance, log), {}
    for hours in SAMPLES_H:
        run.play(hours * HOUR)
        leaked = int((run.delay.leaker >= 0).sum())
        at_work = float(working.at(hours * HOUR))
        found[f"leased_at_{hours}h"] = (at_work + leaked) / instance.cluster.gpus
        found[f"working_at_{hours}h"] = at_work / instance.cluster.gpus
    return found


def measure_starving(instance: Instance, log: EventLog, scheduler: str) -> dict[str, float]:
    """Measure, for each model, how sensitive its jobs are to the network, and how long they wait.

    Returns
    -------
    nw_MODEL, queueing_MODEL : over the jobs of a model, computing / running time and queueing / running time
    """
    del scheduler
    times, profiles, found = job_times(instance, log), instance.workload.profiles.rows["name"], {}
    for row in np.unique(instance.workload.jobs["profile"]):
        own = times[instance.workload.jobs["profile"] == row]
        service_s = own["service_s"].sum()
        found[f"nw_{profiles[row]}"] = float(1 - own["communication_s"].sum() / service_s)
        found[f"queueing_{profiles[row]}"] = float(own["queueing_s"].sum() / service_s)
    return found


def draw_more_hazards(results: Results) -> Figure:
    """Draw the three hazards."""
    figure = new_figure(14, 5)
    leak, starving, skew = figure.subplots(1, 3)
    _draw_leak(leak, results)
    _draw_starving(starving, results)
    _draw_skew(skew)
    for axes in (leak, starving, skew):
        axes.legend(fontsize=8, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        tidy(axes)
    return figure


def _draw_leak(axes: Axes, results: Results) -> None:
    for preset, colour in zip(PRESETS, COLOURS, strict=False):
        for what, style in (("leased", "dashed"), ("working", "solid")):
            at = [results.values(f"{what}_at_{hours}h", **leak_labels(preset)) for hours in SAMPLES_H]
            found = [mean_interval(100 * values) for values in at]
            means = [interval.mean for interval in found]
            axes.plot(SAMPLES_H, means, color=colour, linestyle=style, label=f"{preset}: {what}")
            shade(axes, SAMPLES_H, found, colour)
    axes.set_xscale("log")
    axes.set_ylim(0, 105)
    axes.set_title(f"3  leak of quirk Q1 ({LEAK_CELL})", fontsize=10, loc="left")
    axes.set_xlabel("time [h], log scale")
    axes.set_ylabel("GPUs of the cluster [%]")


def _draw_starving(axes: Axes, results: Results) -> None:
    usual = results.where(**starving_labels("nw"))
    played = [set(run.metrics) for run in results.where(policy="priority").runs]  # runs with few jobs may lack a model
    names = [name.removeprefix("nw_") for name in sorted(set.intersection(*played)) if name.startswith("nw_")]
    sensitivity = {name: float(usual.values(f"nw_{name}").mean()) for name in names}
    models = sorted(names, key=lambda name: sensitivity[name])
    for number, (priority, colour) in enumerate(zip(ASKED_BY, COLOURS, strict=False)):
        x = np.arange(len(models)) + 0.2 * (number - 0.5)
        own = starving_labels(priority)
        waits = [mean_interval(results.values(f"queueing_{model}", **own)) for model in models]
        label = f"asked {ASKED_BY[priority]}"
        axes.plot(x, [i.mean for i in waits], linestyle="none", marker="o", color=colour, label=label)
        if all(i.count >= FEWEST for i in waits):
            axes.vlines(x, [i.low for i in waits], [i.high for i in waits], color=colour, alpha=0.4)
    ticks = [f"{name}\n{sensitivity[name]:.2f}" for name in models]
    axes.set_xticks(range(len(models)), ticks, fontsize=7, rotation=30)
    axes.set_ylim(bottom=0)
    axes.set_title(f"5  starvation by Nw ({STARVING})", fontsize=10, loc="left")
    axes.set_xlabel("model, and computing / running time of its jobs")
    axes.set_ylabel("queueing / running time")


def _draw_skew(axes: Axes) -> None:
    models = load_efficiency("dally").models
    by_rule = sorted(models, key=lambda name: (name.lower() not in LOW_SKEW, models[name].skew))
    for (place, parts), colour, marker in zip(PLACES.items(), COLOURS, "s_o", strict=False):
        shape = dimensions(GANG, *parts)
        found = [models[name].efficiency[LEAK_CELL.network][shape] for name in by_rule]
        axes.plot(found, linestyle="none", marker=marker, markersize=9, markeredgewidth=2, color=colour, label=place)
    low = sum(name.lower() in LOW_SKEW for name in models)
    axes.axvspan(-0.5, low - 0.5, color="#999999", alpha=0.18, linewidth=0, label='"low skew": may be scattered')
    axes.set_xlim(-0.5, len(models) - 0.5)
    axes.set_yscale("log")
    axes.set_xticks(range(len(models)), [f"{name}\n{models[name].skew:.2f}" for name in by_rule], fontsize=7.5)
    axes.set_title("7  skew is not sensitivity (gang of 8)", fontsize=10, loc="left")
    axes.set_xlabel("model, and its skew: largest layer / all layers")
    axes.set_ylabel("efficiency: computing / iteration, log scale")
