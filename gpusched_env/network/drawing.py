"""Draw a topology in layers, with the servers at the bottom and the load of every link."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.network.layout import Drawing, arrange, segment
from gpusched_env.network.topology import LINK_TIERS, Topology
from gpusched_env.support.figures import COLOURS, check_suffix, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS: Final = (0.8, 5.0)  # [pt] width of the thinnest and the thickest line; a crowded figure halves the latter
CROWDED: Final = 20  # a layer with more nodes gets thinner lines and smaller, turned labels


def draw_topology(
    topology: Topology,
    path: str | Path | None = None,
    loads: Sequence[float] | np.ndarray | None = None,
    title: str = "",
) -> Figure:
    """Draw a topology; colour and width of a link show its load, or its capacity if ``loads`` is None.

    If there are more than 24 servers, the servers of a group share one box.

    Parameters
    ----------
    topology : the topology to draw
    path : path of the saved figure, whose suffix (.png, .svg or .pdf) determines the format; None = do not save
    loads : float [L], load of each row of ``topology.links`` as a share of its capacity. A line in the figure shows the
        largest load of its rows: those of both directions, and of all servers in a box
    title : title above the figure
    """
    if path is not None:
        check_suffix(path)
    if loads is not None:
        loads = np.asarray(loads, float)
        if loads.shape != topology.links.shape or not np.isfinite(loads).all():
            raise GpuschedError(f"draw_topology: give one finite load for each of the {len(topology.links)} links")
    from matplotlib.figure import Figure

    drawing = arrange(topology)
    widest = max(map(len, drawing.layers))
    crowded = widest > CROWDED
    height = 1.2 + (2.2 if crowded else 1.4) * (len(drawing.layers) - 0.5)  # [inch]
    figure = Figure(figsize=(min(18.0, max(7.5, 3.0 + 0.55 * widest)), height), layout="constrained")
    axes = figure.add_subplot()
    left, right = min(drawing.x.values()), max(drawing.x.values())
    axes.set_xlim(left - 0.06 * (right - left) - 0.6, right + 0.06 * (right - left) + 0.6)
    axes.set_ylim(-0.2, len(drawing.layers) - 0.75)
    _draw_lines(axes, topology, drawing, loads)
    _draw_boxes(axes, drawing, fontsize=9 if not crowded else 7 if widest <= 60 else 5)
    _describe_tiers(axes, topology, drawing, loaded=loads is not None)
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    servers = len(topology.access)
    figure.suptitle(title or f"{servers} server{'s' if servers > 1 else ''}")
    if path is not None:
        save(figure, path)
    return figure


def _draw_lines(axes: Axes, topology: Topology, drawing: Drawing, loads: np.ndarray | None) -> None:
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection
    from matplotlib.colors import ListedColormap

    links = topology.links
    thin, thick = WIDTHS[0], WIDTHS[1] / (1 if max(map(len, drawing.layers)) <= CROWDED else 2)
    segments = [segment(drawing, a, b) for a, b in drawing.lines]
    rows = [np.array(row) for row in drawing.lines.values()]
    if loads is None:
        capacity = np.array([links["capacity"][row].max() * links["members"][row].max() for row in rows])
        scale = np.log(capacity / capacity.min()) / max(np.log(capacity.max() / capacity.min()), 1e-9)
        tiers = [COLOURS[links["tier"][row[0]] % len(COLOURS)] for row in rows]
        lines = LineCollection(segments, linewidths=thin + (thick - thin) * scale, colors=tiers, zorder=1)
    else:
        share = np.array([loads[row].max() for row in rows])
        order = np.argsort(share, kind="stable")  # the busiest links are drawn last, on top
        # Busy links are dark, which also works in greyscale. The palest colours of the map are left out.
        busy = ListedColormap(colormaps["inferno_r"](np.linspace(0.12, 0.9, 256)))
        lines = LineCollection(
            [segments[i] for i in order], array=share[order], cmap=busy, zorder=1,
            linewidths=thin + (thick - thin) * np.clip(share[order], 0, 1),
        )  # fmt: skip
        lines.set_clim(0.0, max(1.0, float(share.max())))
        what = "link" if topology.duplex else "link's busier direction"
        axes.figure.colorbar(lines, ax=axes, shrink=0.7, label=f"load of the {what}\n[share of its capacity]")
    axes.add_collection(lines)


def _draw_boxes(axes: Axes, drawing: Drawing, fontsize: int) -> None:
    for level, layer in enumerate(drawing.layers):
        box = dict(
            boxstyle="square,pad=0.3" if level == 0 else "round,pad=0.35",
            facecolor="#e8eef4" if level == 0 else "white",
            edgecolor="#444444",
            linewidth=0.8,
        )
        turned = 90 if level and len(layer) > CROWDED else 0
        for node in layer:
            axes.text(
                drawing.x[node], drawing.y[node], drawing.label[node], ha="center", va="center", fontsize=fontsize,
                rotation=turned, bbox=box, zorder=3, parse_math=False,
            )  # fmt: skip


def _describe_tiers(axes: Axes, topology: Topology, drawing: Drawing, loaded: bool) -> None:
    """Label the y axis with the rates of each tier of links; the labels are the legend of the figure."""
    servers = len(topology.access)
    boxed = servers > len(drawing.layers[0])
    ticks = {0.0: f"servers, {servers}\nin boxes of" if boxed else "servers"}
    colours = ["black"]
    for tier, name in enumerate(LINK_TIERS):
        rows = topology.links[topology.links["tier"] == tier]
        if len(rows):
            order = np.argsort(rows["members"] * rows["capacity"], kind="stable")
            ends = dict.fromkeys((int(rows["members"][i]), float(rows["capacity"][i]) / 1e9) for i in order[[0, -1]])
            texts = [f"{members} x {GBps:.4g}" if members > 1 else f"{GBps:.4g}" for members, GBps in ends]
            busiest = "\nthe busiest of each box" if boxed and loaded and tier == 0 else ""
            ticks[tier + 0.5] = f"{name} links\n{' to '.join(texts)} GB/s{busiest}"
            colours.append(COLOURS[tier])
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize=9)
    axes.tick_params(axis="y", length=0)
    if not loaded:
        for label, colour in zip(axes.get_yticklabels(), colours, strict=True):
            label.set_color(colour)
