"""A figure that compares runs by completion times, utilisation and queue length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.schedule_panel import draw_schedule
from gpusched_env.evaluation.tables import COUNT_ALL, metric_words
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import (
    LEAST_SEEDS,
    StepFunction,
    Window,
    end_of_run,
    held_gpus,
    job_times,
    jobs_waiting,
    paired_ratio,
    summarise,
)
from gpusched_env.metrics.summary import tracked
from gpusched_env.problem.instance import Instance
from gpusched_env.support.figures import COLOURS, DASHES, check_suffix, log_time_axis, save, tidy
from gpusched_env.support.units import unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# label -> problem and event log of each seed
Runs = dict[str, list[tuple[Instance, EventLog]]]
STEPS: Final = 300  # with more steps, means over bins are drawn; a line that changes in every pixel is a grey block


def plot_runs(
    instance: Instance | Sequence[Instance],
    logs: Mapping[str, EventLog | Sequence[EventLog]],
    path: str | Path | None = None,
    title: str = "",
    window: Window | None = None,
    ratio: tuple[str | None, str] = (None, "mean_jct_s"),
) -> Figure:
    """Draw the distribution of JCT, and utilisation and queue length over time, with a line for each scheduler.

    The axis of JCT is logarithmic. With several seeds, the distribution is that of the jobs of all seeds, the other
    lines are means over the seeds, and a panel shows the ratios of each seed to a reference. A single run is also
    drawn as a Gantt chart.

    Parameters
    ----------
    instance : the problem, or those of several seeds
    logs : label -> event log of a run of the problem, or one log for each problem
    path : figure to save, .png, .svg or .pdf; None = do not save
    window : arrival ranks of the jobs in the distribution, as in :func:`gpusched_env.metrics.summarise`
    ratio : label of the reference of several seeds, None = the first that finished all jobs, or the first; and the
        metric, a name of :data:`gpusched_env.metrics.COLUMNS`
    """
    problems = [instance] if isinstance(instance, Instance) else list(instance)
    logs = {label.replace("$", r"\$"): played for label, played in logs.items()}  # no mathematics of Matplotlib
    runs: Runs = {}
    for label, played in logs.items():
        mine = [played] if isinstance(played, EventLog) else list(played)
        if len(mine) != len(problems):
            raise GpuschedError(f"plot_runs: {len(mine)} event logs of {label!r} for {len(problems)} problems")
        runs[label] = list(zip(problems, mine, strict=True))
    if not runs or not problems:
        raise GpuschedError("plot_runs: give at least one run")
    if path is not None:
        check_suffix(path)
    # Figure is used instead of pyplot, which needs a backend and keeps figures open.
    from matplotlib.figure import Figure

    jcts = {
        label: [job_times(problem, log)["jct_s"][tracked(problem, window)] for problem, log in played]
        for label, played in runs.items()
    }
    reference, metric = ratio
    single, several = len(logs) == len(problems) == 1, len(logs) > 1 < len(problems)
    # [inch] below the curves: a Gantt chart, or a line for each scheduler
    below = 4.5 * single + (0.8 + 0.14 * len(logs) + 0.12 * sum(map(len, map(_lines, logs)))) * several
    figure = Figure(figsize=(11, 5.2 + 0.22 * -(-len(logs) // 4) + below), layout="constrained")
    rows = 2 + (below > 0)
    grid = figure.add_gridspec(rows, 2, width_ratios=(1, 1.25), height_ratios=(1, 1, below / 2.1)[:rows])
    jct, use, queue = figure.add_subplot(grid[:2, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
    use.sharex(queue)
    _draw_jct(jct, jcts)
    _draw_over_time(use, queue, runs)
    if single:
        ((problem, log),) = next(iter(runs.values()))
        _draw_schedule(figure.add_subplot(grid[2, :]), problem, log)
    elif several:
        values = {label: np.array([_value(*run, window, metric) for run in played]) for label, played in runs.items()}
        _draw_seeds(figure.add_subplot(grid[2, :]), values, reference and reference.replace("$", r"\$"), metric)
    told = f"left: jobs of all {len(problems)} seeds; right: means over the seeds" if len(problems) > 1 else None
    legend = figure.legend(
        jct.get_lines(),
        ["."] * len(logs),
        loc="outside lower center",
        ncols=min(4, len(logs)),
        frameon=False,
        title=told,
    )
    for text, label in zip(legend.texts, logs, strict=True):  # legend() leaves out labels that begin with "_"
        text.set_text(label)
    if title:
        figure.suptitle(title.replace("$", r"\$"))
    if path is not None:
        save(figure, path)
    return figure


def _draw_jct(axes: Axes, jcts: Mapping[str, list[np.ndarray]]) -> None:
    done = np.concatenate([values[np.isfinite(values) & (values > 0)] for one in jcts.values() for values in one])
    for number, seeds in enumerate(jcts.values()):
        pooled = np.sort(np.concatenate(seeds))
        shown = pooled[np.isfinite(pooled) & (pooled > 0)]
        share = np.arange(1, len(shown) + 1) / len(pooled)
        axes.step(shown, share, where="post", **_style(number, len(jcts)))
    if len(done):
        log_time_axis(axes, done.min() / 1.3, done.max() * 1.3)
    axes.set_ylim(0, 1.005)
    axes.set_xlabel("job completion time (log scale)")
    axes.set_ylabel("share of jobs finished within it")
    tidy(axes)


def _value(instance: Instance, log: EventLog, window: Window | None, metric: str) -> float:
    """Return a metric of a run; NaN if it leaves out jobs that did not finish, 0 if the run has none: no ratio."""
    numbers = summarise(instance, log, window=window)
    whole = metric in COUNT_ALL or numbers["finished"] >= numbers["jobs"]
    return numbers.get(metric, 0.0) if whole else np.nan


def _draw_seeds(axes: Axes, values: Mapping[str, np.ndarray], reference: str | None, metric: str) -> None:
    """Draw a point for each seed: its metric / that of the reference; a bar is the interval of their geometric mean."""
    whole = [label for label, mine in values.items() if np.isfinite(mine).all()]
    first = reference if reference is not None else next(iter(whole), next(iter(values)))
    intervals = len(values[first]) >= LEAST_SEEDS
    for number, (label, mine) in enumerate(values.items()):
        style = _style(number, len(values))
        ratios = np.full(len(mine), np.nan)
        np.divide(mine, values[first], out=ratios, where=values[first] > 0)
        if not np.isfinite(ratios).any():
            lacking = [one for one in (label, first) if one not in whole]
            why = f"{lacking[0]} left jobs unfinished" if lacking else "undefined"
            axes.text(0.01, number, why, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        axes.plot(ratios, np.full(len(ratios), number), "o", color=style["color"], alpha=0.45, markersize=4)
        if label != first and intervals and np.isfinite(ratios).all() and (ratios > 0).all():
            ratio = paired_ratio(mine, values[first])
            axes.plot([ratio.low, ratio.high], [number, number], color=style["color"], linewidth=2.5)
            axes.plot(ratio.mean, number, "D", color=style["color"], markeredgecolor="white")
    axes.axvline(1, color="#777777", linewidth=0.9, zorder=0.5)
    axes.set_yticks(range(len(values)), ["\n".join(_lines(label)) for label in values], fontsize=8)
    axes.set_ylim(len(values) - 0.5, -0.5)
    how = "; diamond and bar: geometric mean, 95 % interval" * intervals
    axes.set_xlabel(f"{metric_words(metric)} of each seed / that of {first}{how}")
    tidy(axes)


def _draw_over_time(use: Axes, queue: Axes, runs: Runs) -> None:
    from matplotlib.ticker import MaxNLocator

    lengths = [end_of_run(problem, log) - _start(problem) for played in runs.values() for problem, log in played]
    unit = unit_for([max(lengths)])
    edges = np.linspace(0.0, max(1e-9, *lengths), STEPS + 1)  # [s] since the first arrival of each seed
    for number, played in enumerate(runs.values()):
        style = _style(number, len(runs))
        for axes, series, scale in (
            (use, held_gpus, 100 / played[0][0].cluster.gpus),
            (queue, lambda _, log: jobs_waiting(log), 1.0),
        ):
            if len(played) == 1:
                ((problem, log),) = played
                start = _start(problem)
                times, values = series(problem, log).drawn(start + edges, end_of_run(problem, log))
                axes.step((times - start) / unit.seconds, values * scale, where="post", **style)
            else:
                drawn = np.array([_binned(series(problem, log), problem, log, edges) for problem, log in played])
                axes.step(edges[:-1] / unit.seconds, drawn.mean(0) * scale, where="post", **style)
    problems = [problem for problem, _ in next(iter(runs.values()))]
    arrivals = [float(problem.workload.jobs["arrival_s"].max()) - _start(problem) for problem in problems]
    first, last = min(arrivals) / unit.seconds, max(arrivals) / unit.seconds
    for axes in (use, queue):
        if len(problems) == 1:
            axes.axvline(last, color="#777777", linewidth=0.9, linestyle=(0, (2, 2)), zorder=0.5)
        else:
            axes.axvspan(first, last, color="#777777", alpha=0.15, linewidth=0, zorder=0.5)
    # x is in data coordinates, and y is a share of the height of the axes.
    words = "last arrival" if len(problems) == 1 else "last arrivals"
    use.text((first + last) / 2, 1.02, words, transform=use.get_xaxis_transform(), ha="center", fontsize=8)
    use.set_ylim(0, 102)
    use.set_ylabel("GPUs held [%]")
    use.tick_params(labelbottom=False)
    queue.set_ylim(0, max(1.0, queue.get_ylim()[1]))
    queue.yaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    queue.set_ylabel("jobs waiting")
    queue.set_xlabel(f"time since the first arrival [{unit.sign}]")
    queue.set_xlim(0, edges[-1] / unit.seconds)
    tidy(use)
    tidy(queue)
    use.figure.align_ylabels([use, queue])


def _lines(label: str) -> list[str]:
    """Return the lines of a label beside an axis."""
    return label.replace(",", ",\n").split("\n") if len(label) > 24 else [label]


def _start(instance: Instance) -> float:
    return float(instance.workload.jobs["arrival_s"].min())


def _binned(series: StepFunction, instance: Instance, log: EventLog, edges: np.ndarray) -> np.ndarray:
    """Return the mean in each bin of a run, whose time begins at its first arrival; 0 after the end of the run."""
    start, end = _start(instance), end_of_run(instance, log)
    area = series.integral(np.minimum(start + edges, end))
    return np.diff(area) / np.diff(edges)


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
