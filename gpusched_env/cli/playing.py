"""``gpusched run`` and ``gpusched compare``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpusched_env.cli.backends import BackendOption
from gpusched_env.cli.choosing import (
    EstimateOption,
    GpuResourceOption,
    IgnorePlacementOption,
    JobsOption,
    LoadOption,
    MapOption,
    MaxGpusOption,
    ProfilesOption,
    SampleOption,
    SkipBadRowsOption,
    WhereOption,
    WindowOption,
    chosen_jobs,
    read_options,
)
from gpusched_env.cli.networking import ContentionOption, NetworkOption, with_network
from gpusched_env.cli.preempting import PreemptionCostOption, with_preemption_cost
from gpusched_env.cli.sharing import SharingOption, with_sharing

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.evaluation import Interrupted, RunResult
    from gpusched_env.scenarios import Scenario

ScenarioOption = Annotated[
    str,
    typer.Option(
        "--scenario",
        help="Name (gpusched scenarios), with parameters if it has any, such as dally-poisson-v1:gpus=512,load=0.7; "
        "or the path of a .json or .toml file.",
        metavar="NAME|PATH",
    ),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(help="Play other jobs: a log (philly, helios, ...) or synthetic:NAME.", metavar="FORMAT:PATH"),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Play on other machines: nodes x GPUs, optionally / nodes per rack and @ GPU type, such as 310x8/31 or "
        "16x4@T4,4x8@A100; or a cluster description (openb, pai, slurm, ...), or slurm.conf.",
        metavar="NxG/R@TYPE|FORMAT:PATH",
    ),
]
OutputOption = Annotated[Path | None, typer.Option(help="Save all metrics as .json or .csv.", metavar="FILE")]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        help="Write an .html page: tables, curves, and the schedules with queue, links and a time slider.",
        metavar="FILE",
    ),
]


def run(
    scheduler: Annotated[
        str,
        typer.Option(
            help="Name (gpusched schedulers), with parameters if wanted, such as tiresias:knob=8,packlimit=0.5; "
            "or a class of your own, package.module:Class.",
            metavar="SPEC",
        ),
    ],
    scenario: ScenarioOption = "philly-64-v1",
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    network: NetworkOption = None,
    contention: ContentionOption = None,
    preemption_cost: PreemptionCostOption = None,
    sharing: SharingOption = None,
    window: WindowOption = None,
    where: WhereOption = None,
    max_gpus: MaxGpusOption = None,
    sample: SampleOption = None,
    jobs: JobsOption = None,
    load: LoadOption = None,
    profiles: ProfilesOption = None,
    mapping: MapOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    estimate: EstimateOption = None,
    gpu_resource: GpuResourceOption = None,
    ignore_placement: IgnorePlacementOption = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Which draw of the scenario.", show_default="first report seed")
    ] = None,
    output: OutputOption = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the run as .png, .svg or .pdf.", metavar="FILE")] = None,
    report: ReportOption = None,
    log: Annotated[
        Path | None, typer.Option(help="Save the event log as arrays (.npz) or lines (.txt).", metavar="FILE")
    ] = None,
) -> None:
    """Play one scheduler on one seed and print every metric.

    Example: gpusched run --scenario philly-64-v1 --scheduler tiresias --plot tiresias.png
    """
    from gpusched_env.cli.console import show
    from gpusched_env.cli.outputs import (
        LOG_SUFFIXES,
        RESULT_SUFFIXES,
        check_output,
        check_plot,
        check_report,
        save_log,
        save_results,
    )
    from gpusched_env.cli.parsing import chosen_scenario, chosen_schedulers, not_for_reports

    check_output("--output", output, RESULT_SUFFIXES)
    check_output("--log", log, LOG_SUFFIXES)
    check_plot(plot)
    check_report(report)
    read = read_options(mapping, skip_bad_rows, estimate, gpu_resource)
    wanted = chosen_jobs(window, where, max_gpus, sample, jobs, load, profiles, read, ignore_placement)
    chosen = chosen_scenario(scenario, workload, cluster, wanted)
    chosen = with_preemption_cost(with_network(chosen, network, contention), preemption_cost)
    chosen = with_sharing(chosen, sharing)
    seeds = [chosen.seeds.report[0] if seed is None else seed]
    specs = chosen_schedulers([scheduler])
    if len(specs) > 1:
        from gpusched_env.errors import GpuschedError

        raise GpuschedError(f"--scheduler {scheduler!r} names {len(specs)} schedulers: gpusched compare plays several")
    _tell_what_was_read(chosen, seeds[0])
    from gpusched_env.evaluation import evaluate

    results = evaluate(chosen, specs, seeds, keep_logs=any(path is not None for path in (plot, log, report)))
    title = (
        f"{specs[0]}{', which reads true run times,' if results[0].scheduler.clairvoyant else ''} on {_title(results)}"
    )
    show(_metrics_table(results[0]), title, not_for_reports(seeds, chosen))
    if output is not None:
        save_results(results, output)
    if log is not None and results[0].log is not None:
        save_log(results[0].log, log)
    if plot is not None:
        _draw(chosen, results, plot)
    if report is not None:
        _report(chosen, results, report, not_for_reports(seeds, chosen))


def compare(
    scheduler: Annotated[
        list[str],
        typer.Option(
            "--schedulers",
            "--scheduler",
            help="Specs, separated by commas, or several such options. A part parameter=value belongs to the "
            "scheduler before it: fifo,tiresias:knob=8,packlimit=0.5,srtf names three.",
            metavar="SPECS",
        ),
    ],
    scenario: ScenarioOption = "philly-64-v1",
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    network: NetworkOption = None,
    contention: ContentionOption = None,
    preemption_cost: PreemptionCostOption = None,
    sharing: SharingOption = None,
    window: WindowOption = None,
    where: WhereOption = None,
    max_gpus: MaxGpusOption = None,
    sample: SampleOption = None,
    jobs: JobsOption = None,
    load: LoadOption = None,
    profiles: ProfilesOption = None,
    mapping: MapOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    estimate: EstimateOption = None,
    gpu_resource: GpuResourceOption = None,
    ignore_placement: IgnorePlacementOption = False,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Number of the scenario's report seeds, or a range FIRST:END (END excluded).",
            metavar="COUNT|FIRST:END",
            show_default="5 report seeds; 1 for a log",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Processes, at most one per core; -1 = one per core. Results do not depend on it.")
    ] = 1,
    backend: BackendOption = "processes",
    output: OutputOption = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the runs on the first seed as .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    report: ReportOption = None,
) -> None:
    """Play several schedulers on the same seeds and compare their metrics, best mean JCT (or most deadlines met) first.

    Example: gpusched compare --scenario philly-64-v1 --schedulers fifo,sjf,srtf,las,tiresias --workers -1
    """
    from gpusched_env.cli.console import show
    from gpusched_env.cli.outputs import RESULT_SUFFIXES, check_output, check_plot, check_report, save_results
    from gpusched_env.cli.parsing import chosen_scenario, chosen_schedulers, chosen_seeds, not_for_reports

    check_output("--output", output, RESULT_SUFFIXES)
    check_plot(plot)
    check_report(report)
    read = read_options(mapping, skip_bad_rows, estimate, gpu_resource)
    wanted = chosen_jobs(window, where, max_gpus, sample, jobs, load, profiles, read, ignore_placement)
    chosen = chosen_scenario(scenario, workload, cluster, wanted)
    chosen = with_preemption_cost(with_network(chosen, network, contention), preemption_cost)
    chosen = with_sharing(chosen, sharing)
    draws = chosen_seeds(seeds, chosen)
    specs = chosen_schedulers(scheduler)
    _tell_what_was_read(chosen, draws[0])
    from gpusched_env.evaluation import Interrupted, evaluate
    from gpusched_env.evaluation.processes import backend as played_by

    shown = draws[:1] if plot is not None or report is not None else ()
    try:
        with played_by(backend):
            results = evaluate(chosen, specs, draws, workers, keep_logs=shown)
    except Interrupted as stop:
        raise KeyboardInterrupt(_keep_finished(stop, output)) from stop
    spread = ", mean ± 95 % interval" if len(draws) > 1 else ""
    show(_fitting(results, chosen), f"{_title(results)}{spread}", not_for_reports(draws, chosen))
    if output is not None:
        save_results(results, output)
    if plot is not None:
        _draw(chosen, [result for result in results if result.log is not None], plot)
    if report is not None:
        _report(chosen, results, report, not_for_reports(draws, chosen))


def _keep_finished(stop: Interrupted, output: Path | None) -> str:
    """Write the finished runs if --output names a file; return a text that says what was kept."""
    from gpusched_env.cli.outputs import save_results

    told = f"{len(stop.results)} of {stop.runs} runs were finished"
    if output is None or not stop.results:
        return f"{told}; nothing was written" + ("" if output else " (--output keeps finished runs)")
    save_results(stop.results, output)
    return f"{told} and are in {output}"


def _tell_what_was_read(scenario: Scenario, seed: int) -> None:
    """Print what was kept and dropped of a log, and a note on gangs that fit in no machine."""
    from gpusched_env.cli.spreading import spread_note
    from gpusched_env.evaluation.progress import reading_shown

    with reading_shown():
        report = scenario.trace_report
    if report is not None:
        print(report.describe())
    if note := spread_note(scenario, seed):
        print(note)


def _fitting(results: list[RunResult], scenario: Scenario) -> Table:
    """Return the comparison with as many of the usual metrics as fit the width of the terminal."""
    from rich.measure import Measurement

    from gpusched_env.evaluation import comparison_table
    from gpusched_env.evaluation.tables import usual_metrics
    from gpusched_env.support.consoles import console

    out = console()
    metrics = usual_metrics(results, scenario.network.topology is not None)
    for count in range(len(metrics), 0, -1):
        table = comparison_table(results, metrics[:count])
        if Measurement.get(out, out.options.update(max_width=1_000), table).maximum <= out.width:
            break
    if count < len(metrics):
        hidden = f"{len(metrics) - count} more columns in a wider terminal; all metrics with --output"
        table.caption = f"{table.caption}; {hidden}" if table.caption else hidden
        table.caption_justify = "left"
    return table


def _metrics_table(result: RunResult) -> Table:
    """Return every metric of one run, with its lower bound and its meaning."""
    from rich.table import Table

    from gpusched_env.metrics import ALL_COLUMNS
    from gpusched_env.support.units import Unit, three_digits, unit_for

    table = Table("metric", show_edge=False, pad_edge=False)
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
    table.caption_justify = "left"
    return table


def _title(results: Sequence[RunResult]) -> str:
    """Return what determines a result: the scenario and its fingerprint, the seeds, the version."""
    from gpusched_env import __version__
    from gpusched_env.cli.parsing import seed_range

    first = results[0]
    window = "" if first.window is None else f", jobs {first.window[0]:,} to {first.window[1] - 1:,} measured"
    seeds = seed_range(sorted({result.seed for result in results}))
    return f"{first.scenario} ({first.fingerprint[:12]}), {seeds}{window}, gpusched-env {__version__}"


def _draw(scenario: Scenario, results: list[RunResult], path: Path) -> None:
    """Plot runs of one seed."""
    from gpusched_env.evaluation import plot_runs, scheduler_labels

    labels = scheduler_labels(results)
    logs = {label: result.log for label, result in zip(labels, results, strict=True) if result.log is not None}
    plot_runs(scenario.instance(results[0].seed), logs, path, _title(results), results[0].window)


def _report(scenario: Scenario, results: list[RunResult], path: Path, note: str) -> None:
    """Write a page on all results, with the schedules of those runs whose event logs were kept."""
    from gpusched_env.reports import write_report

    seed = next(result.seed for result in results if result.log is not None)
    write_report(scenario.instance(seed), results, path, _title(results), [note] if note else [])
