"""Figures like figures 4 to 7 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.reproduce.drawing import legend_above, new_figure, plain_ticks
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bco import published
from gpusched_env.reproduce.sjf_bco.published import KAPPAS, LAMBDAS, POLICIES, SERVERS
from gpusched_env.reproduce.sjf_bco.settings import SETTINGS, STRONG_QUEUE, Setting, fixed, searched
from gpusched_env.support.figures import COLOURS, save, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOUR_OF: Final = dict(zip(POLICIES, COLOURS, strict=False))
LINE_OF: Final = dict(zip(SETTINGS, ("#56B4E9", "#0072B2", "#E69F00", "#D55E00"), strict=True))
Labels = Callable[[int], dict[str, Any]]


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every figure."""
    figures = {
        "figure4_policies.png": _bars(results),
        "figure5_kappa.png": _curves(
            results, KAPPAS, published.BY_KAPPA, "kappa: gangs of up to so many GPUs are small",
            {str(s): _by_kappa(s) for s in SETTINGS} | {"queue 0.60, below kappa": _by_kappa(STRONG_QUEUE, "lt")},
        ),
        "figure6_servers.png": _sizes(results),
        "figure7_lambda.png": _curves(
            results, LAMBDAS, published.BY_LAMBDA, "lambda (kappa = 1)", {str(s): _by_lambda(s) for s in SETTINGS}
        ),
    }  # fmt: skip
    for name, figure in figures.items():
        save(figure, folder / name)
    return [folder / name for name in figures]


def _by_kappa(setting: Setting, rule: str = "le") -> Labels:
    return lambda kappa: fixed(setting, kappa, rule=rule)


def _by_lambda(setting: Setting) -> Labels:
    return lambda lambda_: fixed(setting, 1, lambda_)


def _medians(results: Results, metric: str, labels: Sequence[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the medians, and the distances to both quartiles, as matplotlib's error bars take them."""
    middle = np.array([results.median(metric, **own) for own in labels])
    low, high = np.array([results.quartiles(metric, **own) for own in labels]).T
    return middle, np.array([middle - low, high - middle])


def _bars(results: Results) -> Figure:
    """Figure 4: makespan and average completion of each policy; the paper's values come first."""
    figure = new_figure(11, 6.4)
    paper = {"makespan_s": {p: row[-1] for p, row in published.MAKESPAN.items()}, "mean_jct_s": published.AVERAGE}
    titles = {"makespan_s": "makespan [slot]", "mean_jct_s": "average completion [slot]"}
    for axes, (metric, of_paper) in zip(figure.subplots(2, 1, sharex=True), paper.items(), strict=True):
        for number, (policy, name) in enumerate(POLICIES.items()):
            values, spread = _medians(results, metric, [searched(setting, policy) for setting in SETTINGS])
            values, spread = np.append(of_paper[policy], values), np.column_stack([[0.0, 0.0], spread])
            x = np.arange(len(values)) + 0.2 * (number - 1.5)
            axes.bar(x, values, 0.19, color=COLOUR_OF[policy], label=name)
            axes.errorbar(x[1:], values[1:], spread[:, 1:], fmt="none", ecolor="#333333", elinewidth=1, capsize=2)
            for at, value, above in zip(x, values, spread[1], strict=True):
                axes.annotate(
                    f"{value:.0f}", (at, value + above), (0, 2), textcoords="offset points", ha="center", fontsize=8
                )
        axes.set_ylabel(titles[metric])
        axes.margins(y=0.12)
        axes.axvline(0.5, color="#999999", linewidth=0.8)
        tidy(axes)
        axes.grid(visible=False, axis="x")
    axes.set_xticks(range(1 + len(SETTINGS)), ["paper", *map(str, SETTINGS)])
    legend_above(figure, axes, 4)
    return figure


def _curves(
    results: Results, values: Sequence[int], paper: Sequence[int], label: str, lines: Mapping[str, Labels]
) -> Figure:
    """Makespan by a parameter, absolute and relative to the makespan with its first value on the same draw."""
    figure = new_figure(12, 4.6)
    absolute, relative = figure.subplots(1, 2)
    x = np.arange(len(values))
    for axes, scale in ((absolute, 1), (relative, paper[0])):
        axes.plot(x, np.array(paper) / scale, color="black", marker="o", linewidth=2, label="paper")
    for number, (name, labels) in enumerate(lines.items()):
        draws = {at: results.values("makespan_s", **labels(value)) for at, value in enumerate(values)}
        known = np.array([at for at in draws if len(draws[at])])
        if not len(known):
            continue
        style: dict[str, Any] = {
            "color": [*LINE_OF.values(), LINE_OF[STRONG_QUEUE]][number],
            "linestyle": "dashed" if number >= len(LINE_OF) else "solid",
            "marker": "s",
            "markersize": 4,
        }
        absolute.plot(known, [np.median(draws[at]) for at in known], label=name, **style)
        low, middle, high = np.percentile([draws[at] / draws[0] for at in known], (25, 50, 75), axis=1)
        relative.errorbar(
            known + 0.05 * (number - 2), middle, [middle - low, high - middle], elinewidth=0.8, capsize=2, **style
        )
    absolute.set_ylabel("makespan [slot]")
    absolute.set_ylim(bottom=0)
    relative.set_ylabel(f"makespan / makespan with {values[0]} on the same draw")
    for axes in (absolute, relative):
        axes.set_xticks(x, [str(value) for value in values])
        axes.set_xlabel(label)
        tidy(axes)
    legend_above(figure, absolute, 1 + len(lines))
    return figure


def _sizes(results: Results) -> Figure:
    """Figure 6: makespan by the number of servers, one panel for the paper and one per setting."""
    figure = new_figure(12, 3.9)
    panels = figure.subplots(1, 1 + len(SETTINGS), sharey=True)
    for panel, setting in zip(panels, (None, *SETTINGS), strict=True):
        for policy, name in POLICIES.items():
            style = {"color": COLOUR_OF[policy], "marker": "o", "markersize": 4, "label": name}
            if setting is None:
                panel.plot(SERVERS, published.MAKESPAN[policy], **style)
                continue
            labels = [searched(setting, policy, servers) for servers in SERVERS]
            middle, spread = _medians(results, "makespan_s", labels)
            known = np.isfinite(middle)
            panel.errorbar(
                np.array(SERVERS)[known], middle[known], spread[:, known], elinewidth=0.8, capsize=2, **style
            )
        panel.set_title("paper" if setting is None else str(setting), fontsize=10)
        panel.set_yscale("log")
        panel.set_xticks(SERVERS)
        panel.margins(x=0.12)
        panel.set_ylim(200, 10_000)
        plain_ticks(panel, (250, 500, 1_000, 2_000, 4_000, 8_000))
        tidy(panel)
    figure.supxlabel("servers", fontsize=10)
    panels[0].set_ylabel("makespan [slot], log scale")
    legend_above(figure, panels[0], 4)
    return figure
