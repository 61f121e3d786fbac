"""A Gantt chart of a schedule, which shows the jobs on GPUs over time, as in the pages of gpusched_env.reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpusched_env.evaluation.bars import CHECKPOINTING, RESTORING, bars
from gpusched_env.event_log import EventLog
from gpusched_env.problem.instance import Instance
from gpusched_env.support.figures import job_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CROWD: Final = "#9AA3AD"
MOST_NODES: Final = 64  # with more machines, no lines are drawn between machines, because they would hide the jobs


def draw_schedule(axes: Axes, instance: Instance, log: EventLog, start_s: float, unit_s: float) -> None:
    """Draw a bar for each interval in which a job held GPUs.

    Jobs that share GPUs share the height of their rows. A hatched bar means that the job makes no progress.
    """
    from matplotlib.collections import PolyCollection

    drawn = bars(instance, log)
    hatches = {RESTORING: "////", CHECKPOINTING: "xxxx"}
    crowds = PolyCollection(_corners(drawn.crowds, start_s, unit_s), facecolors=CROWD, linewidths=0)
    axes.add_collection(crowds, autolim=False)
    for phase in np.unique(drawn.bars["phase"]).tolist():
        some = drawn.bars[drawn.bars["phase"] == phase]
        colours = job_colours(some["job"]) / 255
        collection = PolyCollection(
            _corners(some, start_s, unit_s), facecolors=colours, edgecolors="white", linewidths=0.2
        )
        if phase in hatches:
            collection.set_hatch(hatches[phase])
            collection.set_edgecolor("#333333")
            collection.set_linewidth(0.0)
        axes.add_collection(collection, autolim=False)
    nodes = instance.cluster.nodes
    edges = nodes["first_gpu"][1:]
    between_racks = nodes["rack"][1:] != nodes["rack"][:-1]
    if len(nodes) <= MOST_NODES:
        axes.hlines(edges[~between_racks], 0, 1, transform=axes.get_yaxis_transform(), color="#dddddd", linewidth=0.5)
    axes.hlines(edges[between_racks], 0, 1, transform=axes.get_yaxis_transform(), color="black", linewidth=0.7)
    axes.set_ylim(instance.cluster.gpus, 0)
    axes.set_ylabel("GPU (a colour is a job)")


def _corners(table: np.ndarray, start_s: float, unit_s: float) -> list[np.ndarray]:
    """Return the corners of each bar, float64 [4, 2]."""
    left, right = (table["start_s"] - start_s) / unit_s, (table["end_s"] - start_s) / unit_s
    thick = table["rows"] / np.maximum(table["lanes"], 1)
    top = table["row"] + table["lane"] * thick
    columns = [left, top, right, top, right, top + thick, left, top + thick]
    return list(np.stack(columns, axis=1).reshape(len(table), 4, 2))
