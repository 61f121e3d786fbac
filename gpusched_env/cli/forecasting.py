"""``gpusched twin forecast`` and ``gpusched twin calibration``: when the queued jobs will start."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusched_env.cli.choosing import GpuResourceOption, MapOption, SkipBadRowsOption, read_options

if TYPE_CHECKING:
    import numpy as np

    from gpusched_env.problem.workload import Workload
    from gpusched_env.twin.history import History
    from gpusched_env.twin.quantiles import Quantiles
    from gpusched_env.twin.settings import Setting
    from gpusched_env.twin.snapshot import Snapshot

SHOWN = 20  # lines of the table
HOUR_S = 3600.0  # [s]
DAY_S = 86_400.0  # [s]

TwinOption = Annotated[
    Path | None, typer.Option("--twin", help="Machines and policy, as gpusched twin fit wrote them.", metavar="FILE")
]
ClusterOption = Annotated[
    str | None, typer.Option(help="Machines, such as 250x8, or FORMAT:PATH; not with --twin.", metavar="SPEC")
]
PolicyOption = Annotated[
    str | None, typer.Option(help="Policy, instead of that of the twin; without a twin, slurm.", metavar="SPEC")
]
FuturesOption = Annotated[int, typer.Option(help="Number of sampled futures.", min=1, max=1_000_000)]
HorizonOption = Annotated[float, typer.Option(help="Length of a future, in days.", min=0.01, max=365.0)]
ArrivalsOption = Annotated[
    bool, typer.Option("--arrivals/--no-arrivals", help="Whether jobs go on arriving as in the history.")
]
CycleOption = Annotated[
    float, typer.Option(help="Least time between backfill cycles of Slurm policies, in seconds; 0 = theirs.", min=0.0)
]
ThreadsOption = Annotated[int, typer.Option(help="Threads; the result does not depend on it.", min=1, max=256)]
SeedOption = Annotated[int, typer.Option(help="Seed of all draws.", min=0)]


def forecast(
    snapshot: Annotated[
        str,
        typer.Option(
            "--snapshot",
            help="Running and queued jobs: FILE.json, squeue:FILE, kueue:FILE, kubernetes:FILE or volcano:FILE.",
            metavar="SOURCE",
        ),
    ],
    history: Annotated[
        str, typer.Option("--history", help="Log of jobs that have ended, FORMAT:PATH.", metavar="SOURCE")
    ],
    twin: TwinOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = None,
    usage: Annotated[
        Path | None,
        typer.Option(help="What sshare printed: usage for fair shares; else that of the history.", metavar="FILE"),
    ] = None,
    futures: FuturesOption = 1000,
    horizon: HorizonOption = 7.0,
    arrivals: ArrivalsOption = True,
    mapping: MapOption = None,
    gpu_resource: GpuResourceOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    at: Annotated[
        str | None,
        typer.Option(help="When the snapshot was written, if it does not tell it.", metavar="YYYY-MM-DDTHH:MM:SS"),
    ] = None,
    gpus_per_node: Annotated[
        int, typer.Option(help="GPUs per node of jobs for which squeue prints no TRES; 0 = leave them out.", min=0)
    ] = 0,
    output: Annotated[Path | None, typer.Option(help="Write all forecasts to this CSV.", metavar="FILE")] = None,
    cycle: CycleOption = 0.0,
    threads: ThreadsOption = 2,
    seed: SeedOption = 0,
) -> None:
    """For each queued job: the probability to start within 1, 4 and 24 h, and an 80 % interval of the start.

    Example: gpusched twin forecast --snapshot now.json --history slurm:jobs.txt --twin twin.json
    """
    from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE
    from gpusched_env.twin.futures import Options, sampled_starts
    from gpusched_env.twin.present import named_by, snapshot_of
    from gpusched_env.twin.quantiles import Quantiles
    from gpusched_env.twin.usage import read_sshare

    setting = _setting(twin, cluster, policy)
    present = snapshot_of(snapshot, at, gpus_per_node, gpu_resource or GPU_RESOURCE, skip_bad_rows)
    if cluster is not None:
        present = named_by(cluster, present)
    print(present.describe())
    past = _history(history, present.time_s, read_options(mapping, skip_bad_rows, None, gpu_resource))
    options = Options(futures, seed, horizon * DAY_S, arrivals, cycle, threads)
    starts = sampled_starts(present, setting, past, options, shares=None if usage is None else read_sshare(usage))
    _tell(present, Quantiles.of(starts), starts, output)
    print("note: gpusched twin calibration tells how many starts such intervals contained in past weeks")


def calibration(
    log: Annotated[str, typer.Argument(help="Log of jobs that have ended, FORMAT:PATH.", metavar="SOURCE")],
    twin: TwinOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = None,
    first: Annotated[int, typer.Option(help="Weeks of history before the first forecast.", min=1)] = 4,
    held: Annotated[int, typer.Option(help="Weeks after them, in which forecasts are made.", min=1)] = 3,
    every: Annotated[
        float, typer.Option(help="Hours between forecasts; not a divisor of 24.", min=0.1, max=168.0)
    ] = 5.0,
    draw_limits: Annotated[
        bool, typer.Option("--draw-limits", help="Draw time limits as users give them, for a log without limits.")
    ] = False,
    futures: FuturesOption = 100,
    horizon: HorizonOption = 7.0,
    arrivals: ArrivalsOption = True,
    cycle: CycleOption = 0.0,
    threads: ThreadsOption = 2,
    seed: SeedOption = 0,
) -> None:
    """Forecast the past: how many starts the intervals contain, and how often the probabilities come true.

    The log is replayed under the policy, which gives the true starts. Each forecast sees only jobs that have ended.

    Example: gpusched twin calibration slurm:jobs.txt --twin twin.json --first 4 --held 3
    """
    from gpusched_env.errors import GpuschedError
    from gpusched_env.traces import read_trace
    from gpusched_env.twin.backtest import WEEK_S, Scored, backtest, played, with_limits
    from gpusched_env.twin.futures import Options
    from gpusched_env.twin.quantiles import HOURS

    setting = _setting(twin, cluster, policy)
    workload, report = read_trace(log)
    print(report.describe())
    if draw_limits:
        workload = with_limits(workload, seed)
    _need_limits(workload)
    options = Options(futures, seed, horizon * DAY_S, arrivals, cycle, threads)
    run = played(workload, setting)

    def tell(one: Scored) -> None:
        print(f"week {one.time_s / WEEK_S:.2f}: {one.queued:,} queued jobs")

    found = backtest(run, setting, first * WEEK_S, (first + held) * WEEK_S, every * HOUR_S, options, tell)
    if not found.jobs:
        last = float(workload.jobs["arrival_s"].max()) / WEEK_S
        raise GpuschedError(
            f"{log}: no job is queued at the times of the forecasts. Jobs arrive for {last:.1f} weeks: choose --first, "
            "--held and --every to suit"
        )
    print(f"80 % intervals of {found.jobs:,} jobs in {found.snapshots} snapshots: cover {found.covered:.1%}")
    for hours, chance, part in zip(HOURS, found.forecast, found.happened, strict=True):
        print(f"start within {hours} h: {chance:.1%} of the jobs as forecast, {part:.1%} in truth")


def _setting(twin: Path | None, cluster: str | None, policy: str | None) -> Setting:
    """Return the machines and the policy."""
    import dataclasses

    from gpusched_env.baselines import make_scheduler
    from gpusched_env.cli.parsing import chosen_cluster
    from gpusched_env.errors import GpuschedError
    from gpusched_env.twin import read_twin
    from gpusched_env.twin.settings import Plain

    if policy is not None:
        make_scheduler(policy)
    if twin is not None:
        if cluster is not None:
            raise GpuschedError("--cluster: the twin has machines; leave out one of --twin and --cluster")
        found = read_twin(twin).without_outages()
        return found if policy is None else dataclasses.replace(found, scheduler=policy)
    if cluster is None:
        raise GpuschedError("--cluster or --twin is missing: forecasts need machines, such as --cluster 250x8")
    return Plain(chosen_cluster(cluster)[0], policy or "slurm")


def _history(source: str, now_s: float, options: dict[str, Any] | None = None) -> History:
    """Read the history, without jobs that ended after the snapshot; the users of Kubernetes are its namespaces."""
    import numpy as np

    from gpusched_env.errors import GpuschedError
    from gpusched_env.traces import read_trace
    from gpusched_env.traces.parsing.columns import EPOCH
    from gpusched_env.twin.history import History
    from gpusched_env.twin.model import WAIT
    from gpusched_env.twin.present import namespaces_as_users

    workload, report = read_trace(source, **(options or {}))
    print(report.describe())
    if not report.origin:
        raise GpuschedError(f"--history {source}: this format tells no dates; use one that does, such as slurm")
    origin_s = float((np.datetime64(report.origin) - np.datetime64(EPOCH)) / np.timedelta64(1, "s"))
    wait_s = workload.attributes.get(WAIT, 0.0)
    end_s = origin_s + workload.jobs["arrival_s"] + wait_s + workload.jobs["duration_s"]
    ended = np.flatnonzero(end_s <= now_s)
    if not len(ended):
        raise GpuschedError(f"--history {source}: no job had ended by the time of the snapshot; check both dates")
    return History(namespaces_as_users(workload.select(ended)), origin_s)


def _need_limits(workload: Workload) -> None:
    import numpy as np

    if np.isnan(workload.jobs["estimate_s"]).all():
        print("note: the log has no time limits, so the policy assumes its default limit; see --draw-limits")


def _tell(present: Snapshot, quantiles: Quantiles, starts: np.ndarray, output: Path | None) -> None:
    """Print the table of the first queued jobs, and write all."""
    import numpy as np

    from gpusched_env.cli.console import plain_table, show
    from gpusched_env.support.files import whole
    from gpusched_env.twin.quantiles import HOURS

    low, middle, high = quantiles.interval
    chances = [quantiles.probability(hours * HOUR_S) for hours in HOURS]
    order = np.argsort(middle, kind="stable")
    able = ~np.isnan(starts).any(axis=0) if len(starts) else np.ones(0, bool)
    table = plain_table("job", "user", "GPUs", *(f"within {hours} h" for hours in HOURS), "80 % interval", "median")
    for i in order[able[order]][:SHOWN].tolist():
        job = present.queued[i]
        table.add_row(
            job.id, job.user, str(job.gpus), *(f"{one[i]:.0%}" for one in chances),
            f"{_hours(low[i])} - {_hours(high[i])}", _hours(middle[i]),
        )  # fmt: skip
    if present.queued:
        show(table)
    else:
        print("no job of the snapshot is queued: there is nothing to forecast")
    if (more := int(able.sum()) - SHOWN) > 0:
        print(f"{more:,} more jobs" + ("" if output else "; --output writes them to a CSV"))
    if not able.all():
        names = ", ".join(present.queued[i].id for i in np.flatnonzero(~able)[:5].tolist())
        print(f"no forecast for {int((~able).sum()):,} jobs that no machines of their partition can run: {names}")
    if output is not None:
        with whole(output) as partial, partial.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream, lineterminator="\n")
            rows.writerow(["job", "gpus", *(f"within_{h}h" for h in HOURS), "low_s", "median_s", "high_s"])
            for i in np.flatnonzero(able).tolist():
                job = present.queued[i]
                times = (f"{value[i]:.0f}" if math.isfinite(value[i]) else "" for value in (low, middle, high))
                rows.writerow([job.id, job.gpus, *(f"{one[i]:.4f}" for one in chances), *times])
        print(f"{output}: {int(able.sum()):,} forecasts; times in seconds after the snapshot, empty = later")


def _hours(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "later"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / HOUR_S:.1f} h"
