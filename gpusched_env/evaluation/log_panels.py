"""Panels of a workload's figure that show groups of jobs, and how close its statistics are to those of a log."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.evaluation.picture import BLUE, GREEN, ORANGE, Picture, finish, say
from gpusched_env.traces.description import GROUPS, has_run_times, largest_groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
