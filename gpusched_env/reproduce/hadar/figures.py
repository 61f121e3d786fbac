"""Figures: total duration against mean JCT, the gain of forking by the number of jobs, slot lengths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.reproduce.hadar.settings import NODES, POLICIES, RIVALS, SETTINGS, SLOTS_S, of_policy, of_slot
from gpusched_env.reproduce.hadar.tables import HOUR, factor, mixes
from gpusched_env.reproduce.results import Results
from gpusched_env.support.figures import COLOURS, save, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure."""
    figures = {
        "policies.png": _policies(results), "forking.png": _forking(results), "slot_lengths.png": _slots(results)
    }  # fmt: skip
    for name, figure in figures.items():
        save(figure, folder / name)
    return [folder / name for name in figures]


def _new(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _policies(results: Results) -> Figure:
    """One panel per setting, one point per policy."""
    figure = _new(11, 4.5)
    for axes, setting in zip(figure.subplots(1, 2), SETTINGS, strict=True):
        for policy, colour in zip(POLICIES, COLOURS, strict=False):
            x, y = (
                results.values(metric, **of_policy(setting, policy)).mean() / HOUR
                for metric in ("makespan_s", "mean_jct_s")
            )
            axes.scatter(x, y, color=colour, label=policy)
        axes.set(xlabel="total duration [h]", ylabel="mean JCT [h]", title=setting)
        tidy(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _forking(results: Results) -> Figure:
    """One panel per cluster, one line per rival."""
    figure = _new(11, 4)
    for axes, (cluster, nodes) in zip(figure.subplots(1, 2), NODES.items(), strict=True):
        jobs = mixes(results.where(part="hadare", cluster=cluster))
        for rival, colour in zip(RIVALS, COLOURS, strict=False):
            medians = [np.median(factor(results, cluster, m, rival)) for m in jobs]
            axes.plot(jobs, medians, marker="o", color=colour, label=rival)
        axes.axhline(1.0, color="0.5", linewidth=0.8)
        axes.set(xlabel="jobs", ylabel="total duration / HadarE's", title=f"{cluster}, {nodes} nodes", xticks=jobs)
        tidy(axes)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _slots(results: Results) -> Figure:
    """One line per mix: total duration / that with the best slot length."""
    figure = _new(6, 4)
    axes = figure.subplots()
    for m, colour in zip(mixes(results.where(part="slots")), COLOURS, strict=False):
        spans = np.array([results.median("makespan_s", **of_slot(m, slot_s)) for slot_s in SLOTS_S])
        axes.plot(SLOTS_S, spans / spans.min(), marker="o", color=colour, label=f"{m} jobs")
    axes.set(xlabel="slot [s]", ylabel="total duration / the best", xticks=SLOTS_S)
    axes.legend(frameon=False)
    tidy(axes)
    return figure
