"""``gpusched traces export``: a run as the log of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpusched_env.cli.choosing import Draws, Problem
from gpusched_env.cli.outputs import written
from gpusched_env.cli.playing import one_scheduler


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

    Example: gpusched traces export --format sacct --workload synthetic:philly --profiles unit --output sacct.txt
    """
    from gpusched_env.errors import GpuschedError, unknown_name
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
    for remark in remarks:
        print(f"  note: {remark}")
