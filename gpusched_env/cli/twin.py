"""``gpusched twin``: fit a twin to a cluster's log, compare policies on it, and make an example."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpusched_env.cli.choosing import ANY_SEED, AS_IT_IS, WORKERS, Draws, Reading, WorkersOption
from gpusched_env.cli.outputs import written
from gpusched_env.cli.pseudonyms import pseudonyms_of
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import plain_table, rows_of_csv, show
from gpusched_env.support.files import visible, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.table import Table

    from gpusched_env.problem.workload import Workload
    from gpusched_env.traces.kubernetes.quotas import Quotas
    from gpusched_env.traces.slurm_files.description import SlurmCluster
    from gpusched_env.twin import Pool, Twin
    from gpusched_env.twin.comparing import Comparison, Setting

twin_app = Commands("Your own cluster: fit a twin to its log, see how well it agrees, ask what would change.")
Anyway = Annotated[bool, typer.Option("--anyway", help="Also play a twin whose grade is: not usable.")]
TwinArgument = Annotated[Path, typer.Argument(metavar="TWIN", help="File of gpusched twin fit.")]


@twin_app.add("example")
def example(
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the files.")],
    draws: Draws,
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs.")] = 20_000,
) -> None:
    """Write a synthetic log (of seed 0) with a planted policy: sacct.txt, slurm.conf, and planted.json with the policy.

    Example: gpusched twin example --output example/
    """
    from gpusched_env.twin.example import write_example

    table = write_example(output, jobs, draws.one())
    print(f"{table}: {jobs:,} synthetic jobs; {output / 'planted.json'} has the policy that a fit must find")


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines of a log."""

    conf: list[Path] | None = None
    """slurm.conf, gres.conf, topology.conf, or what sinfo or scontrol printed."""
    cluster: Annotated[str, typer.Option(metavar="CLUSTER")] = ""
    """Instead: machines that all partitions share, such as 250x8@A100, or FORMAT:PATH."""
    partition: Annotated[list[str] | None, typer.Option(metavar="NAME=CLUSTER")] = None
    """Instead: machines of one partition, or of A+B."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What else is known of the policy, and how it is fitted."""

    tenants: Annotated[str, typer.Option(metavar="ATTRIBUTES", show_default="account,user")] = ""
    """What shares fairly, by commas."""
    assoc: Path | None = None
    """Accounts, shares and limits, as sacctmgr list associations printed them."""
    outages: Path | None = None
    """Nodes that were down or drained, as sacctmgr list event printed them."""
    qos: Path | None = None
    """QOS and their limits, as sacctmgr show qos printed them."""
    quotas: list[Path] | None = None
    """Queues and quotas of Kueue, as kubectl get clusterqueues,cohorts,localqueues -A -o json printed them."""
    fit_part: Annotated[float, typer.Option(min=0.05, max=1.0)] = 0.6
    """Part of the log that is fitted; the rest gives the score."""
    anyway: bool = False
    """Fit although jobs held more GPUs at once than there are."""
    draws: Draws = ANY_SEED


@twin_app.add("fit", tables=True)
def fit(
    log: Annotated[str, typer.Argument(metavar="FORMAT:PATH", help="The log, such as slurm:sacct.txt.")],
    machines: Machines,
    rules: Rules,
    reading: Reading,
    output: Annotated[Path, written(".json", help="File of the twin.")] = Path("twin.json"),
) -> None:
    """Fit machines and policy to the first part of a log, and score a replay on the rest (sampled by seed 0).

    Example: gpusched twin fit slurm:sacct.txt --conf slurm.conf --output twin.json
    """
    from gpusched_env.twin import write_twin
    from gpusched_env.twin.grading import grade_of

    told: list[str] = []  # what is known before the grade, which stands above it
    try:
        twin, conf = _fitted(log, machines, rules, reading, told.append)
        write_twin(twin, output)
        print(grade_of(twin))
    finally:
        for line in told:
            print(line)
    _show_policy(twin, {} if conf is None else conf.scheduling.weights)
    _show_score(twin, log, held_back=rules.fit_part < 1)
    print(f"{output}: the twin")


def _fitted(
    log: str, machines: Machines, rules: Rules, reading: Reading, tell: Callable[[str], None]
) -> tuple[Twin, SlurmCluster | None]:
    """Read all files, and fit."""
    from gpusched_env.traces import read_trace
    from gpusched_env.twin.configuration import known_policy, not_played
    from gpusched_env.twin.fitting import fit_twin
    from gpusched_env.twin.sacctmgr import read_associations, read_qos

    conf, pools = _machines(machines.conf or [], machines.cluster, machines.partition or [], tell)
    start = None if conf is None else known_policy(conf)
    options = reading.options()
    workload, report = read_trace(log, **options)
    tell(report.describe())
    if rules.outages is not None:
        pools = _with_outages(pools, rules.outages, report.origin, workload, tell)
    columns = _tenant_columns(rules, workload)
    shares = None if rules.assoc is None else read_associations(rules.assoc)
    limits = () if rules.qos is None else read_qos(rules.qos)
    quotas = _quotas(rules, pools, reading, tell)
    twin = fit_twin(
        workload,
        pools,
        log,
        columns,
        rules.fit_part,
        shares,
        start,
        rules.draws.one(),
        tell,
        limits,
        rules.anyway,
        quotas,
    )
    notes = twin.notes if conf is None else (*twin.notes, *not_played(conf))
    return replace(twin, reading=options, notes=notes), conf


def _machines(
    conf: list[Path], cluster: str, partition: list[str], tell: Callable[[str], None]
) -> tuple[SlurmCluster | None, tuple[Pool, ...]]:
    """Read the machines, from Slurm's files or as texts; the files are None if there are none."""
    from gpusched_env.cli.parsing import chosen_cluster
    from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
    from gpusched_env.twin.configuration import pools_of, pools_of_texts
    from gpusched_env.twin.snapshot_sources import recorded_nodes

    if not conf:
        pools = pools_of_texts(cluster, partition, lambda text: chosen_cluster(text)[0])
        return None, tuple(replace(pool, node_names=recorded_nodes(cluster)[0]) for pool in pools)
    if cluster or partition:
        raise GpuschedError("--conf: it tells the machines; leave out --cluster and --partition")
    files, described = read_slurm_cluster(*conf)
    tell(described.describe())
    return files, pools_of(files)


def _tenant_columns(rules: Rules, log: Workload) -> list[str] | None:
    """Return the attributes that --tenants names, None = none."""
    from gpusched_env.twin.fitting import tells

    columns = [name.strip() for name in rules.tenants.split(",") if name.strip()] or None
    missing = [name for name in columns or [] if name not in log.attributes]
    if missing:
        raise GpuschedError(f"--tenants: the log has no {missing[0]!r}; it has {', '.join(sorted(log.attributes))}")
    if rules.assoc is not None and columns not in (None, ["account", "user"]):
        raise GpuschedError("--assoc: its tenants are accounts and users; leave out --tenants")
    if rules.assoc is not None and (untold := [name for name in ("account", "user") if not tells(log, name)]):
        raise GpuschedError(f"--assoc: the log tells no {untold[0]} of a job; export it with this column")
    if rules.qos is not None and not tells(log, "qos"):
        raise GpuschedError("--qos: the log tells no QOS of a job; export it with this column")
    return columns


def _quotas(rules: Rules, pools: tuple[Pool, ...], reading: Reading, tell: Callable[[str], None]) -> Quotas | None:
    """Read the quotas of Kueue, None = none."""
    from gpusched_env.traces import read_kueue_quotas
    from gpusched_env.traces.kubernetes.objects import GPU_RESOURCE

    if not rules.quotas:
        return None
    if rules.tenants or rules.assoc or rules.qos or len(pools) > 1:
        raise GpuschedError(
            "--quotas: they are of all machines and tell the tenants; leave out all other files but nodes"
        )
    quotas, report = read_kueue_quotas(*rules.quotas, gpu_resource=reading.gpu_resource or GPU_RESOURCE)
    tell(report.describe())
    return quotas


def _show_policy(twin: Twin, told: Mapping[str, float]) -> None:
    """Print the fitted policy, and the weights that slurm.conf tells."""
    print(f"policy: {twin.scheduler}")
    for tenant in (tenant for tenant in (twin.tenants.tree if twin.tenants else ()) if tenant.rules):
        print(f"queue {visible(tenant.name)}: {tenant.rules}")
    for kind, classes in (("QOS", twin.classes), ("partition", twin.partition_classes)):
        if len(classes) > 1:
            points = (f"{visible(name) or '(none)'} {value:g}" for name, value in classes.items())
            print(f"points of {kind}: {', '.join(points)}")
    if told:
        print("for comparison, slurm.conf says: " + ", ".join(f"{name} {weight:g}" for name, weight in told.items()))


def _show_score(twin: Twin, log: str, held_back: bool) -> None:
    """Print how well the twin agrees with the log, what it does not explain, and its notes."""
    after = f"waits after {twin.split_s / 86_400:.1f} days, which were not fitted"
    show(score_table(twin), f"{visible(log)}: {after if held_back else 'waits of the fitted jobs'}")
    print(
        f"GPUs held: {twin.score.held_recorded:.1%} recorded, {twin.score.held_predicted:.1%} in the twin, "
        f"{twin.score.held_error:.2%} apart in an hour on average"
    )
    print("not explained:" if twin.remainders else "not explained: nothing that was looked for")
    for one in twin.remainders:
        counted = f"{one.jobs:,} jobs, " if one.jobs else ""
        print(f"  {counted}{one.hours:,.1f} {one.unit}: {one.what}")
    for note in twin.notes:
        print(f"note: {note}")


def _with_outages(
    pools: tuple[Pool, ...], path: Path, origin: str, log: Workload, tell: Callable[[str], None]
) -> tuple[Pool, ...]:
    """Read outages and give them to the pools."""
    from gpusched_env.twin.model import WAIT
    from gpusched_env.twin.outages import read_outages, with_outages

    if not any(pool.node_names for pool in pools):
        raise GpuschedError("--outages: it names nodes; give them by --conf")
    if not origin:
        raise GpuschedError("--outages: this log tells no dates; use one that does, such as slurm")
    last_s = float((log.jobs["arrival_s"] + log.attributes.get(WAIT, 0.0) + log.jobs["duration_s"]).max())
    found = read_outages(path)
    pools, unknown = with_outages(pools, found, origin, last_s)
    tell(f"{path}: {len(found):,} outages, {unknown:,} of them of nodes in no pool")
    return pools


def score_table(twin: Twin) -> Table:
    """Return the table of scores, by partition and size."""
    from gpusched_env.support.units import readable

    table = plain_table(
        "queue" if twin.of_kueue else "partition",
        "GPUs", "jobs", "median wait", "in the twin", "mean wait", "in the twin", "median error",
        "90 % error", "bias", "rank corr.", "distance", texts=2,
    )  # fmt: skip
    for row in twin.score.groups:
        times = (
            row.recorded_median_s, row.predicted_median_s, row.recorded_mean_s, row.predicted_mean_s,
            row.error_median_s, row.error_90_s,
        )  # fmt: skip
        sign = "-" if row.bias_s < 0 else "+"
        rank = "-" if row.rank_correlation != row.rank_correlation else f"{row.rank_correlation:.3f}"
        table.add_row(
            visible(row.partition), row.size, f"{row.jobs:,}", *(readable(time) for time in times),
            f"{sign}{readable(abs(row.bias_s))}", rank, f"{row.distance:.3f}",
        )  # fmt: skip
    return table


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What changes on the twin."""

    add_nodes: Annotated[str, typer.Option(metavar="[POOL:]CLUSTER")] = ""
    """More machines, such as 4x8@H100."""
    load: float = 1.0
    """Jobs per hour / those of the log: 1.2 = a fifth more."""
    speed: Annotated[list[str] | None, typer.Option(metavar="TYPE=FACTOR")] = None
    """Speed of a GPU type relative to the log's machines."""
    workload: Annotated[str, typer.Option(metavar="FORMAT:PATH", show_default="that of the twin")] = ""
    """Another log."""
    reading: Reading = AS_IT_IS

    def settings(self, twin: Twin) -> tuple[Setting, ...]:
        """Return the cluster as it is and as it would be."""
        from gpusched_env.traces import read_trace
        from gpusched_env.twin.comparing import settings_of

        options = self.reading.options()
        if options and not self.workload:
            raise GpuschedError(
                "--map, --sacct-columns, --gpu-resource and --skip-bad-rows are for --workload; the twin knows its own"
            )
        speeds = _speeds(self.speed or [])
        if speeds:
            twin = replace(twin, gpu_speeds={**twin.gpu_speeds, **speeds})
        log, report = read_trace(self.workload or twin.log, **(options if self.workload else twin.reading))
        settings = tuple(
            replace(one, log=self.workload or twin.log, origin=report.origin)
            for one in settings_of(twin, log, self.add_nodes, self.load)
        )
        today, known = (
            {group.gpu_type for pool in one.twin.pools for group in pool.groups} for one in (settings[0], settings[-1])
        )
        for name in speeds:
            if name not in known:
                raise GpuschedError(f"--speed: {unknown_name('GPU type', name, sorted(known))}")
            if name in today and not self.workload:
                raise GpuschedError(
                    f"--speed {name}: the run times of the log are those of these GPUs; give the speed of a type that "
                    "--add-nodes adds, or a --workload of other machines"
                )
        return settings


@dataclass(frozen=True, kw_only=True)
class Reports:
    """What a comparison writes."""

    report: Annotated[Path | None, written(".html")] = None
    """Write a page, .html."""
    output: Annotated[Path | None, written(".csv")] = None
    """Write all numbers, .csv."""
    pseudonymise: Annotated[Path | None, typer.Option(metavar="KEY")] = None
    """Pseudonyms of tenants in page and CSV, under the key in this file."""

    def write(self, found: Comparison) -> None:
        """Write the files, and tell their sizes."""
        from gpusched_env.twin.summary import comparison_csv

        if self.output is not None:
            write_whole(self.output, comparison_csv(found))
        if self.report is not None:
            from gpusched_env.reports.twin import write_twin_report

            words = [re.sub(r"[^\s:=,]*[/\\]", "", word) for word in sys.argv[1:]]  # pages tell no folders
            write_twin_report(found, self.report, f"{date.today()} by: {shlex.join(['gpusched', *words])}")
        for file in (self.output, self.report):
            if file is not None:
                print(f"{file}: {file.stat().st_size:,} bytes")


@twin_app.add("compare", tables=True)
def compare(
    changes: Changes,
    files: Reports,
    path: TwinArgument = Path("twin.json"),
    schedulers: Annotated[
        list[str] | None,
        typer.Option(
            "--schedulers",
            "--scheduler",
            metavar="SPECS",
            help="Schedulers as in gpusched compare; current = that of the twin.",
            show_default="current",
        ),
    ] = None,
    workers: WorkersOption = WORKERS,
    anyway: Anyway = False,
) -> None:
    """Play policies on the twin, today and with more machines or load, and report who waits how long.

    Example: gpusched twin compare twin.json --schedulers tiresias --add-nodes 4x8@H100 --load 1.2 --report out.html
    """
    from gpusched_env.cli.parsing import chosen_schedulers
    from gpusched_env.twin import read_twin
    from gpusched_env.twin.comparing import CURRENT, compare_policies
    from gpusched_env.twin.grading import check_usable
    from gpusched_env.twin.summary import assumptions, comparison_csv, comparison_rows, sentences

    texts = [part for text in schedulers or [] for part in [_without(text, CURRENT)] if part]
    specs = chosen_schedulers(texts) if texts else []
    twin = read_twin(path)
    print(check_usable(twin, anyway))
    settings = changes.settings(twin)
    names = None if files.pseudonymise is None else pseudonyms_of(files.pseudonymise)
    found = replace(compare_policies(settings, specs, workers), names=names)
    header, *rows = comparison_rows(found)
    table = plain_table(*header, texts=2)
    for row in rows:
        table.add_row(*row)
    title = f"{path}: {len(found.settings[0].workload):,} jobs, {twin.gpus:,} GPUs"
    show(table, title, rows=rows_of_csv(comparison_csv(found)))
    for sentence in sentences(found):
        print(sentence)
    for sentence in assumptions(found):
        print(f"note: {sentence}")
    files.write(found)


@twin_app.add("slurm-conf")
def write_slurm_conf(
    conf: Annotated[list[Path], typer.Option(metavar="FILE", help="The slurm.conf of the site, which is compared.")],
    output: Annotated[Path, written(help="File to write.")],
    path: TwinArgument = Path("twin.json"),
    scheduler: Annotated[
        str, typer.Option(metavar="SPEC", help="Another policy: slurm with other weights.", show_default="the twin's")
    ] = "",
    anyway: Anyway = False,
) -> None:
    """Write the lines of slurm.conf that a policy would change, each with the evidence of the log.

    Example: gpusched twin slurm-conf twin.json --conf slurm.conf --scheduler slurm:age_weight=1000 --output part.conf
    """
    from gpusched_env.traces import read_workload
    from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
    from gpusched_env.twin import read_twin
    from gpusched_env.twin.conf_changes import changes_of, fragment
    from gpusched_env.twin.grading import check_usable

    twin = read_twin(path)
    grade = check_usable(twin, anyway)
    print(grade)
    site, _ = read_slurm_cluster(*conf)
    found = changes_of(twin, site, read_workload(twin.log, **twin.reading), scheduler)
    write_whole(output, f"# {grade}\n{fragment(found, site)}")
    print(f"{output}: {len(found.made)} changes for slurm.conf")


def _without(text: str, name: str) -> str:
    """Return a list of specs without this name."""
    return ",".join(part for part in text.split(",") if part.strip() != name)


def _speeds(texts: list[str]) -> dict[str, float]:

    speeds = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            speeds[name] = float(value)
        except ValueError:
            speeds[name] = 0.0
        if not 1e-3 <= speeds[name] <= 1e3:
            raise GpuschedError(f"--speed {text!r}: write TYPE=FACTOR with a factor of 0.001 to 1000, such as H100=2")
    return speeds
