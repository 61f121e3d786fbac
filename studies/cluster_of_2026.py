"""What can scheduling gain on a cluster that trains LLMs? JCT by class of jobs, and what becomes of the GPU time.

``python -m studies.cluster_of_2026`` plays report seeds of ``llm-1024-h100-v0`` by each scheduler, prints two tables,
and writes them and a figure to ``docs/cluster_of_2026``. GPU time is that of the cluster until the last job is
submitted, in these parts:

* useful: progress that remains, at the pace of the ideal placement
* network: what placements and contention add to it
* failures: progress that is lost, the time to notice a failure, restarts after it, and nodes that are down
* preemption: checkpoints and restores of other stops
* blocked: GPUs that are idle while jobs wait that ask for as many GPUs in all
* idle: the rest
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import ARRIVAL, COMPLETE, FAIL, EventLog
from gpusched_env.metrics import job_times, lower_bounds, segments
from gpusched_env.metrics.segments import productive_s
from gpusched_env.metrics.series import StepFunction
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.support.figures import COLOURS, save
from gpusched_env.support.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCENARIO: Final = "llm-1024-h100-v0"
FOLDER: Final = Path(__file__).parents[1] / "docs" / "cluster_of_2026"
SCHEDULERS: Final = (
    "fifo", "fifo-easy", "fifo-easy:placement=rails", "fifo-easy:placement=spread", "prudent", "kueue-reclaim", "las",
    "srtf", "arnold", "hived", "meta-rsc",
)  # fmt: skip
CLASSES: Final = ("pretrain", "sft", "debug", "evaluation")
PARTS: Final = ("useful", "network", "failures", "preemption", "blocked", "idle")
BOUND: Final = "bound"
HOUR_S: Final = 3_600.0


def gpu_time(instance: Instance, log: EventLog) -> dict[str, float]:
    """Return the parts of the GPU time of the cluster until the last submission, as shares."""
    end_s = float(instance.workload.jobs["arrival_s"].max())
    table = segments(instance, log, end_s)
    kind = np.append(log.events["kind"], -1)  # -1, the number of an event that is not there, finds the last
    gpus, progress = table["gpus"].astype(float), productive_s(table)
    before_s = np.minimum(np.minimum(table["progress_s"], table["stop_s"]), end_s) - table["hold_s"]
    failed = kind[table["stop_event"]] == FAIL
    again = np.append(False, failed[:-1] & (table["job"][1:] == table["job"][:-1]))  # starts again after a failure
    ideal_s = instance.ideal_s / instance.iterations
    done = progress / table["iteration_s"]
    lost = np.zeros(len(table))
    if failed.any():
        from gpusched_env.metrics.failures import lost_s
        from gpusched_env.metrics.validate_work import iterations_before

        lost = lost_s(log, table, iterations_before(instance, log, table))
    useful = (done - lost / table["iteration_s"]) * ideal_s[table["job"]]
    after_s = table["free_s"] - table["stop_s"]
    parts = {
        "useful": useful,
        "network": progress - lost - useful,
        "failures": lost + np.where(failed, after_s, 0.0) + np.where(again, before_s, 0.0),
        "preemption": np.where(failed, 0.0, after_s) + np.where(again, 0.0, before_s),
    }
    whole = instance.cluster.gpus * end_s
    shares = {name: float((seconds * gpus).sum()) / whole for name, seconds in parts.items()}
    free = _free_gpus(instance, log, table, end_s)
    return shares | {name: seconds / whole for name, seconds in free.items()}


def _free_gpus(instance: Instance, log: EventLog, table: np.ndarray, end_s: float) -> dict[str, float]:
    """Return the GPU time in which GPUs were free [GPU s], by whether waiting jobs asked for them."""
    events, demand = log.events, instance.workload.jobs["gpus"]
    inside = events["time_s"] <= end_s
    arrived, ended = (events[inside & (events["kind"] == kind)] for kind in (ARRIVAL, COMPLETE))
    system = StepFunction.of_changes(
        np.concatenate([arrived["time_s"], ended["time_s"]]),
        np.concatenate([demand[arrived["job"]], -demand[ended["job"]]]),
    )
    held = StepFunction.of_changes(
        np.concatenate([table["hold_s"], table["free_s"]]), np.concatenate([table["gpus"], -table["gpus"]])
    )
    times = np.unique(np.concatenate([[0.0], system.times_s, held.times_s, [end_s]]))
    seconds, at = np.diff(times), times[:-1]
    free = instance.cluster.gpus - held.at(at)
    waiting = np.maximum(system.at(at) - held.at(at), 0.0)
    blocked = float((np.minimum(free, waiting) * seconds).sum())
    return {"blocked": blocked, "idle": float((free * seconds).sum()) - blocked}


def measure(instance: Instance, name: str, seed: int) -> dict[str, Any]:
    """Play a scheduler; return its mean JCT of each class [h], the parts of the GPU time, and its seconds."""
    begin = time.process_time()
    log = simulate(instance, make_scheduler(name), seed=seed)
    row: dict[str, Any] = {"scheduler": name, "seed": seed, "cpu_s": time.process_time() - begin}
    times, queue = job_times(instance, log), instance.workload.attributes["queue"]
    row["finished"] = float(np.isfinite(times["finish_s"]).mean())
    row["all"] = float(np.nanmean(times["jct_s"])) / HOUR_S
    row |= {one: float(np.nanmean(times["jct_s"][queue == one])) / HOUR_S for one in CLASSES}
    return row | gpu_time(instance, log)


def bound(instance: Instance, seed: int) -> dict[str, Any]:
    """Return what no scheduler can do better: each class alone never waits, and no GPU time is lost."""
    queue = instance.workload.attributes["queue"]
    row: dict[str, Any] = {"scheduler": BOUND, "seed": seed, "all": lower_bounds(instance)["mean_jct_s"] / HOUR_S}
    row |= {one: float(instance.ideal_s[queue == one].mean()) / HOUR_S for one in CLASSES}
    return row | {"finished": 1.0, "cpu_s": 0.0} | dict.fromkeys(PARTS, float("nan"))


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average the seeds of each scheduler."""
    names = dict.fromkeys(row["scheduler"] for row in rows)
    numbers = ("all", *CLASSES, *PARTS, "finished", "cpu_s")
    return [
        {"scheduler": name}
        | {key: float(np.mean([row[key] for row in rows if row["scheduler"] == name])) for key in numbers}
        for name in names
    ]


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the JCTs of each class, and the parts of the GPU time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    played = [row for row in rows if row["scheduler"] != BOUND]
    limits = next(row for row in rows if row["scheduler"] == BOUND)
    _draw_jct(left, played, limits)
    place, begin = np.arange(len(played)), np.zeros(len(played))
    for colour, part in zip((*COLOURS[2:3], *COLOURS[4:6], COLOURS[3], COLOURS[1], "#d9d9d9"), PARTS, strict=True):
        share = 100 * np.array([row[part] for row in played])
        right.barh(place, share, 0.7, begin, color=colour, label=part)
        begin += share
    right.set_xlabel("GPU time until the last submission [%]")
    right.set_xlim(0, 100)
    right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, fontsize=9, handlelength=1.0)
    save(figure, path)


def _draw_jct(axes: Axes, played: Sequence[dict[str, Any]], limits: dict[str, Any]) -> None:
    place = np.arange(len(played))
    for colour, marker, one in zip(COLOURS, "osD^", CLASSES, strict=False):
        axes.plot([row[one] for row in played], place, marker, color=colour, markersize=6, label=one)
        axes.axvline(limits[one], color=colour, linewidth=1, linestyle="dotted")
    axes.set_xscale("log")
    axes.set_yticks(place, [row["scheduler"] for row in played])
    axes.invert_yaxis()
    axes.set_xlabel("mean JCT [h]; dotted: nobody waits")
    axes.grid(axis="x", color="#e0e0e0")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=9, handlelength=1.0)


def main(
    seeds: Annotated[int, typer.Option(help="Number of report seeds.", min=1)] = 3,
    scenario: Annotated[str, typer.Option(help="Scenario, or a file.")] = SCENARIO,
    schedulers: Annotated[str, typer.Option(help="Specs, with semicolons between them.")] = ";".join(SCHEDULERS),
    output: Annotated[Path, typer.Option(help="Folder of results.csv and figure.png.")] = FOLDER,
) -> None:
    """Compare schedulers on a cluster that trains LLMs."""
    chosen, rows = get_scenario(scenario), []
    first = chosen.seeds.report[0]
    for seed in range(first, first + seeds):
        instance = chosen.instance(seed)
        rows.append(bound(instance, seed))
        rows += [measure(instance, name, seed) for name in schedulers.split(";")]
    told = means(rows)
    for title, names, form in (("mean JCT [h]", ("all", *CLASSES), "{:.2f}"), ("GPU time", PARTS, "{:.1%}")):
        table = plain_table("scheduler", *names)
        for row in told:
            table.add_row(row["scheduler"], *(form.format(row[name]) for name in names))
        show(table, f"{title}, {scenario}, {seeds} seeds")
    output.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{one:.6g}" if isinstance(one, float) else one for key, one in row.items()} for row in rows)
    write_whole(output / "results.csv", text.getvalue())
    draw(told, output / "figure.png")


if __name__ == "__main__":
    run_script(main)
