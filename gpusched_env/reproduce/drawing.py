"""Helpers for the figures of reproductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.metrics import Interval
from gpusched_env.reproduce.report import FEWEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEWEST_TICKS: Final = 3


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure [inch] with automatic layout."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Put ticks on the vertical axis at the values that are in its range, or at round numbers if too few values are."""
    from matplotlib.ticker import MaxNLocator

    low, high = axes.get_ylim()
    shown = [value for value in values if low <= value <= high]
    if len(shown) < FEWEST_TICKS:
        shown = [float(value) for value in MaxNLocator(5).tick_values(low, high) if low <= value <= high]
    axes.set_yticks(shown, [f"{value:,g}" for value in shown])
    axes.minorticks_off()


def legend_above(figure: Figure, axes: Axes, columns: int) -> None:
    """Put the legend of one panel above all panels, in ``columns`` columns or as many as fit."""
    handles, labels = axes.get_legend_handles_labels()
    for fewer in range(columns, 0, -1):
        legend = figure.legend(handles, labels, loc="outside upper center", ncols=fewer, frameon=False)
        if fewer == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()


def shade(axes: Axes, x: Sequence[float] | np.ndarray, found: Sequence[Interval], colour: str) -> None:
    """Shade the intervals along a line, unless an interval is computed from fewer than three values."""
    if all(interval.count >= FEWEST for interval in found):
        low, high = [interval.low for interval in found], [interval.high for interval in found]
        axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
