"""``gpusched twin forecast``: when the queued jobs will start."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

from gpusched_env.cli.choosing import ANY_SEED, Draws, Reading
from gpusched_env.errors import GpuschedError
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.support.files import visible, whole

if TYPE_CHECKING:
    from gpusched_env.twin.futures import Options
    from gpusched_env.twin.history import History
    from gpusched_env.twin.quantiles import Quantiles
    from gpusched_env.twin.settings import Setting
    from gpusched_env.twin.snapshot import Snapshot

SHOWN = 20  # lines of the table
HOUR_S = 3600.0  # [s]
# What twin/waiting_reasons.py says of a job without forecast, in words.
_KIND: Final = {
    "waits": "which wait for a job that has none", "held": "which are held", "never": "which cannot start as they are",
    "limited": "which wait for a limit of their user, account or QOS",
}  # fmt: skip
DAY_S = 86_400.0  # [s]


@dataclass(frozen=True, kw_only=True)
class Played:
    """Machines and policy."""

    twin: Path | None = None
    """Machines and policy, as gpusched twin fit wrote them."""
    cluster: Annotated[str | None, typer.Option(metavar="SPEC")] = None
    """Machines, such as 250x8, or FORMAT:PATH; not with --twin."""
    scheduler: Annotated[str | None, typer.Option(metavar="SPEC")] = None
    """Policy, instead of that of the twin; without a twin, slurm."""
    anyway: bool = False
    """Also play a twin whose grade is: not usable."""

    def setting(self) -> Setting:
        """Return them."""
        from gpusched_env.baselines import make_scheduler
        from gpusched_env.cli.parsing import chosen_cluster
        from gpusched_env.twin import read_twin
        from gpusched_env.twin.grading import check_usable
        from gpusched_env.twin.settings import Plain
        from gpusched_env.twin.snapshot_sources import recorded_nodes

        if self.scheduler is not None:
            make_scheduler(self.scheduler)
        if self.twin is not None:
            if self.cluster is not None:
                raise GpuschedError("--cluster: the twin has machines; leave out one of --twin and --cluster")
            found = read_twin(self.twin).without_outages()
            print(check_usable(found, self.anyway))
            return found if self.scheduler is None else replace(found, scheduler=self.scheduler)
        if self.cluster is None:
            raise GpuschedError("--cluster or --twin is missing: forecasts need machines, such as --cluster 250x8")
        names, _ = recorded_nodes(self.cluster)
        return Plain(chosen_cluster(self.cluster)[0], self.scheduler or "slurm", node_names=names)


@dataclass(frozen=True, kw_only=True)
class Futures:
    """How futures are sampled."""

    futures: Annotated[int, typer.Option(min=1, max=1000000)] = 1000
    """Number of sampled futures."""
    horizon: Annotated[float, typer.Option(min=0.01, max=365.0)] = 7.0
    """Length of a future, in days."""
    arrivals: Annotated[bool, typer.Option("--arrivals/--no-arrivals")] = True
    """Whether jobs go on arriving as in the history."""
    cycle: Annotated[float, typer.Option(min=0.0)] = 0.0
    """Least time between backfill cycles of Slurm policies, in seconds; 0 = theirs."""
    threads: Annotated[int, typer.Option(min=1, max=256)] = 2
    """Threads; the result does not depend on it."""
    draws: Draws = ANY_SEED

    def options(self) -> Options:
        """Return them as options of the sampling; the seed is 0 if none is given."""
        from gpusched_env.twin.futures import Options

        horizon_s = self.horizon * DAY_S
        return Options(self.futures, self.draws.one(), horizon_s, self.arrivals, self.cycle, self.threads)


@dataclass(frozen=True, kw_only=True)
class Now:
    """The jobs of this moment."""

    snapshot: Annotated[str, typer.Option(metavar="SOURCE")]
    """Running and queued jobs: FILE.json, squeue:FILE, kueue:FILE, kubernetes:FILE or volcano:FILE."""
    usage: Path | None = None
    """What sshare printed: usage for fair shares; else that of the history."""
    at: Annotated[str | None, typer.Option(metavar="YYYY-MM-DDTHH:MM:SS")] = None
    """When the snapshot was written, if it does not tell it."""
    gpus_per_node: Annotated[int, typer.Option(min=0)] = 0
    """GPUs per node of jobs for which squeue prints no TRES; 0 = leave them out."""
    nodes: Annotated[str, typer.Option(metavar="FORMAT:PATH", show_default="those of --cluster")] = ""
    """Nodes now, as scontrol show nodes or kubectl prints them: nothing starts on those that are drained or down."""

    def read(self, reading: Reading, cluster: str | None) -> Snapshot:
        """Read and describe the snapshot."""
        from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE
        from gpusched_env.twin.snapshot_sources import named_by, snapshot_of

        resource = reading.gpu_resource or GPU_RESOURCE
        present = snapshot_of(self.snapshot, self.at, self.gpus_per_node, resource, reading.skip_bad_rows)
        for source in filter(None, (cluster, self.nodes)):
            present = named_by(source, present)
        print(present.describe())
        return present


def forecast(
    now: Now,
    history: Annotated[str, typer.Option(help="Log of jobs that have ended, FORMAT:PATH.", metavar="SOURCE")],
    played: Played,
    reading: Reading,
    futures: Futures,
    output: Annotated[Path | None, typer.Option(help="Write all forecasts to this CSV.", metavar="FILE")] = None,
) -> None:
    """For each queued job: the probability to start within 1, 4 and 24 h, and an 80 % interval of the start.

    Example: gpusched twin forecast --snapshot now.json --history slurm:jobs.txt --twin twin.json
    """
    from gpusched_env.twin import Twin
    from gpusched_env.twin.futures import problems_of, sampled_starts
    from gpusched_env.twin.grading import grade_of
    from gpusched_env.twin.kueue import admitted_by
    from gpusched_env.twin.model import ignored_by
    from gpusched_env.twin.own_limits import without_excess, without_missing_types
    from gpusched_env.twin.quantiles import Quantiles
    from gpusched_env.twin.usage import read_sshare

    setting, grade = played.setting(), ""
    present = now.read(reading, played.cluster)
    past = _history(history, present.time_s, reading.options())
    _check_kueue(present, setting, played.scheduler)
    if isinstance(setting, Twin):
        present, grade = without_excess(present, setting), grade_of(setting).word
        present, past = admitted_by(setting, present, past)
    told = len(present.notes)
    present = without_missing_types(present, setting)
    for note in present.notes[told:]:
        print(f"note: {note}")
    shares = None if now.usage is None else read_sshare(now.usage)
    for line in ignored_by(problems_of(past, setting)):
        print(f"note: of the history, {line}")
    starts = sampled_starts(present, setting, past, futures.options(), shares=shares)
    _tell(present, Quantiles.of(starts), starts, grade, output)
    print("note: python -m tools calibration, in a clone, tells how many starts such intervals contained in past weeks")


def _check_kueue(present: Snapshot, setting: Setting, scheduler: str | None) -> None:
    """Refuse jobs of Kueue where neither a twin knows its quotas nor a policy is chosen."""
    from gpusched_env.twin import Twin

    known = isinstance(setting, Twin) and setting.of_kueue
    if any(job.queue for job in (*present.running, *present.queued)) and not known and scheduler is None:
        raise GpuschedError(
            "--snapshot: its jobs are Kueue's, whose quotas decide who waits: give --twin, fitted to such a log with "
            "--quotas, or choose another policy by --scheduler, such as fifo"
        )


def _history(source: str, now_s: float, options: dict[str, Any] | None = None) -> History:
    """Read the history, without jobs that ended after the snapshot; the users of Kubernetes are its namespaces."""
    from gpusched_env.traces import read_trace
    from gpusched_env.traces.parsing.columns import EPOCH
    from gpusched_env.twin.history import History
    from gpusched_env.twin.model import WAIT
    from gpusched_env.twin.snapshot_sources import namespaces_as_users

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


def _tell(present: Snapshot, quantiles: Quantiles, starts: np.ndarray, grade: str, output: Path | None) -> None:
    """Print the table of the first queued jobs, and write all, each with the grade of the twin."""
    from gpusched_env.twin.quantiles import HOURS
    from gpusched_env.twin.waiting_reasons import kind_of

    low, middle, high = quantiles.interval
    chances = [quantiles.probability(hours * HOUR_S) for hours in HOURS]
    order = np.argsort(middle, kind="stable")
    able = ~np.isnan(starts).any(axis=0) if len(starts) else np.ones(0, bool)
    table = plain_table(
        "job", "user", "GPUs", *(f"within {hours} h" for hours in HOURS), "80 % interval", "median", "reason"
    )
    for i in order[able[order]][:SHOWN].tolist():
        job = present.queued[i]
        table.add_row(
            job.id, job.user, str(job.gpus), *(f"{one[i]:.0%}" for one in chances),
            f"{_hours(low[i])} - {_hours(high[i])}", _hours(middle[i]), visible(present.reasons.get(job.id, "")),
        )  # fmt: skip
    rows = []
    for i in np.flatnonzero(able).tolist():
        told = {"job": present.queued[i].id, "gpus": present.queued[i].gpus}
        told |= {f"within_{h}h": float(one[i]) for h, one in zip(HOURS, chances, strict=True)}
        told |= {"reason": present.reasons.get(present.queued[i].id, ""), "grade": grade}
        times = {"low_s": low[i], "median_s": middle[i], "high_s": high[i]}
        rows.append(told | {name: float(time) if math.isfinite(time) else None for name, time in times.items()})
    if present.queued:
        show(table, rows=rows)
    else:
        print("no job of the snapshot is queued: there is nothing to forecast")
    if (more := int(able.sum()) - SHOWN) > 0:
        print(f"{more:,} more jobs" + ("" if output else "; --output writes them to a CSV"))
    if not able.all():
        names = ", ".join(present.queued[i].id for i in np.flatnonzero(~able)[:5].tolist())
        print(f"no forecast for {int((~able).sum()):,} jobs that no machines of their partition can run: {names}")
    held: dict[str, list[str]] = {}
    for name in present.held:
        held.setdefault(present.reasons.get(name, "reason not told"), []).append(name)
    for reason, ids in sorted(held.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
        print(f"no forecast for {len(ids):,} jobs, {_KIND[kind_of(reason)]} ({visible(reason)}): {shown}")
    if output is not None:
        header = ["job", "gpus", *(f"within_{h}h" for h in HOURS), "low_s", "median_s", "high_s", "reason", "grade"]
        _write(output, header, rows)
        print(f"{output}: {int(able.sum()):,} forecasts; times in seconds after the snapshot, empty = later")


def _write(output: Path, header: list[str], rows: list[dict[str, Any]]) -> None:
    """Write forecasts as CSV: probabilities with four digits, whole seconds."""
    with whole(output) as partial, partial.open("w", newline="", encoding="utf-8") as stream:
        written = csv.DictWriter(stream, header, lineterminator="\n")
        written.writeheader()
        for row in rows:
            texts = {
                name: f"{value:{'.4f' if name.startswith('within') else '.0f'}}"
                for name, value in row.items()
                if isinstance(value, float)
            }
            written.writerow(row | texts)


def _hours(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "later"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / HOUR_S:.1f} h"
