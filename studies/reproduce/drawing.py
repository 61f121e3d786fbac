"""The figures of reproductions: panels of lines, points or bars, as cards describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.metrics import Interval
from gpusched_env.support.figures import log_time_axis, tidy
from studies.reproduce.expressions import FEWEST, Missing, Scope

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


def draw(spec: Mapping[str, Any], scope: Scope) -> Figure | None:
    """Draw the figure that a card describes; None = no panel has runs.

    Parameters
    ----------
    spec : ``panels`` and ``lines`` with their axes; ``size`` of the figure, or ``panel_size`` of each panel [inch];
        ``columns`` = most panels side by side; ``seeds_of`` = labels of runs to whose seeds the figure is restricted;
        further fields are those of :func:`_dress`
    """
    scope = scope.of_seeds_of(spec.get("seeds_of", {})).let(spec.get("let", {}))
    panels = []
    for group in spec.get("panels", [{}]):
        for place in scope.places(group.get("for", {})):
            options = {**spec, **group}
            lines = [line for found in options["lines"] for line in _points(found, place)]
            if any(line["y"] for line in lines):
                panels.append((place, options, lines))
    if not panels:
        return None
    across = min(_given(scope, spec.get("columns", len(panels))), len(panels))
    down = -(-len(panels) // across)
    width, height = spec.get("panel_size", (0, 0))
    figure = new_figure(*spec.get("size", (width * across, 0.7 + height * down)))
    shared = {name: spec.get(name, False) for name in ("sharex", "sharey")}
    every = figure.subplots(down, across, squeeze=False, width_ratios=spec.get("widths"), **shared).reshape(-1)
    labels: dict[int, str] = {}
    for at, (axes, (place, options, lines)) in enumerate(zip(every, panels, strict=False)):
        for line in lines:
            _draw_line(axes, line)
        _dress(axes, place, options, lines)
        labels[at] = axes.get_ylabel()
        if at % across and labels[at] == labels[at - 1]:
            axes.set_ylabel("")
    for axes in every[len(panels) :]:
        axes.remove()
    if across > 1 and "xlabel" in spec:
        for axes in every[: len(panels)]:
            axes.set_xlabel("")
        figure.supxlabel(scope.text(spec["xlabel"]), fontsize=10)
    if "legend" in spec:
        legend_above(figure, every[0], spec["legend"])
    return figure


def _given(place: Scope, value: Any) -> Any:
    """Return a field of a card that may be an expression."""
    return place.value(value) if isinstance(value, str) else value


def _points(line: Mapping[str, Any], scope: Scope) -> list[dict[str, Any]]:
    """Evaluate the points of all lines of a group; points without runs are left out."""
    found = []
    for number, place in enumerate(scope.places(line.get("for", {}))):
        own: dict[str, Any] = {**line, "x": [], "y": []}
        along = line.get("along", {})
        for index, point in enumerate(place.at(number=number).places(along)):
            at = point.at(index=index)
            try:
                y = at.let(line.get("let", {})).value(line["y"])
            except Missing:
                continue
            own["y"].append(y if isinstance(y, Interval) else Interval(float(y), float(y), float(y), 1))
            own["x"].append(at.value(line.get("x", next(iter(along), "index"))))
        fewest = line.get("fewest", 1)
        if len(own["y"]) >= fewest:
            shown = place.at(number=number)
            own["label"] = (shown.text(line.get("label", "")) or None) if own["y"] else None
            own["colour"] = shown.value(line.get("colour", "COLOURS[number % len(COLOURS)]"))
            own["style"] = {**line.get("style", {}), **(shown.value(line["styles"]) if "styles" in line else {})}
            found.append(own)
    return found


def _draw_line(axes: Axes, line: Mapping[str, Any]) -> None:
    x, found, colour = np.array(line["x"], float), line["y"], line["colour"]
    mean, low, high = (np.array([getattr(each, end) for each in found]) for end in ("mean", "low", "high"))
    kind, style = line.get("kind", "line"), dict(line["style"])
    if kind == "bars":
        axes.bar(x, mean, line.get("width", 0.8), color=colour, label=line["label"], **style)
        for at, value in zip(x, mean, strict=True) if line.get("numbers") else ():
            axes.annotate(f"{value:.0f}", (at, value), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    elif line.get("sideways"):
        axes.plot(mean, x, color=colour, label=line["label"], marker="o", linestyle="none", **style)
    else:
        default: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": "none" if kind == "points" else "solid"}
        axes.plot(x, mean, color=colour, label=line["label"], **default | style)
    spread = line.get("spread")
    if spread is None or not all(interval.count >= FEWEST for interval in found):
        return
    if spread == "shade":
        axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    elif line.get("sideways"):
        axes.hlines(x, low, high, color=colour, linewidth=1.2)
    else:
        axes.vlines(x, low, high, color="#333333" if kind == "bars" else colour, linewidth=1)


def _dress(axes: Axes, place: Scope, options: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    """Set titles, scales, limits and ticks.

    Parameters
    ----------
    options : texts ``title``, ``xlabel``, ``ylabel``; ``xlog``, ``ylog``; limits ``xlim``, ``ylim``, "auto" = as is;
        ``hlines``; ``vlines`` with their dashes; ``grey`` = a span; ``xticks``, ``yticks`` and their ``tick_labels``:
        expressions, "points" = at all points; ``tick_size``, ``tick_turn``; ``plain_ticks`` = candidates for ticks of
        the vertical axis; ``time_axis``; ``legend_inside``, ``legend_below`` = its columns
    """
    tidy(axes)
    for name in ("title", "xlabel", "ylabel"):
        if name in options:
            getattr(axes, f"set_{name}")(place.text(options[name]), fontsize=10)
    for axis in "xy":
        if options.get(f"{axis}log"):
            getattr(axes, f"set_{axis}scale")("log")
        if f"{axis}lim" in options:
            low, high = (None if end == "auto" else end for end in _given(place, options[f"{axis}lim"]))
            getattr(axes, f"set_{axis}lim")(low, high)
        if f"{axis}ticks" in options:
            _ticks(axes, axis, place, options, lines)
    if options.get("time_axis"):
        seconds = [x for line in lines for x in line["x"]]
        log_time_axis(axes, min(seconds) / 1.2, max(seconds) * 1.2)
    for at in options.get("hlines", ()):
        axes.axhline(at, color="0.5", linewidth=0.8, zorder=0.6)
    for at, dashes in _given(place, options.get("vlines", ())):
        axes.axvline(at, color="0.5", linestyle=dashes, linewidth=0.8, zorder=0.6)
    if "grey" in options:
        axes.axvspan(*place.value(options["grey"]), color="#999999", alpha=0.18, linewidth=0)
    if options.get("diagonal"):
        axes.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
    if "plain_ticks" in options:
        plain_ticks(axes, options["plain_ticks"])
    if options.get("legend_inside"):
        axes.legend(frameon=False, fontsize=8, ncols=options["legend_inside"])
    if options.get("legend_below"):
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
        axes.legend(frameon=False, fontsize=8, ncols=options["legend_below"], **below)


def _ticks(axes: Axes, axis: str, place: Scope, options: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    wanted = options[f"{axis}ticks"]
    at = sorted({x for line in lines for x in line["x"]}) if wanted == "points" else list(place.value(wanted))
    labels = place.value(options[f"{axis}tick_labels"]) if f"{axis}tick_labels" in options else [f"{x:g}" for x in at]
    low, high = sorted(getattr(axes, f"get_{axis}lim")())
    shown = [(x, str(label)) for x, label in zip(at, labels, strict=True) if low <= x <= high]
    style = {"fontsize": options.get(f"{axis}tick_size", 9), "rotation": options.get(f"{axis}tick_turn", 0)}
    getattr(axes, f"set_{axis}ticks")([x for x, _ in shown], [label for _, label in shown], **style)
    getattr(axes, f"{axis}axis").minorticks_off()
