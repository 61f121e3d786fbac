"""Panels of a workload's figure that show when jobs arrive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.evaluation.picture import BLUE, GREY, ORANGE, PUBLISHED, Picture, finish, say
from gpusched_env.support.figures import log_time_axis
from gpusched_env.support.units import unit_for
from gpusched_env.traces.generators.bursty import HOUR, WEEK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
