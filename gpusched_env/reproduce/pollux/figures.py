"""Figures: mean JCT by workload, and by load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.reproduce.drawing import legend_above, new_figure
from gpusched_env.reproduce.pollux.published import AT_LOAD_S, LOADS, MEAN_JCT_S, WORKLOADS
from gpusched_env.reproduce.results import Results
from gpusched_env.support.figures import COLOURS, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOUR_S: Final = 3_600.0  # [s]


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw the workloads and, if they were played, the loads."""
    figure = new_figure(10.5, 4.6)
    workloads, loads = figure.subplots(1, 2, width_ratios=(2.2, 1))
    for number, (policy, stored) in enumerate(MEAN_JCT_S.items()):
        ours = np.array([results.median("mean_jct_s", policy=policy, workload=w, load=1.0) for w in WORKLOADS])
        known = np.flatnonzero(np.isfinite(ours))
        x = np.arange(len(WORKLOADS)) + 0.2 * (number - 1.5)
        if len(known):
            workloads.bar(x[known], ours[known] / HOUR_S, 0.18, color=COLOURS[number], label=f"{policy}, ours")
            workloads.plot(
                x[known],
                np.array(stored)[known] / HOUR_S,
                linestyle="none",
                marker="_",
                markersize=14,
                markeredgewidth=2,
                color="#222222",
                label="published" if number == 0 else None,
            )
    workloads.set_xticks(range(len(WORKLOADS)), [f"{w}" for w in WORKLOADS])
    workloads.set_xlabel("workload")
    workloads.set_ylabel("mean JCT [h]")
    tidy(workloads)
    _by_load(results, loads)
    legend_above(figure, workloads, 5)
    path = folder / "mean_jct.png"
    save(figure, path)
    return [path]


def _by_load(results: Results, axes: Axes) -> None:
    """Draw the first workload at each load: ours solid, published dotted."""
    points = (LOADS[0], 1.0, *LOADS[1:])
    for number, (policy, stored) in enumerate(AT_LOAD_S.items()):
        ours = [results.median("mean_jct_s", policy=policy, workload=1, load=load) / HOUR_S for load in points]
        told = np.array([stored[0], MEAN_JCT_S[policy][0], *stored[1:]]) / HOUR_S
        axes.plot(points, ours, color=COLOURS[number], marker="o", markersize=4)
        axes.plot(points, told, color=COLOURS[number], linestyle="dotted", linewidth=1.4)
    axes.set_xticks(points)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("load of workload 1; dotted: published")
    tidy(axes)
