"""A figure that compares runs by completion times, utilisation and queue length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.schedule_panel import draw_schedule
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import Window, end_of_run, held_gpus, job_times, jobs_waiting
from gpusched_env.metrics.summary import tracked
from gpusched_env.problem.instance import Instance
from gpusched_env.support.figures import COLOURS, DASHES, check_suffix, log_time_axis, save, tidy
from gpusched_env.support.units import unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS: Final = 300  # with more steps, means over bins are drawn; a line that changes in every pixel is a grey block


def plot_runs(
    instance: Instance,
    logs: Mapping[str, EventLog],
    path: str | Path | None = None,
    title: str = "",
    window: Window | None = None,
) -> Figure:
    """Draw the distribution of JCT, and utilisation and queue length over time, with a line for each run.

    The axis of JCT is logarithmic. If there is only one run, its schedule is drawn below as a Gantt chart.

    ``logs`` : label -> event log of a run of ``instance``. ``path`` : figure to save, .png, .svg or .pdf; None = do not
    save. ``window`` : arrival ranks of the jobs in the distribution, as in :func:`gpusched_env.metrics.summarise`.

    Raises
    ------
    GpuschedError : no run, or an unknown suffix
    """
    if not logs:
        raise GpuschedError("plot_runs: give at least one run")
    if path is not None:
        check_suffix(path)
    # Figure is used instead of pyplot, which needs a backend and keeps figures open.
    from matplotlib.figure import Figure

    rows = -(-len(logs) // 4)
    single = len(logs) == 1
    figure = Figure(figsize=(11, 5.2 + 0.22 * rows + 4.5 * single), layout="constrained")
    grid = figure.add_gridspec(2 + single, 2, width_ratios=(1, 1.25), height_ratios=(1, 1, 2.2)[: 2 + single])
    jct, use, queue = figure.add_subplot(grid[:2, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    use.sharex(queue)
    _draw_jct(jct, instance, logs, window)
    _draw_over_time(use, queue, instance, logs)
    if single:
        _draw_schedule(figure.add_subplot(grid[2, :]), instance, *logs.values())
    handles, labels = jct.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(logs)), frameon=False)
    if title:
        figure.suptitle(title)
    if path is not None:
        save(figure, path)
    return figure


def _draw_jct(axes: Axes, instance: Instance, logs: Mapping[str, EventLog], window: Window | None) -> None:
    rows = tracked(instance, window)
    jcts = {label: np.sort(job_times(instance, log)["jct_s"][rows]) for label, log in logs.items()}
    shortest, longest = np.inf, 0.0
    for number, (label, values) in enumerate(jcts.items()):
        done = values[np.isfinite(values) & (values > 0)]
        share = np.arange(1, len(done) + 1) / len(values)
        axes.step(done, share, where="post", label=label, **_style(number, len(jcts)))
        if len(done):
            shortest, longest = min(shortest, done[0]), max(longest, done[-1])
    if longest > 0:
        log_time_axis(axes, shortest / 1.3, longest * 1.3)
    axes.set_ylim(0, 1.005)
    axes.set_xlabel("job completion time (log scale)")
    axes.set_ylabel("share of jobs finished within it")
    tidy(axes)


def _draw_over_time(use: Axes, queue: Axes, instance: Instance, logs: Mapping[str, EventLog]) -> None:
    from matplotlib.ticker import MaxNLocator

    start = float(instance.workload.jobs["arrival_s"].min())
    ends = {label: end_of_run(instance, log) for label, log in logs.items()}
    unit = unit_for([max(ends.values()) - start])
    edges = np.linspace(start, max(start + 1e-9, *ends.values()), STEPS + 1)
    for number, (label, log) in enumerate(logs.items()):
        for axes, series, scale in (
            (use, held_gpus(instance, log), 100 / instance.cluster.gpus),
            (queue, jobs_waiting(log), 1.0),
        ):
            times, values = series.drawn(edges, ends[label])
            axes.step((times - start) / unit.seconds, values * scale, where="post", **_style(number, len(logs)))
    last_arrival = (float(instance.workload.jobs["arrival_s"].max()) - start) / unit.seconds
    for axes in (use, queue):
        axes.axvline(last_arrival, color="#777777", linewidth=0.9, linestyle=(0, (2, 2)), zorder=0.5)
    # x is in data coordinates, and y is a share of the height of the axes.
    use.text(last_arrival, 1.02, "last arrival", transform=use.get_xaxis_transform(), ha="center", fontsize=8)
    use.set_ylim(0, 102)
    use.set_ylabel("GPUs held [%]")
    use.tick_params(labelbottom=False)
    queue.set_ylim(0, max(1.0, queue.get_ylim()[1]))
    queue.yaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    queue.set_ylabel("jobs waiting")
    queue.set_xlabel(f"time since the first arrival [{unit.sign}]")
    queue.set_xlim(0, (edges[-1] - start) / unit.seconds)
    tidy(use)
    tidy(queue)
    use.figure.align_ylabels([use, queue])


def _draw_schedule(axes: Axes, instance: Instance, log: EventLog) -> None:
    start = float(instance.workload.jobs["arrival_s"].min())
    end = end_of_run(instance, log)
    unit = unit_for([end - start])
    draw_schedule(axes, instance, log, start, unit.seconds)
    axes.set_xlabel(f"time since the first arrival [{unit.sign}]")
    axes.set_xlim(0, max(end - start, 1e-9) / unit.seconds)
    axes.spines[["top", "right"]].set_visible(False)


def _style(number: int, lines: int) -> dict[str, Any]:
    """Return the colour, dashes and width of a line: 28 different styles, then thinner ones."""
    colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": colour, "linestyle": dashes, "linewidth": 2.6 - 1.4 * number / max(lines - 1, 1)}
