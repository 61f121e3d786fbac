"""Data and style of the panels of a workload's figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.problem.workload import Workload
from gpusched_env.support.figures import COLOURS, tidy
from gpusched_env.traces.generators.acceptance import Check
from gpusched_env.traces.generators.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
