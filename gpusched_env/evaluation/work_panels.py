"""Panels of a workload's figure that show GPU demands, run times and the total demand over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.evaluation.picture import BLUE, GREEN, GREY, ORANGE, PUBLISHED, Picture, finish, ranks, say
from gpusched_env.metrics import StepFunction
from gpusched_env.support.figures import log_time_axis
from gpusched_env.support.units import unit_for
from gpusched_env.traces.description import by_class, demanded_gpus, has_run_times
from gpusched_env.traces.generators.calibration import CLASS_NAMES, RUN_TIME_RANKS, demand_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW: Final = 50  # a demand class with fewer jobs gets no line
BINS: Final = 400  # with more steps, means over bins are drawn; a line that changes in every pixel is a grey block


def demand(axes: Axes, picture: Picture) -> None:
    """Draw the share of each demand class in the number of jobs and in GPU time."""
    parts = {part.name: part for part in by_class(picture.workload)[:-1]}
    place = np.arange(len(CLASS_NAMES))
    shares = {"jobs": [parts[name].share if name in parts else 0.0 for name in CLASS_NAMES]}
    if has_run_times(picture.workload):
        shares["GPU time"] = [parts[name].gpu_time if name in parts else 0.0 for name in CLASS_NAMES]
    width = 0.8 / len(shares)
    for number, (label, values) in enumerate(shares.items()):
        centre = place + (number - (len(shares) - 1) / 2) * width
        bars = axes.bar(centre, 100 * np.array(values), width, color=(BLUE, GREEN)[number], label=label)
        texts = [f"{100 * value:.{0 if value > 0.0995 else 1}f}" if value >= 0.0005 else "" for value in values]
        axes.bar_label(bars, texts, fontsize=7, padding=3)
    if picture.calibration is not None:
        published = picture.calibration.statistics.class_share
        log = [100 * published.get(name, np.nan) for name in CLASS_NAMES]
        axes.plot(place - (len(shares) - 1) / 2 * width, log, "o", label="jobs, calibration", **PUBLISHED)
    axes.set_xticks(place, CLASS_NAMES)
    finish(axes, "demand [GPU]", "share [%]")
    axes.grid(visible=False, axis="x")


def run_times(axes: Axes, picture: Picture) -> None:
    """Draw the distribution of run times, of all jobs and by demand class; of iterations if jobs have no run times."""
    timed = has_run_times(picture.workload)
    work = picture.workload.jobs["duration_s" if timed else "iterations"]
    if np.isnan(work).any():
        return say(axes, "some jobs give run times, others iterations:\n--cluster turns iterations into run times")
    calibration = picture.calibration if timed else None
    kind = demand_class(picture.workload.jobs["gpus"])
    shown = [number for number in range(len(CLASS_NAMES)) if (kind == number).sum() >= FEW]
    for number, shade in zip(shown, _shades(len(shown)), strict=True) if len(shown) > 1 else ():
        values, name = np.sort(work[kind == number]), CLASS_NAMES[number]
        axes.step(values, ranks(values), where="post", color=shade, linewidth=1.3, label=f"{name} GPU")
        if calibration is not None and name in calibration.run_time:
            rank, quantile = zip(*calibration.run_time[name][1:-1], strict=True)
            axes.plot(quantile, rank, ".", color=shade, markersize=5)
    values = np.sort(work)
    axes.step(values, ranks(values), where="post", color="black", linewidth=2.4, label="all")
    if calibration is not None:
        log = calibration.statistics.run_time
        axes.plot(log, RUN_TIME_RANKS, "o", markersize=5, label="all, calibration", **PUBLISHED)
        axes.plot([], [], ".", color=GREY, label="class, calibration")
    axes.set_ylim(0, 1.005)
    if timed:
        log_time_axis(axes, values[0] / 1.3, values[-1] * 1.3)
        return finish(axes, "run time (log scale)", "share of jobs that run no longer", columns=4)
    axes.set_xscale("log")
    return finish(axes, "iterations (log scale); run times depend on the cluster", "share of jobs up to so many", 4)


def load(axes: Axes, picture: Picture) -> None:
    """Draw the number of GPUs that would be in use over time if every job started on arrival."""
    if not has_run_times(picture.workload):
        return say(axes, "jobs give iterations:\ntheir run times depend on the cluster (--cluster)")
    times, gpus = demanded_gpus(picture.workload)
    edges = times if len(times) <= BINS else np.linspace(times[0], times[-1], BINS + 1)
    values = gpus[:-1] if len(times) <= BINS else StepFunction(times, gpus).binned(edges)
    unit = unit_for([times[-1] - times[0]])
    axes.stairs(values, (edges - times[0]) / unit.seconds, fill=True, color=BLUE, linewidth=0.5, label="demanded")
    last = float(picture.arrival_s[-1]) / unit.seconds
    if last > 0:
        mean = float(StepFunction(times, gpus).integral(times[-1])) / (last * unit.seconds)
        label = f"all work / time of arrivals: {mean:,.0f}"
        axes.plot([0, last], [mean, mean], color=ORANGE, linestyle="dashed", linewidth=1.6, label=label)
        axes.axvline(last, color=GREY, linewidth=1.2, linestyle=(0, (2, 2)), label="last arrival")
    if picture.cluster_gpus is not None:
        axes.axhline(picture.cluster_gpus, color="black", linewidth=1.4, label=f"cluster: {picture.cluster_gpus:,}")
    axes.set_xlim(0, (times[-1] - times[0]) / unit.seconds)
    axes.set_ylim(bottom=0)
    return finish(axes, f"time since the first arrival [{unit.sign}]", "GPUs in use if no job waited", columns=2)


def _shades(count: int) -> list[tuple[float, ...]]:
    """Return colours from dark to light for ordered classes, without the palest; they differ in greyscale."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.92 * i / max(count - 1, 1)) for i in range(count)]
