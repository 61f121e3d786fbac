"""``gpusched traces describe`` and ``cluster``: what a workload and a list of machines hold."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer
from rich.text import Text

from gpusched_env.cli.choosing import Draws, Jobs
from gpusched_env.cli.outputs import check_figures
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.consoles import plain_table, show

if TYPE_CHECKING:
    from gpusched_env.evaluation.workload_plots import Picture
    from gpusched_env.problem.workload import Workload

# Log format -> the generator calibrated on that log, where their names differ
CALIBRATION_OF: Final = {"helios": "helios-venus", "philly-csv": "philly", "philly-json": "philly"}
LLM_DEV: Final = "llm-dev"  # generator whose jobs are compared with what is published of Kalos
CALIBRATED_JOBS: Final = 50_000  # jobs drawn from a calibrated generator if --jobs is not given


def describe(
    source: Annotated[str, typer.Argument(metavar="FORMAT:PATH|synthetic:NAME")],
    jobs: Jobs,
    draws: Draws,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Machines for which to give the load: 310x8/31, 16x4@T4, or a cluster description (openb, pai, ...).",
            metavar="NxG/R@TYPE|FORMAT:PATH",
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            help="Compare the jobs with the statistics of this log: helios-venus, pai or philly.",
            metavar="NAME",
            show_default="that of the source",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw all panels as one .png, .svg or .pdf, or each in a folder.", metavar="FILE|FOLDER"),
    ] = None,
) -> None:
    """Describe the jobs of a log or a generator: arrivals, demand, run times, load, users, similarity to a log.

    A generator draws with seed 0, unless another is given.

    Example: gpusched traces describe philly:cluster_job_log.json --cluster 310x8 --plot philly.png
    """
    from gpusched_env.cli.parsing import chosen_cluster
    from gpusched_env.evaluation.workload_plots import Picture
    from gpusched_env.scenarios.workload_spec import SYNTHETIC
    from gpusched_env.traces import scale_to_load
    from gpusched_env.traces.description import with_run_times
    from gpusched_env.traces.generators.synthetic import CALIBRATIONS

    check_figures(plot)
    if calibration is not None and calibration not in CALIBRATIONS:
        raise GpuschedError(f"--calibration: {unknown_name('calibration', calibration, CALIBRATIONS)}")
    if jobs.load is not None and cluster is None:
        raise GpuschedError("--load needs a cluster: give --cluster too")
    seed = draws.one()
    found = find_jobs(source, seed, dataclasses.replace(jobs, load=None).changes())
    workload = found.workload
    machines = None if cluster is None else chosen_cluster(cluster)[0]
    if machines is not None:
        workload = with_run_times(workload, machines)
        if jobs.load is not None:
            workload = scale_to_load(workload, jobs.load, machines.gpus)
    own = CALIBRATION_OF.get(found.kind, found.kind)
    calibration = calibration or (own if own in CALIBRATIONS else None)
    picture = Picture(workload, None, found.start_hour, machines.gpus if machines else None)
    if calibration is not None:
        picture = _beside(picture, calibration, seed if source == SYNTHETIC + calibration else None, jobs.max_gpus)
    elif found.kind == LLM_DEV:
        picture = _beside_acme(picture, seed)
    _show(picture, found.title, plot)


def _show(picture: Picture, title: str, plot: Path | None) -> None:
    """Print the tables and draw the figures."""
    from gpusched_env.cli.workload_tables import class_table, fit_table, group_tables, overview_table

    show(overview_table(picture), title)
    for table in (class_table(picture.workload), *group_tables(picture.workload)):
        print()
        show(table)
    if picture.checks:
        from gpusched_env.traces.generators.llm_shares import SOURCES

        log = SOURCES if picture.calibration is None else picture.calibration.log
        show(fit_table(picture.checks), f"\ncompared with {log} ({picture.judged})")
    if plot is not None:
        from gpusched_env.evaluation.workload_plots import plot_panels, plot_workload

        (plot_workload if plot.suffix else plot_panels)(picture, plot, title)


class _Found(NamedTuple):
    """Jobs, the hour of the week at their time 0 (NaN = unknown), a title, and their format or generator."""

    workload: Workload
    start_hour: float
    title: str
    kind: str


def find_jobs(source: str, seed: int, changes: dict[str, Any]) -> _Found:
    """Draw the jobs, or read them and print what was kept and what was dropped."""
    from gpusched_env.evaluation.progress import reading_shown
    from gpusched_env.scenarios import WorkloadSpec
    from gpusched_env.scenarios.workload_spec import DEFAULT_JOBS, SYNTHETIC
    from gpusched_env.traces.description import hour_of_week
    from gpusched_env.traces.generators.synthetic import CALIBRATIONS

    spec = WorkloadSpec(source, profiles="own", **changes)
    if not spec.synthetic:
        with reading_shown():
            workload, report = spec.read()
        print(report.describe())
        return _Found(workload, hour_of_week(report.origin), f"{report.format}:{Path(report.path).name}", report.format)
    generator = source.removeprefix(SYNTHETIC)
    calibrated = generator in CALIBRATIONS
    count = spec.jobs or (CALIBRATED_JOBS if calibrated else DEFAULT_JOBS)
    parameters = {"start_hour": 0.0} if calibrated else {}  # a known hour, for statistics by hour of the week
    workload = dataclasses.replace(spec, jobs=count, parameters=parameters).draw(seed, None, 0, ())
    return _Found(workload, parameters.get("start_hour", math.nan), f"{source}, seed {seed}", generator)


def _beside(picture: Picture, name: str, seed: int | None, max_gpus: int | None) -> Picture:
    """Compare the jobs with a log; if ``seed`` is given, compare 40 draws of the log's own generator instead."""
    from gpusched_env.traces.generators.acceptance import acceptance, measure, measure_generator
    from gpusched_env.traces.generators.synthetic import CALIBRATIONS

    log = CALIBRATIONS[name]
    if seed is None:
        measured = measure(picture.workload, log, picture.start_hour)
        judged = "these jobs; the bounds are for medians of many draws"
    else:
        measured = measure_generator(name, seed, max_gpus=max_gpus)
        judged = "medians of 40 draws of 50,000 jobs"
    return dataclasses.replace(picture, calibration=log, checks=acceptance(measured, log), judged=judged)


def _beside_acme(picture: Picture, seed: int) -> Picture:
    """Compare draws of the generator of jobs of LLMs with what is published of Acme's Kalos."""
    from gpusched_env.traces.generators.llm_shares import DRAWS, JOBS, compare, measure_llm_dev

    judged = f"medians of {DRAWS} draws of {JOBS:,} jobs"
    return dataclasses.replace(picture, checks=compare(measure_llm_dev(seed)), judged=judged)


def describe_cluster(source: Annotated[str, typer.Argument(metavar="FORMAT:PATH")]) -> None:
    """Read a cluster description and print what was kept, what was dropped and why, and the machines.

    Formats: bsbf, helios, kubernetes, muri, openb, pai, philly, slurm, spot, tiresias. --cluster of run and compare
    accepts them too.
    """
    from gpusched_env.evaluation.progress import reading_shown
    from gpusched_env.traces import read_cluster

    with reading_shown():
        cluster, report = read_cluster(source)
    print(report.describe())
    table = plain_table("GPU type", "GPUs per node", "nodes", "GPUs", "nodes per rack")
    for group in cluster.groups:
        counts = (group.gpus, group.count, group.count * group.gpus, group.nodes_per_rack or group.count)
        table.add_row(Text(group.gpu_type), *(f"{count:,}" for count in counts))
    note = f"{cluster.gpus:,} GPUs in {len(cluster.nodes):,} nodes in {len(cluster.racks):,} racks"
    show(table, note=note)
