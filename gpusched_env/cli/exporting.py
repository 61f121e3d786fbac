"""``gpusched export``: a run as the log of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
from gpusched_env.cli.playing import ClusterOption, ScenarioOption, WorkloadOption
from gpusched_env.cli.preempting import PreemptionCostOption, with_preemption_cost
from gpusched_env.cli.sharing import SharingOption, with_sharing


def export(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="sacct (read as slurm:FILE), swf or csv.", metavar="sacct|swf|csv", show_default=False
        ),
    ],
    scheduler: Annotated[str, typer.Option(help="Spec of the scheduler that plays.", metavar="SPEC")] = "fifo",
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
) -> None:
    """Play one scheduler on one seed and write the run as the log of a cluster, which the readers of logs can read.

    Example: gpusched export --format sacct --workload synthetic:philly --profiles unit sacct.txt
    """
    from gpusched_env.cli.outputs import check_output
    from gpusched_env.cli.parsing import chosen_scenario, chosen_schedulers
    from gpusched_env.errors import GpuschedError, unknown_name
    from gpusched_env.evaluation import evaluate
    from gpusched_env.evaluation.accounting import FORMATS, ORIGIN, export_run

    if form not in FORMATS:
        raise GpuschedError(f"--format {unknown_name('format', form, FORMATS)}")
    check_output("FILE", out, ("",))
    read = read_options(mapping, skip_bad_rows, estimate, gpu_resource)
    wanted = chosen_jobs(window, where, max_gpus, sample, jobs, load, profiles, read, ignore_placement)
    chosen = chosen_scenario(scenario, workload, cluster, wanted)
    chosen = with_preemption_cost(with_network(chosen, network, contention), preemption_cost)
    chosen = with_sharing(chosen, sharing)
    specs = chosen_schedulers([scheduler])
    if len(specs) > 1:
        raise GpuschedError(f"--scheduler {scheduler!r} names {len(specs)} schedulers: export plays one")
    report = chosen.trace_report
    if report is not None:
        print(report.describe())
    (result,) = evaluate(chosen, specs, [chosen.seeds.report[0] if seed is None else seed], keep_logs=True)
    if result.log is None:
        raise GpuschedError("export: the run has no event log")
    instance = chosen.instance(result.seed)
    remarks = export_run(instance, result.log, form, out, (report.origin if report else "") or ORIGIN)
    print(f"{out}: {len(instance.workload):,} jobs played by {specs[0]}, seed {result.seed}")
    print(f"  event log {result.digest[:12]}")
    for remark in remarks:
        print(f"  note: {remark}")
