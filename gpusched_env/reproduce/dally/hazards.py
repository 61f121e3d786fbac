"""Hazards that can make results meaningless: timers that collapse or saturate, visiting order, constants of links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.metrics.statistics import paired_ratio
from gpusched_env.reproduce.dally.cells import LINKS, LOADS, OVERLOADS, TOPS, USUAL, Cell
from gpusched_env.reproduce.dally.comparing import ratio
from gpusched_env.reproduce.dally.policies import ORDERS, VARIANTS, add_parameters, labels, spec
from gpusched_env.reproduce.drawing import new_figure, shade
from gpusched_env.reproduce.results import Results
from gpusched_env.support.figures import COLOURS, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIGMAS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
TUNED_ON: Final = (Cell("poisson", "congested"), Cell("batch", "congested"))
# The tuner as in the authors' code, and without the rules that prevent its timers from collapsing.
TUNERS: Final[dict[str, dict[str, float]]] = {
    "as shipped": {},
    "no floors": {"floor_rack": 0, "floor_nw": 0},
    "no floors, every wait counts": {"floor_rack": 0, "floor_nw": 0, "min_sample": 0, "empty_value": 0},
}
OVERLOADED: Final = ("no-wait", "manual-1-2", "manual-6-12", "dally", "consolidated")
BY_LINKS: Final = ("dally", "no-wait", "tiresias")
COMMUNICATION: Final = "mean_communication_s"
Played = tuple[Cell, dict[str, Any], str]


def tuner_labels(cell: Cell, rules: str, sigma: float) -> dict[str, Any]:
    """Labels of the runs that vary the tuner."""
    return {**cell.labels, "policy": "tuner", "order": "asc", "rules": rules, "k_sigma": sigma}


def hazard_runs(quick: bool) -> Iterator[Played]:
    """Yield cell, labels and spec of each run; ``quick`` = a part of each sweep."""
    for rules, more in TUNERS.items():
        for sigma in (SIGMAS[0], 2.0) if quick else SIGMAS:
            for cell in TUNED_ON[:1] if quick else TUNED_ON:
                yield cell, tuner_labels(cell, rules, sigma), add_parameters("dally", {"k_sigma": sigma, **more})
    for load in OVERLOADS[-1:] if quick else OVERLOADS:
        for policy in OVERLOADED:
            cell = Cell("poisson", load=load)
            yield cell, labels(cell, policy), spec(policy)
    for links in LINKS[:1] if quick else LINKS:
        for top in TOPS[-1:] if quick else TOPS:
            for policy in BY_LINKS:
                cell = Cell("poisson", top, links=links)
                yield cell, labels(cell, policy), spec(policy)


def draw_hazards(results: Results) -> Figure:
    """Draw the four hazards, over the seeds for which there are runs."""
    results = results.of_seeds_of(results.where(policy="tuner"))
    figure = new_figure(12.5, 8.6)
    collapse, ceiling, order, links = figure.subplots(2, 2).ravel()
    _draw_collapse(collapse, results)
    _draw_ceiling(ceiling, results)
    _draw_order(order, results)
    _draw_links(links, results)
    for axes in (collapse, ceiling, order, links):
        axes.axhline(1.0, color="#555555", linewidth=0.9, zorder=0.6)
        axes.legend(fontsize=7.5, frameon=False, ncols=2, loc="upper center")
        tidy(axes)
    return figure


def _line(axes: Axes, x: list[float], found: list[Any], number: int, label: str, **style: Any) -> None:
    """Draw ratios with their intervals, unless there is only one."""
    known = [i for i, interval in enumerate(found) if interval is not None and interval.count]
    if len(known) > 1:
        colour, at = COLOURS[number % len(COLOURS)], [x[i] for i in known]
        axes.plot(at, [found[i].mean for i in known], color=colour, marker="o", markersize=4, label=label, **style)
        shade(axes, at, [found[i] for i in known], colour)


def _draw_collapse(axes: Axes, results: Results) -> None:
    for cell, dashes in zip(TUNED_ON, ("solid", "dashed"), strict=True):
        free = results.values(COMMUNICATION, **labels(cell, "no-wait"))
        for number, rules in enumerate(TUNERS):
            found = []
            for sigma in SIGMAS:
                own = results.values(COMMUNICATION, **tuner_labels(cell, rules, sigma))
                found.append(paired_ratio(own, free) if len(own) else None)
            _line(axes, list(SIGMAS), found, number, f"{cell.scenario}: {rules}", linestyle=dashes)
    axes.set_ylim(0, 1.45)
    axes.set_title("1  timer collapse (congested)", fontsize=10, loc="left")
    axes.set_xlabel("k: timer = mean + k standard deviations of recent waits")
    axes.set_ylabel("communication / that without waiting")


def _draw_ceiling(axes: Axes, results: Results) -> None:
    loads = [*LOADS, *OVERLOADS]
    for number, policy in enumerate(OVERLOADED[1:]):
        found = [ratio(results, COMMUNICATION, Cell("poisson", load=load), policy, "no-wait") for load in loads]
        _line(axes, loads, found, number, VARIANTS[policy].heading)
    axes.set_ylim(0, 1.45)
    axes.set_title("2  timer ceiling under overload (poisson, 4:1)", fontsize=10, loc="left")
    axes.set_xlabel("offered load")
    axes.set_ylabel("communication / that without waiting")


def _draw_order(axes: Axes, results: Results) -> None:
    played = [cell for cell in USUAL if results.where(**cell.labels, order=ORDERS[-1]).runs]
    for number, cell in enumerate(played):
        for at, policy in enumerate(VARIANTS):
            one, other = (results.values("mean_jct_s", **labels(cell, policy, order)) for order in ORDERS)
            if len(one) and len(other):
                x = np.full(len(one), at + 0.09 * (number - (len(played) - 1) / 2))
                axes.plot(
                    x, other / one, linestyle="none", marker="o", markersize=3.5, alpha=0.7,
                    color=(*COLOURS, "#999999")[USUAL.index(cell)], label=str(cell) if at == 0 else None,
                )  # fmt: skip
    axes.set_xticks(range(len(VARIANTS)), [heading.replace(" ", "\n", 1) for heading, _ in VARIANTS.values()])
    axes.tick_params(axis="x", labelsize=8)
    axes.margins(y=0.2)  # room for the legend
    axes.set_title("4  order in which machines are visited", fontsize=10, loc="left")
    axes.set_ylabel("mean JCT, hash / ascending order, each seed")


def _draw_links(axes: Axes, results: Results) -> None:
    rates = sorted([*LINKS, 1.0])
    number = 0
    for rival in ("no-wait", "tiresias"):
        for metric, name in (("mean_jct_s", "mean JCT"), (COMMUNICATION, "communication")):
            for top, style in zip(TOPS, ("solid", "dashed"), strict=True):
                found = [ratio(results, metric, Cell("poisson", top, links=rate), "dally", rival) for rate in rates]
                name_of = "no wait" if rival == "no-wait" else "Tiresias"
                _line(axes, rates, found, number, f"{name} / {name_of}, {top}", linestyle=style)
            number += 1
    axes.set_xscale("log")
    drawn = {rate for line in axes.lines for rate in np.atleast_1d(line.get_xdata())}
    rates = [rate for rate in rates if rate in drawn]
    axes.set_xticks(rates, [f"x {rate:g}" for rate in rates])
    axes.minorticks_off()
    axes.set_ylim(0, 1.6)
    axes.set_title("6  link constants (poisson)", fontsize=10, loc="left")
    axes.set_xlabel("rate of all links between servers")
    axes.set_ylabel("Dally (tuned) / other")
