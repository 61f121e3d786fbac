"""``gpusched run``, ``gpusched compare`` and ``gpusched traces export``: play schedulers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import typer

from gpusched_env import __version__
from gpusched_env.cli.choosing import Draws, Problem, Processes, SchedulersOption
from gpusched_env.cli.outputs import PLOT_SUFFIXES, RESULT_SUFFIXES, output_of_results, save_log, save_results, written
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.consoles import show
from gpusched_env.support.tables import Table

if TYPE_CHECKING:
    from gpusched_env.evaluation import Results, RunResult
    from gpusched_env.scenarios import Scenario


@dataclass(frozen=True, kw_only=True)
class Files:
    """What is written."""

    output: Annotated[list[Path] | None, written(*RESULT_SUFFIXES)] = None
    """Save all metrics of all runs as .json or .csv, or the table as .tex (booktabs) or .md; - prints the CSV, and
    nothing else, to standard output. May be given repeatedly."""
    plot: Annotated[Path | None, written(*PLOT_SUFFIXES)] = None
    """Draw the runs of all seeds as .png, .svg or .pdf."""
    report: Annotated[Path | None, written(".html")] = None
    """Write an .html page: tables, curves, and the schedules with queue, links and a time slider."""

    def kept(self, seeds: Sequence[int]) -> Sequence[int]:
        """Return the seeds whose event logs are needed: all for a plot, the first one for a page."""
        return seeds if self.plot is not None else seeds[: self.report is not None]

    def write(self, scenario: Scenario, results: list[RunResult], note: str, ratio: tuple[str | None, str]) -> None:
        """Draw the runs whose event logs were kept."""
        if self.plot is not None:
            _draw(scenario, results, self.plot, ratio)
        if self.report is not None:
            _report(scenario, results, self.report, note, ratio[0])


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a table of results shows."""

    PANEL: ClassVar = "Table"
    columns: tuple[str, ...] = ()
    """Metrics (docs/metrics.md) instead of the usual ones; ratio = the metric before it / that of the reference;
    x_bound = mean JCT / its lower bound."""
    reference: Annotated[str | None, typer.Option(metavar="LABEL")] = None
    """Scheduler to which ratios refer, paired by seed, instead of the first row that finished all jobs."""

    def check(self, labels: Sequence[str]) -> None:
        """Refuse unknown columns and references before the runs."""
        from gpusched_env.evaluation.tables import check_columns

        check_columns(self.columns, "--columns ")
        if self.reference is not None and self.reference not in labels:
            raise GpuschedError(f"--reference {unknown_name('label', self.reference, labels)}")


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
    from gpusched_env.evaluation.tables import metrics_table

    with output_of_results(files.output) as out:
        results = evaluate(chosen, [spec], [seed], keep_logs=files.kept([seed]) or files.log is not None)
        knowing = ", which reads true run times," * results[0].scheduler.clairvoyant
        title = f"{results[0].label}{knowing} on {_title(results)}"
        note = "\n".join(filter(None, [not_for_reports([seed], chosen), *ignored(results)]))
        told = f"took {results[0].wall_s:.2f} s; event log {results[0].digest[:12]}"
        table = dataclasses.replace(metrics_table(results), caption=title)
        show(table, note=f"{told}\n{note}".strip(), runs=[result.as_dict() for result in results])
        save_results(results, files.output or (), out, table.noting(note))
        if files.log is not None and results[0].log is not None:
            save_log(results[0].log, files.log)
        files.write(chosen, results, note, (None, "mean_jct_s"))


def ignored(results: Sequence[RunResult]) -> list[str]:
    """Return what was ignored of the demands of jobs, assumed of their run times, and given up, in lines.

    What was dropped is printed before the runs.
    """
    lines = (line for result in results for line in result.told if line.startswith(("ignored", "assumed", "given up")))
    return list(dict.fromkeys(lines))


def one_scheduler(text: str) -> str:
    """Return a spec."""
    from gpusched_env.cli.parsing import chosen_schedulers

    specs = chosen_schedulers([text])
    if len(specs) > 1:
        raise GpuschedError(f"--scheduler {text!r} names {len(specs)} schedulers: gpusched compare plays several")
    return specs[0]


def compare(
    schedulers: SchedulersOption, problem: Problem, draws: Draws, shape: Shape, files: Files, processes: Processes
) -> None:
    """Play several schedulers on the same seeds and compare their metrics, best mean JCT (or most deadlines met) first.

    By default these are five report seeds; of a log one, because every seed has the same jobs.

    Example: gpusched compare --scenario philly-64-v1 --schedulers fifo,sjf,srtf,las,tiresias --output table.tex
    """
    from gpusched_env.baselines.registry import split_name
    from gpusched_env.cli.parsing import chosen_schedulers

    chosen = problem.chosen()
    seeds = draws.of(chosen)
    specs = chosen_schedulers(schedulers)
    shape.check([name or spec for name, spec in map(split_name, specs)])
    with output_of_results(files.output) as out:
        tell_what_was_read(chosen, seeds[0])
        from gpusched_env.evaluation import Interrupted, evaluate
        from gpusched_env.evaluation.processes import backend

        try:
            with backend(processes.backend):
                results = evaluate(chosen, specs, seeds, processes.workers, keep_logs=files.kept(seeds))
        except Interrupted as stop:
            told = f"{len(stop.results)} of {stop.runs} runs were finished"
            raise KeyboardInterrupt(told + _keep_finished(chosen, stop.results, shape, files, out)) from stop
        except GpuschedError as error:
            if not error.finished:
                raise
            told = f"{error}; {len(error.finished)} of {len(specs) * len(seeds)} runs were finished"
            raise GpuschedError(told + _keep_finished(chosen, error.finished, shape, files, out)) from error
        _tell_comparison(chosen, results, shape, files, out)


def _tell_comparison(scenario: Scenario, results: Results, shape: Shape, files: Files, out: IO[str]) -> None:
    """Print and write a comparison."""
    table, note, metric = _told(scenario, results, shape)
    show(table, note=note, runs=[result.as_dict() for result in results])
    save_results(results, files.output or (), out, table.noting(note))
    files.write(scenario, results, note, (shape.reference, metric))


def _told(scenario: Scenario, results: Sequence[RunResult], shape: Shape) -> tuple[Table, str, str]:
    """Return the table of a comparison, a note on its seeds and jobs, and the metric of its first ratio."""
    from gpusched_env.cli.parsing import not_for_reports
    from gpusched_env.evaluation.tables import comparison_table, ratio_metric, spread_in_words, usual_metrics

    metrics = shape.columns or usual_metrics(results, scenario.network.topology is not None)
    table = comparison_table(results, metrics, shape.reference)
    table = dataclasses.replace(table, caption=f"{_title(results)}{spread_in_words(results)}")
    seeds = sorted({result.seed for result in results})
    note = "\n".join(filter(None, [not_for_reports(seeds, scenario), *ignored(results)]))
    return table, note, ratio_metric(metrics, results)


def _keep_finished(scenario: Scenario, results: Sequence[RunResult], shape: Shape, files: Files, out: IO[str]) -> str:
    """Write the finished runs if --output names a file; return a text that says what was kept."""
    if not files.output or not results:
        return "; nothing was written" + ("" if files.output else " (--output keeps finished runs)")
    if shape.reference not in [result.label for result in results]:
        shape = dataclasses.replace(shape, reference=None)
    table, note, _ = _told(scenario, results, shape)
    save_results(results, files.output, out, table.noting(f"the runs ended early: only these were finished\n{note}"))
    return f" and are in {', '.join(map(str, files.output))}"


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


def _title(results: Sequence[RunResult]) -> str:
    """Return what determines a result: the scenario and its fingerprint, the seeds, the version."""
    from gpusched_env.cli.parsing import seed_range
    from gpusched_env.evaluation.tables import apart

    first = results[0]
    window = "" if first.window is None else f", jobs {first.window[0]:,} to {first.window[1] - 1:,} measured"
    seeds = sorted({result.seed for result in apart(results)})
    drawn = f"{len(seeds)} " * (len(seeds) > 1) + seed_range(seeds)
    return f"{first.scenario} ({first.fingerprint[:12]}), {drawn}{window}, gpusched-env {__version__}"


def _draw(scenario: Scenario, results: list[RunResult], path: Path, ratio: tuple[str | None, str]) -> None:
    """Plot the runs of a comparison, in the order of its table."""
    from gpusched_env.evaluation import plot_runs
    from gpusched_env.evaluation.tables import compared

    groups, first = compared(results, ratio[0])
    logs = {label: [run.log for run in runs if run.log is not None] for label, runs in groups.items()}
    instances = [scenario.instance(run.seed) for run in groups[first]]
    plot_runs(instances, logs, path, _title(results), results[0].window, (first, ratio[1]))


def _report(scenario: Scenario, results: list[RunResult], path: Path, note: str, reference: str | None) -> None:
    """Write a page on all results, with the schedules of those runs whose event logs were kept."""
    from gpusched_env.reports import write_report

    seed = next(result.seed for result in results if result.log is not None)
    results = [one if one.seed == seed else dataclasses.replace(one, log=None) for one in results]
    told = dict.fromkeys(line for result in results for line in (*note.splitlines(), *result.told))
    write_report(scenario.instance(seed), results, path, _title(results), list(told), reference)
