"""Figures: mean JCT by interference and by load, small and large jobs, the prototype's figures against ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.metrics import mean_interval
from gpusched_env.reproduce.drawing import legend_above, new_figure, shade
from gpusched_env.reproduce.report import FEWEST
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bsbf.published import FFS, PROTOTYPE, SJF, TIRESIAS
from gpusched_env.reproduce.sjf_bsbf.settings import BSBF, DRAWN, PAPER_JOBS, POLLUX, SPANS_S, USUAL_XI
from gpusched_env.reproduce.sjf_bsbf.tables import few_setting, reduction, settings, title, values, xis
from gpusched_env.support.figures import COLOURS, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN: Final = dict(zip((BSBF, FFS, TIRESIAS, "whole batches only", "times as measured"), COLOURS, strict=False))
HOUR: Final = 3_600.0
COLUMNS: Final = 3


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure."""
    figures = {
        "interference.png": _interference(results), "load.png": _load(results), "sizes.png": _sizes(results),
        "prototype.png": _prototype(results),
    }  # fmt: skip
    for name, figure in figures.items():
        save(figure, folder / name)
    return [folder / name for name in figures]


def _interference(results: Results) -> Figure:
    """One panel per set-up: mean JCT / SJF's on the same draws, by xi."""
    setups = [s for s in settings(results) if s[0] in SPANS_S or (s[0] in (DRAWN, POLLUX) and s[1] in (160, 240))]
    by_draws = {s: len(values(results, "mean_jct_s", s, xis(results, s)[0], BSBF)) for s in setups}
    setups = [s for s in setups if by_draws[s] >= min(FEWEST, max(by_draws.values()))]
    rows = -(-len(setups) // COLUMNS)
    figure = new_figure(3.6 * min(len(setups), COLUMNS), 0.6 + 3.2 * rows)
    panels = figure.subplots(rows, min(len(setups), COLUMNS), squeeze=False, sharey=True).reshape(-1)
    for axes, setting in zip(panels, setups, strict=False):
        known = xis(results, setting)
        for policy, colour in SHOWN.items():
            ratios = [
                values(results, "mean_jct_s", setting, xi, policy) / values(results, "mean_jct_s", setting, xi, SJF)
                for xi in known
            ]
            found = [mean_interval(ratio) for ratio in ratios]
            axes.plot(
                known, [interval.mean for interval in found], marker="o", markersize=4, color=colour, label=policy
            )
            shade(axes, known, found, colour)
        axes.axhline(1.0, color="0.5", linewidth=0.8)
        axes.set(xlabel="xi, slowdown in company", title=title(setting), xticks=known)
        tidy(axes)
    panels[0].set_ylim(bottom=0)  # the panels share this axis
    for axes in panels[len(setups) :]:
        axes.remove()
    for axes in panels[::COLUMNS]:
        axes.set_ylabel("mean JCT / SJF's, mean over draws")
    legend_above(figure, panels[0], len(SHOWN))
    return figure


def _load(results: Results) -> Figure:
    """One panel per xi: mean JCT by the number of jobs in eight hours."""
    known = [xi for xi in xis(results, (DRAWN, PAPER_JOBS)) if xi in (1.0, 1.25, USUAL_XI, 2.0)]
    sizes = sorted(results.where(part=DRAWN).known("jobs"))
    figure = new_figure(3.2 * len(known), 3.9)
    panels = figure.subplots(1, len(known), squeeze=False, sharey=True)[0]
    shown = dict(zip((BSBF, FFS, TIRESIAS, SJF), COLOURS, strict=False))
    for axes, xi in zip(panels, known, strict=True):
        for policy, colour in shown.items():
            found = [mean_interval(values(results, "mean_jct_s", (DRAWN, n), xi, policy) / HOUR) for n in sizes]
            axes.plot(
                sizes, [interval.mean for interval in found], marker="o", markersize=4, color=colour, label=policy
            )
            shade(axes, sizes, found, colour)
        axes.set(xlabel="jobs in eight hours", title=f"xi {xi:g}", xticks=sizes)
        tidy(axes)
    panels[0].set_ylabel("mean JCT [h]")
    legend_above(figure, panels[0], len(shown))
    return figure


def _sizes(results: Results) -> Figure:
    """Queueing and JCT of small and large jobs at the usual xi, one panel per set-up."""
    setups = [(DRAWN, PAPER_JOBS), few_setting()]
    figure = new_figure(11, 3.9)
    names = (BSBF, FFS, SJF, TIRESIAS)
    for axes, setting in zip(figure.subplots(1, 2), setups, strict=True):
        known = xis(results, setting)
        xi = USUAL_XI if USUAL_XI in known else known[-1]
        _bars(axes, results, setting, xi, names)
        axes.set(title=f"{title(setting)}, xi {xi:g}", ylabel="mean JCT [h]; dark: queueing")
        tidy(axes)
        axes.set_axisbelow(True)
    return figure


def _bars(axes: Axes, results: Results, setting: tuple[str, int], xi: float, names: tuple[str, ...]) -> None:
    for at, size in enumerate(("small", "large")):
        for i, (policy, colour) in enumerate(zip(names, COLOURS, strict=False)):
            x = at * (len(names) + 1) + i
            jct, queueing = (
                values(results, f"{size}_{name}", setting, xi, policy).mean() / HOUR for name in ("jct_s", "queueing_s")
            )
            axes.bar(x, jct, color=colour, alpha=0.45, label=policy if at == 0 else None)
            axes.bar(x, queueing, color=colour)
    middle = (len(names) - 1) / 2
    axes.set_xticks([middle, middle + len(names) + 1], ["at most 4 GPUs", "more GPUs"])
    axes.legend(frameon=False, fontsize=8)


def _prototype(results: Results) -> Figure:
    """Scatter plot: the prototype's reductions (x) against ours (y), on Pollux's own workloads if there are enough."""
    figure = new_figure(5.6, 4.6)
    axes = figure.subplots()
    setups = settings(results)
    for rival, marker, colour in zip((SJF, FFS, TIRESIAS), "osD", COLOURS, strict=False):
        for part, filled in ((POLLUX, True), (DRAWN, False)):
            cells = [c for c in PROTOTYPE if c.rival == rival and (part, c.jobs) in setups]
            cells = [
                c for c in cells if c.xi in xis(results, (part, c.jobs)) and _source(results, c.jobs, c.xi) == part
            ]
            ours = [100 * reduction(results, (part, c.jobs), c.xi, rival) for c in cells]
            axes.scatter(
                [100 * c.reduction for c in cells], ours, marker=marker, edgecolors=colour,
                facecolors=colour if filled else "none", label=f"against {rival}, {part}" if cells else None,
            )  # fmt: skip
    low, high = axes.get_xlim()
    axes.plot((low, high), (low, high), color="0.5", linewidth=0.8)
    axes.set(xlabel="prototype's reduction of the mean JCT [%]", ylabel="ours [%]")
    axes.legend(frameon=False, fontsize=8)
    tidy(axes)
    return figure


def _source(results: Results, jobs: int, xi: float) -> str:
    """Return the workloads that are compared with the prototype's."""
    enough = (POLLUX, jobs) in settings(results) and (
        len(values(results, "mean_jct_s", (POLLUX, jobs), xi, BSBF)) >= FEWEST
    )
    return POLLUX if enough else DRAWN
