"""The figure of a workload: its data, its panels, and the panels together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.metrics import StepFunction
from gpusched_env.problem.workload import Workload
from gpusched_env.support.figures import COLOURS, check_suffix, log_time_axis, save, tidy
from gpusched_env.support.units import unit_for
from gpusched_env.traces.description import GROUPS, by_class, demanded_gpus, has_run_times, largest_groups
from gpusched_env.traces.generators.acceptance import Check
from gpusched_env.traces.generators.bursty import HOUR, WEEK
from gpusched_env.traces.generators.calibration import CLASS_NAMES, RUN_TIME_RANKS, Calibration, demand_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BLUE, ORANGE, GREEN, GREY = COLOURS[0], COLOURS[1], COLOURS[2], "#777777"
# Style of the points that show the published statistics of a log; all panels use this style
PUBLISHED: Final[dict[str, Any]] = {"color": ORANGE, "markerfacecolor": "white", "linestyle": "none", "zorder": 5}


@dataclass(frozen=True)
class Picture:
    """The data of a workload's figure: the workload, and the log and cluster with which it is compared.

    ``start_hour`` : hour of the week, from Monday 0 h, at time 0, NaN = unknown; ``judged`` : the jobs of ``checks``.
    """

    workload: Workload
    calibration: Calibration | None = None
    start_hour: float = math.nan
    cluster_gpus: int | None = None
    checks: Sequence[Check] = ()
    judged: str = ""

    @property
    def arrival_s(self) -> np.ndarray:
        """Arrival times since the first arrival, ascending [s]; float64 [J]."""
        arrival: np.ndarray = np.sort(self.workload.jobs["arrival_s"])
        return arrival - arrival[0]


def finish(axes: Axes, across: str, up: str, columns: int = 3) -> None:
    """Label both axes, and put the legend above the panel, where it hides no data."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    style = {"frameon": False, "fontsize": 9, "handlelength": 1.6, "columnspacing": 1.2, "borderaxespad": 0.2}
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, **style)
    tidy(axes)


def say(axes: Axes, why: str) -> None:
    """Write the reason ``why`` a panel is empty into the panel."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color=GREY)


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the share of values up to and including each of the sorted ``values``; float64, of the same shape."""
    return np.arange(1, len(values) + 1) / len(values)


DAY: Final = 24 * HOUR  # [s]
WIDTHS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800)  # [s] bin widths for spans up to 30 h
MANY: Final = 20_000  # largest number of bins
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def arrivals(axes: Axes, picture: Picture) -> None:
    """Draw the arrivals per hour over time; if they span more than four days, also in bins of a day."""
    arrival = picture.arrival_s
    span = float(arrival[-1])
    if span == 0:
        return say(axes, f"all {len(arrival):,} jobs arrive at once")
    unit = unit_for([span])
    width = next((width for width in WIDTHS if span <= 60 * width), max(HOUR, span / MANY))
    bins = unit_for([2 * width])
    label = "in each hour" if width == HOUR else f"in each {width / bins.seconds:g} {bins.sign}"
    # In a long log, bins are narrower than a pixel; the lines at their edges keep them visible.
    _rate(axes, arrival, width, unit.seconds, fill=True, color=BLUE, linewidth=0.9, label=label)
    if 4 * DAY <= span <= MANY * DAY:
        _rate(axes, arrival, DAY, unit.seconds, color="black", linewidth=1.4, label="in each day")
    axes.axhline(len(arrival) * HOUR / span, color=ORANGE, linestyle="dashed", linewidth=1.6, label="mean")
    axes.set_xlim(0, span / unit.seconds)
    axes.set_ylim(bottom=0)
    return finish(axes, f"time since the first arrival [{unit.sign}]", "arrivals [jobs/h]")


def _rate(axes: Axes, arrival_s: np.ndarray, width_s: float, unit_s: float, **style: Any) -> None:
    """Draw the jobs per hour in bins of equal width."""
    edges = np.append(np.arange(0, arrival_s[-1], width_s), arrival_s[-1])
    rate = np.histogram(arrival_s, edges)[0] * HOUR / np.maximum(np.diff(edges), width_s / 2)
    axes.stairs(rate, edges / unit_s, **style)


def week(axes: Axes, picture: Picture) -> None:
    """Draw the mean number of arrivals in each hour of the week, over the weeks that the workload covers."""
    arrival = picture.arrival_s / HOUR
    dated = not math.isnan(picture.start_hour)
    begin = picture.start_hour if dated else 0.0
    span = float(arrival[-1])
    if span < WEEK:
        return say(axes, "all jobs arrive within a week:\nno weekly pattern to show")
    hours = np.arange(WEEK + 1)
    # How often each hour of the week lies between the first and the last arrival; parts of hours count as fractions.
    passed = [end // WEEK + np.clip(end % WEEK - hours[:-1], 0, 1) for end in (begin, begin + span)]
    rate = np.histogram((arrival + begin) % WEEK, hours)[0] / (passed[1] - passed[0])
    axes.stairs(rate, hours, color=BLUE, fill=True, label="jobs")
    if picture.calibration is not None and dated:
        profile = picture.calibration.hourly_rate * rate.mean() / picture.calibration.hourly_rate.mean()
        axes.stairs(profile, hours, color=ORANGE, linewidth=1.6, baseline=None, label="weekly profile, calibration")
    axes.set_xlim(0, WEEK)
    axes.set_ylim(bottom=0)
    axes.set_xticks(np.arange(0, WEEK, 24), WEEKDAYS if dated else [f"day {i}" for i in range(7)], ha="left")
    across = "hour of the week" if dated else "hours since the first arrival, modulo a week (date unknown)"
    return finish(axes, across, f"arrivals, mean of {span / WEEK:.1f} weeks [jobs/h]")


def gaps(axes: Axes, picture: Picture) -> None:
    """Draw the distribution of the gaps between arrivals, and that of a Poisson process with the same rate."""
    gap = np.sort(np.diff(picture.arrival_s))
    if not len(gap) or gap[-1] == 0:
        return say(axes, f"all {len(gap) + 1:,} jobs arrive at once")
    shortest = max(gap[gap > 0][0], 0.1) / 1.3
    shown = np.concatenate([[shortest], gap[gap > shortest]])
    axes.step(
        shown, np.searchsorted(gap, shown, "right") / len(gap), where="post", color=BLUE, linewidth=2, label="jobs"
    )
    smooth = np.geomspace(shortest, gap[-1] * 1.3, 200)
    poisson = 1 - np.exp(-smooth / gap.mean())
    axes.plot(smooth, poisson, color=GREY, linestyle="dashed", label="Poisson arrivals of this rate")
    if picture.calibration is not None:
        axes.plot(10, picture.calibration.statistics.gaps_to_10s, "o", label="calibration", **PUBLISHED)
    log_time_axis(axes, shortest, gap[-1] * 1.3)
    axes.set_ylim(0, 1.005)
    across = f"gap between arrivals (log scale; {np.mean(gap == 0):.0%} are 0 s)"
    return finish(axes, across, "share of gaps that are no longer")


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


LONGEST: Final = 36  # [characters] longest name of a group
FARTHEST: Final = 3.0  # largest distance from the log on the axis, in units of the bound


def groups(axes: Axes, picture: Picture) -> None:
    """Draw the shares of the largest groups of jobs in jobs and GPU time, by the first of GROUPS that there is."""
    attribute = next((name for name in GROUPS if name in picture.workload.attributes), None)
    if attribute is None:
        return say(axes, "the jobs have no users, virtual clusters or models")
    parts, count = largest_groups(picture.workload, attribute)
    place = np.arange(len(parts))
    shares = {"jobs": [part.share for part in parts]}
    if has_run_times(picture.workload):
        shares["GPU time"] = [part.gpu_time for part in parts]
    height = 0.8 / len(shares)
    for number, (label, values) in enumerate(shares.items()):
        offset = (number - (len(shares) - 1) / 2) * height
        axes.barh(place + offset, 100 * np.array(values), height, color=(BLUE, GREEN)[number], label=label)
    names = [part.name or "(none)" for part in parts]
    short = [name if len(name) <= LONGEST else name[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}" for name in names]
    axes.set_yticks(place, short, parse_math=False, fontsize=8)
    axes.invert_yaxis()
    what = attribute.replace("_", " ")
    finish(axes, "share [%]", what if count == len(parts) else f"{what}, {len(parts)} largest of {count:,}")
    return axes.grid(visible=False, axis="y")


def nearness(axes: Axes, picture: Picture) -> None:
    """Draw the distance of each statistic from that of the log, divided by its bound."""
    told = [check for check in picture.checks if not math.isnan(check.measured)]
    if not told:
        return say(axes, "no log to compare with:\n--calibration chooses one")
    place = np.arange(len(told))
    distance = np.array([check.distance for check in told])
    passed = np.abs(distance) <= 1
    axes.axvspan(-1, 1, color="#e8e8e8", label="within its bound")
    for chosen, colour, label in ((passed, BLUE, "within"), (~passed, ORANGE, "beyond")):
        if chosen.any():
            shown = np.clip(distance[chosen], -FARTHEST, FARTHEST)
            axes.plot(shown, place[chosen], "o", color=colour, markersize=5, label=f"{label}: {chosen.sum()}")
    axes.set_xlim(-1.05 * FARTHEST, 1.05 * FARTHEST)
    axes.set_yticks(place, [check.name for check in told], fontsize=7)
    axes.invert_yaxis()
    return finish(axes, f"distance from the log, in bounds (cut at {FARTHEST:g})\n{picture.judged}", "statistic")


PANELS: Final[dict[str, Callable[[Axes, Picture], None]]] = {
    "arrivals": arrivals,
    "week": week,
    "gaps": gaps,
    "nearness": nearness,
    "demand": demand,
    "run-times": run_times,
    "load": load,
    "groups": groups,
}


def plot_workload(picture: Picture, path: str | Path | None = None, title: str = "") -> Figure:
    """Draw all panels in one figure."""
    if path is not None:
        check_suffix(path)
    # Figure is used instead of pyplot, which needs a backend and keeps figures open.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(22, 9.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
    for axes, draw in zip(figure.subplots(2, 4).flat, PANELS.values(), strict=True):
        draw(axes, picture)
    if title:
        figure.suptitle(title)
    if path is not None:
        save(figure, path)
    return figure


def plot_panels(picture: Picture, folder: str | Path, title: str = "") -> list[Path]:
    """Draw each panel into a file of its own, ``NAME.png`` for each name in PANELS, and return the paths."""
    from matplotlib.figure import Figure

    written = []
    for name, draw in PANELS.items():
        figure = Figure(figsize=(7.5, 4.8), layout="constrained")
        draw(figure.subplots(), picture)
        if title:
            figure.suptitle(title, fontsize=10)
        written.append(Path(folder) / f"{name}.png")
        save(figure, written[-1])
    return written
