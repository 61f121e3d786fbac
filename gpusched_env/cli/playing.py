"""``gpusched run``, ``gpusched compare`` and ``gpusched traces export``: play schedulers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.measure import Measurement
from rich.table import Table

from gpusched_env import __version__
from gpusched_env.cli.choosing import Draws, Problem, Processes, SchedulersOption
from gpusched_env.cli.outputs import PLOT_SUFFIXES, save_log, save_results, written
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.consoles import console, show

if TYPE_CHECKING:
    from gpusched_env.evaluation import Interrupted, RunResult
    from gpusched_env.scenarios import Scenario


@dataclass(frozen=True, kw_only=True)
class Files:
    """What is written."""

    output: Annotated[Path | None, written(".json", ".csv")] = None
    """Save all metrics as .json or .csv."""
    plot: Annotated[Path | None, written(*PLOT_SUFFIXES)] = None
    """Draw the runs of the first seed as .png, .svg or .pdf."""
    report: Annotated[Path | None, written(".html")] = None
    """Write an .html page: tables, curves, and the schedules with queue, links and a time slider."""

    def write(self, scenario: Scenario, results: list[RunResult], note: str) -> None:
        """Write the results, and draw the runs whose event logs were kept."""
        if self.output is not None:
            save_results(results, self.output)
        if self.plot is not None:
            _draw(scenario, [result for result in results if result.log is not None], self.plot)
        if self.report is not None:
            _report(scenario, results, self.report, note)


@dataclass(frozen=True, kw_only=True)
class RunFiles(Files):
    """What a run writes."""

    log: Annotated[Path | None, written(".npz", ".txt")] = None
    """Save the event log as arrays (.npz) or lines (.txt)."""


def run(
    scheduler: Annotated[
        str,
        typer.Option(
            help="Name (gpusched schedulers list), with parameters if wanted, such as tiresias:knob=8,packlimit=0.5; "
            "or a class of your own, package.module:Class.",
            metavar="SPEC",
        ),
    ],
    problem: Problem,
    draws: Draws,
    files: RunFiles,
) -> None:
    """Play one scheduler on one seed (by default the first report seed) and print every metric.

    Example: gpusched run --scenario philly-64-v1 --scheduler tiresias --plot tiresias.png
    """
    from gpusched_env.cli.parsing import not_for_reports

    chosen = problem.chosen()
    seed = draws.one(chosen.seeds.report[0])
    spec = one_scheduler(scheduler)
    tell_what_was_read(chosen, seed)
    from gpusched_env.evaluation import evaluate

    kept = any(path is not None for path in (files.plot, files.log, files.report))
    results = evaluate(chosen, [spec], [seed], keep_logs=kept)
    title = f"{spec}{', which reads true run times,' if results[0].scheduler.clairvoyant else ''} on {_title(results)}"
    note = "\n".join(filter(None, [not_for_reports([seed], chosen), *ignored(results)]))
    show(_metrics_table(results[0]), title, note, [result.as_dict() for result in results])
    if files.log is not None and results[0].log is not None:
        save_log(results[0].log, files.log)
    files.write(chosen, results, note)


def ignored(results: Sequence[RunResult]) -> list[str]:
    """Return what was ignored of the demands of jobs, in lines; what was dropped is printed before the runs."""
    return list(dict.fromkeys(line for result in results for line in result.told if line.startswith("ignored")))


def one_scheduler(text: str) -> str:
    """Return a spec."""
    from gpusched_env.cli.parsing import chosen_schedulers

    specs = chosen_schedulers([text])
    if len(specs) > 1:
        raise GpuschedError(f"--scheduler {text!r} names {len(specs)} schedulers: gpusched compare plays several")
    return specs[0]


def compare(schedulers: SchedulersOption, problem: Problem, draws: Draws, files: Files, processes: Processes) -> None:
    """Play several schedulers on the same seeds and compare their metrics, best mean JCT (or most deadlines met) first.

    By default these are five report seeds; of a log one, because every seed has the same jobs.

    Example: gpusched compare --scenario philly-64-v1 --schedulers fifo,sjf,srtf,las,tiresias
    """
    from gpusched_env.cli.parsing import chosen_schedulers, not_for_reports

    chosen = problem.chosen()
    seeds = draws.of(chosen)
    specs = chosen_schedulers(schedulers)
    tell_what_was_read(chosen, seeds[0])
    from gpusched_env.evaluation import Interrupted, evaluate
    from gpusched_env.evaluation.processes import backend

    shown = seeds[:1] if files.plot is not None or files.report is not None else ()
    try:
        with backend(processes.backend):
            results = evaluate(chosen, specs, seeds, processes.workers, keep_logs=shown)
    except Interrupted as stop:
        raise KeyboardInterrupt(_keep_finished(stop, files.output)) from stop
    spread = ", mean ± 95 % interval" if len(seeds) > 1 else ""
    note = "\n".join(filter(None, [not_for_reports(seeds, chosen), *ignored(results)]))
    rows = [result.as_dict() for result in results]
    show(_fitting(results, chosen), f"{_title(results)}{spread}", note, rows)
    files.write(chosen, results, note)


def export(
    output: Annotated[Path, written(help="File to write.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="sacct (read as slurm:FILE), swf or csv.", metavar="sacct|swf|csv", show_default=False
        ),
    ],
    problem: Problem,
    draws: Draws,
    scheduler: Annotated[str, typer.Option(help="Spec of the scheduler that plays.", metavar="SPEC")] = "fifo",
) -> None:
    """Play one scheduler on one seed and write the run as the log of a cluster, which the readers of logs can read.

    Example: gpusched traces export --format sacct --workload synthetic:philly --cluster 64x8 --output sacct.txt
    """
    from gpusched_env.evaluation import evaluate
    from gpusched_env.evaluation.accounting import FORMATS, ORIGIN, export_run

    if form not in FORMATS:
        raise GpuschedError(f"--format {unknown_name('format', form, FORMATS)}")
    chosen = problem.chosen()
    spec = one_scheduler(scheduler)
    report = chosen.trace_report
    if report is not None:
        print(report.describe())
    (result,) = evaluate(chosen, [spec], [draws.one(chosen.seeds.report[0])], keep_logs=True)
    if result.log is None:
        raise GpuschedError("export: the run has no event log")
    instance = chosen.instance(result.seed)
    remarks = export_run(instance, result.log, form, output, (report.origin if report else "") or ORIGIN)
    print(f"{output}: {len(instance.workload):,} jobs played by {spec}, seed {result.seed}")
    print(f"  event log {result.digest[:12]}")
    for remark in (*remarks, *ignored([result])):
        print(f"  note: {remark}")


def _keep_finished(stop: Interrupted, output: Path | None) -> str:
    """Write the finished runs if --output names a file; return a text that says what was kept."""
    told = f"{len(stop.results)} of {stop.runs} runs were finished"
    if output is None or not stop.results:
        return f"{told}; nothing was written" + ("" if output else " (--output keeps finished runs)")
    save_results(stop.results, output)
    return f"{told} and are in {output}"


def tell_what_was_read(scenario: Scenario, seed: int) -> None:
    """Print what was kept and dropped of a log, and a note on gangs that fit in no machine."""
    from gpusched_env.evaluation.progress import reading_shown

    with reading_shown():
        report = scenario.trace_report
    if report is not None:
        print(report.describe())
    if note := spread_note(scenario, seed):
        print(note)


def spread_note(scenario: Scenario, seed: int) -> str:
    """Return a note on how many jobs fit into no machine and run slower across machines; "" if there are none."""
    from gpusched_env.problem.cluster import MACHINE

    scenario = scenario.problem(seed)
    cluster, spec = scenario.cluster, scenario.workload
    largest = max(group.gpus for group in scenario.groups)
    log = scenario.log
    if cluster.gpus == largest or (log is not None and log.jobs["gpus"].max() <= largest):
        return ""  # no job needs to spread: a draw is not needed
    workload = spec.draw(seed, log, cluster.gpus, cluster.gpu_types)
    rows = workload.profiles.measured
    keys = ["profile", "gpu_type", "gpus"]
    rows = rows[(rows["gpus"] > largest) & np.isfinite(rows["compute_s"])]
    together = {tuple(row[keys]): row["compute_s"] for row in rows if row["tier"] == MACHINE}
    slower: dict[tuple[int, int], float] = {}  # (profile, gang size) -> largest slowdown when spread
    for row in rows[rows["tier"] > MACHINE]:
        one_machine_s = together.get(tuple(row[keys]), np.inf)  # inf: not measured in one machine
        ratio = (row["compute_s"] + row["communication_s"]) / one_machine_s
        job = int(row["profile"]), int(row["gpus"])
        slower[job] = max(ratio, slower.get(job, 1.0))
    jobs = list(zip(workload.jobs["profile"].tolist(), workload.jobs["gpus"].tolist(), strict=True))
    paying = [slower[job] for job in jobs if slower.get(job, 1.0) > 1]
    if not paying:
        return ""
    return (
        f"note: {len(paying):,} of {len(jobs):,} jobs fit into no machine (at most {largest} GPU{'s' * (largest > 1)}) "
        f"and run at the rates measured across machines, up to {max(paying):.3g} times slower; with --ignore-placement "
        "they run as fast as in one machine, as in Gavel's simulator"
    )


def _fitting(results: list[RunResult], scenario: Scenario) -> Table:
    """Return the comparison with as many of the usual metrics as fit the width of the terminal."""
    from gpusched_env.evaluation import comparison_table
    from gpusched_env.evaluation.tables import usual_metrics

    out = console()
    metrics = usual_metrics(results, scenario.network.topology is not None)
    for count in range(len(metrics), 0, -1):
        table = comparison_table(results, metrics[:count])
        if Measurement.get(out, out.options.update(max_width=1_000), table).maximum <= out.width:
            break
    if count < len(metrics):
        hidden = f"{len(metrics) - count} more columns in a wider terminal; all metrics with --output"
        table.caption = f"{table.caption}; {hidden}" if table.caption else hidden
    return table


def _metrics_table(result: RunResult) -> Table:
    """Return every metric of one run, with its lower bound and its meaning."""
    from gpusched_env.metrics import ALL_COLUMNS
    from gpusched_env.support.units import Unit, three_digits, unit_for

    table = Table("metric", show_edge=False, pad_edge=False, caption_justify="left")
    for heading in ("value", "lower bound"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("meaning", style="dim")
    for column in (column for column in ALL_COLUMNS if column.name in result.metrics):
        value, bound = result.metrics[column.name], result.bounds.get(column.name)
        unit = unit_for([value]) if column.unit == "s" else Unit("%", 0.01) if column.unit == "share" else Unit("", 1.0)

        def cell(number: float | None, unit: Unit = unit, count: bool = column.name in ("jobs", "finished")) -> str:
            if number is None or math.isnan(number):
                return "" if number is None else "-"
            return f"{number:,.0f}" if count else f"{three_digits(number / unit.seconds)} {unit.sign}".rstrip()

        heading = column.name.removesuffix("_s").replace("_", " ").replace("jct", "JCT")
        table.add_row(heading, cell(value), cell(bound), column.formula)
    table.caption = f"took {result.wall_s:.2f} s; event log {result.digest[:12]}"
    return table


def _title(results: Sequence[RunResult]) -> str:
    """Return what determines a result: the scenario and its fingerprint, the seeds, the version."""
    from gpusched_env.cli.parsing import seed_range

    first = results[0]
    window = "" if first.window is None else f", jobs {first.window[0]:,} to {first.window[1] - 1:,} measured"
    seeds = seed_range(sorted({result.seed for result in results}))
    return f"{first.scenario} ({first.fingerprint[:12]}), {seeds}{window}, gpusched-env {__version__}"


def _draw(scenario: Scenario, results: list[RunResult], path: Path) -> None:
    """Plot runs of one seed."""
    from gpusched_env.evaluation import plot_runs

    logs = {result.label: result.log for result in results if result.log is not None}
    plot_runs(scenario.instance(results[0].seed), logs, path, _title(results), results[0].window)


def _report(scenario: Scenario, results: list[RunResult], path: Path, note: str) -> None:
    """Write a page on all results, with the schedules of those runs whose event logs were kept."""
    from gpusched_env.reports import write_report

    seed = next(result.seed for result in results if result.log is not None)
    told = dict.fromkeys(line for result in results for line in (*note.splitlines(), *result.told))
    write_report(scenario.instance(seed), results, path, _title(results), list(told))
