"""Figures of a workload: one figure with all panels, or one file for each panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.evaluation.picture import Picture
from gpusched_env.evaluation.workload_panels import arrivals, demand, gaps, groups, load, nearness, run_times, week
from gpusched_env.support.figures import check_suffix, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
