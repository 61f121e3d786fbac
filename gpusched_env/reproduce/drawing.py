"""What figures of reproductions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure [inch] whose parts make room for each other."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Label a vertical axis at those of the values that are in sight, and nowhere else."""
    low, high = axes.get_ylim()
    shown = [value for value in values if low <= value <= high]
    axes.set_yticks(shown, [f"{value:,g}" for value in shown])
    axes.minorticks_off()


def legend_above(figure: Figure, axes: Axes, columns: int) -> None:
    """Put the legend of one panel above all of them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
