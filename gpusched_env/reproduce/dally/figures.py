"""Figures: claims and ratios, both sweeps, distributions of JCT, hazards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.metrics.statistics import mean_interval
from gpusched_env.reproduce.dally.cells import LOADS, SCENARIOS, SUITE, TOPS, Cell, by_cost, by_load
from gpusched_env.reproduce.dally.comparing import sweep
from gpusched_env.reproduce.dally.hazards import draw_hazards
from gpusched_env.reproduce.dally.measures import PERCENTILES, percentile
from gpusched_env.reproduce.dally.more_hazards import draw_more_hazards
from gpusched_env.reproduce.dally.policies import POLICIES, RIVALS, VARIANTS, labels
from gpusched_env.reproduce.dally.published import CLAIMS
from gpusched_env.reproduce.drawing import legend_above, new_figure, plain_ticks, shade
from gpusched_env.reproduce.results import Results
from gpusched_env.support.figures import COLOURS, log_time_axis, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOUR: Final = 3_600.0  # [s]
OWN: Final = "#000000"  # colour of the tuned Dally in every figure
COLOUR_OF: Final = {
    **{policy: COLOURS[at] for at, policy in enumerate(name for name in VARIANTS if name != "dally")},
    **{policy: (*COLOURS[:6], "#999999", "#8C510A")[at] for at, policy in enumerate(RIVALS)},
    "dally": OWN,
}
GROUPS: Final = {"variants": tuple(VARIANTS), "rivals": ("dally", *RIVALS)}
DISTRIBUTIONS: Final = ("dally", "no-wait", "consolidated", "tiresias", "gandiva", "srtf", "fifo")
METRICS: Final = {"mean_jct_s": "mean JCT [h]", "mean_communication_s": "communication [h a job]"}
TICKS: Final = tuple(digit * 10.0**power for power in range(-2, 4) for digit in (1, 2, 3, 5))


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure for which there are runs."""
    figures = {"claims.png": _claims(results)}
    costs = _swept(results, {name: by_cost(name) for name in SCENARIOS})
    loads = _swept(results, {f"poisson, {top} top": by_load(top) for top in TOPS})
    for group, policies in GROUPS.items():
        if costs:
            x = [cell.cost for cell in by_cost("poisson")]
            figures[f"oversubscription_{group}.png"] = _curves(
                results, policies, costs, x, "oversubscription (20 = congested)"
            )
        if loads:
            figures[f"load_{group}.png"] = _curves(results, policies, loads, LOADS, "offered load")
    figures["jct.png"] = _distributions(results)
    figures["hazards.png"] = draw_hazards(results)
    figures["hazards_more.png"] = draw_more_hazards(results)
    for name, figure in figures.items():
        save(figure, folder / name)
    return [folder / name for name in figures]


def _swept(results: Results, sweeps: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Return the sweeps with runs for at least two cells; a quick reproduction has runs for some cells only."""
    return {
        name: cells
        for name, cells in sweeps.items()
        if sum(bool(results.where(**labels(cell, "dally")).runs) for cell in cells) > 1
    }


def _claims(results: Results) -> Figure:
    """Ratios of Dally to each other policy over all cells, in the best and in the worst cell; the paper's as a line."""
    figure = new_figure(12.5, 5.2)
    panels = figure.subplots(1, len(CLAIMS), sharey=True)
    others = [policy for policy in POLICIES if policy != "dally"]
    for axes, claim in zip(panels, CLAIMS, strict=True):
        cells = [each for each in SUITE if each.top == "congested" or not claim.congested]
        for at, policy in enumerate(others):
            found = sweep(results, claim.metric, cells, "dally", policy)
            if found is None:
                continue
            ends = [found.best[1].mean, found.worst[1].mean]
            axes.plot(ends, [at, at], color=COLOUR_OF[policy], linewidth=2, alpha=0.5)
            axes.plot(ends, [at, at], color=COLOUR_OF[policy], marker="|", markersize=9, linestyle="none")
            axes.plot(found.mean.mean, at, color=COLOUR_OF[policy], marker="o", markersize=7)
        axes.axvline(1.0, color="#555555", linewidth=0.9, zorder=0.6)
        axes.axvline(1 + claim.change, color="#AA0000", linestyle="dashed", linewidth=1.2, label="paper: up to")
        axes.set_xscale("log")
        _ratio_ticks(axes)
        axes.set_title(claim.what, fontsize=10, loc="left")
        axes.set_xlabel("Dally (tuned) / other, log scale")
        tidy(axes)
    panels[0].set_yticks(range(len(others)), [POLICIES[policy].heading for policy in others])
    panels[0].invert_yaxis()
    legend_above(figure, panels[0], 1)
    return figure


def _ratio_ticks(axes: Axes) -> None:
    low, high = axes.get_xlim()
    shown = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()


def _curves(
    results: Results, policies: Sequence[str], columns: dict[str, list[Cell]], x: Sequence[float], label: str
) -> Figure:
    """Mean JCT and communication along a sweep: one column of panels per list of cells, one line per policy."""
    figure = new_figure(3.2 * max(len(columns), 3), 6.4)
    panels = figure.subplots(len(METRICS), len(columns), sharex=True, squeeze=False)
    for axes, title in zip(panels[0], columns, strict=True):
        axes.set_title(title, fontsize=10)
    for row, (metric, name) in zip(panels, METRICS.items(), strict=True):
        for axes, cells in zip(row, columns.values(), strict=True):
            for policy in policies:
                _curve(axes, results, metric, policy, cells, x)
            axes.set_yscale("log")
            if axes.lines and any(len(line.get_xdata()) for line in axes.lines):
                axes.autoscale_view()
                plain_ticks(axes, TICKS)
            tidy(axes)
            if max(x) / min(x) > 4:
                axes.set_xscale("log")
            drawn = {value for line in axes.lines for value in line.get_xdata()}
            axes.set_xticks([value for value in x if value in drawn], [f"{value:g}" for value in x if value in drawn])
            axes.xaxis.minorticks_off()
        row[0].set_ylabel(f"{name}, log scale")
    figure.supxlabel(label, fontsize=10)
    legend_above(figure, panels[0, 0], 4)
    return figure


def _curve(axes: Axes, results: Results, metric: str, policy: str, cells: Sequence[Cell], x: Sequence[float]) -> None:
    own = [results.values(metric, **labels(each, policy)) / HOUR for each in cells]
    known = [at for at, values in enumerate(own) if len(values)]
    found = [mean_interval(own[at]) for at in known]
    style = _line_of(policy)
    at = np.array([x[i] for i in known])
    axes.plot(at, [i.mean for i in found], marker="o", markersize=3.5, label=POLICIES[policy].heading, **style)
    shade(axes, at, found, style["color"])


def _line_of(policy: str) -> dict[str, Any]:
    return {"color": COLOUR_OF[policy], "linewidth": 2.2 if policy == "dally" else 1.3}


def _distributions(results: Results) -> Figure:
    """Share of jobs finished within a time, top tier congested: percentiles, geometric means over seeds."""
    figure = new_figure(12.5, 4.2)
    panels = figure.subplots(1, len(SCENARIOS), sharey=True)
    for axes, scenario in zip(panels, SCENARIOS, strict=True):
        shown = []
        for number, policy in enumerate(DISTRIBUTIONS):
            own = labels(Cell(scenario, "congested"), policy)
            curves = [results.values(percentile(percent), **own) for percent in PERCENTILES]
            if len(curves[0]):
                seconds = [float(np.exp(np.log(values).mean())) for values in curves]
                shown += seconds
                style = _line_of(policy) | {"color": (OWN, *COLOURS)[number]}
                axes.plot(seconds, PERCENTILES, label=POLICIES[policy].heading, **style)
        if shown:
            log_time_axis(axes, min(shown) / 1.2, max(shown) * 1.2)
        axes.set_title(f"{scenario}, congested", fontsize=10)
        axes.set_ylim(0, 100)
        tidy(axes)
    panels[0].set_ylabel("jobs finished within it [%]")
    figure.supxlabel("job completion time, log scale", fontsize=10)
    legend_above(figure, panels[0], len(DISTRIBUTIONS))
    return figure
