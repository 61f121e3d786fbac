"""``gpusched twin``: fit a twin to a cluster's log, compare policies on it, and make an example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpusched_env.cli.choosing import GpuResourceOption, MapOption, SkipBadRowsOption, read_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from gpusched_env.problem.workload import Workload
    from gpusched_env.traces.slurm_files.description import SlurmCluster
    from gpusched_env.twin import Pool, Twin

twin_app = typer.Typer(
    help="Your own cluster: fit a twin to its log, see how well it agrees, ask what would change.",
    no_args_is_help=True,
)


@twin_app.command("example")
def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files.")],
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the jobs.")] = 0,
) -> None:
    """Write a synthetic log with a planted policy: sacct.txt, slurm.conf, and planted.json with the policy.

    Example: gpusched twin example example/
    """
    from gpusched_env.twin.example import write_example

    table = write_example(folder, jobs, seed)
    print(f"{table}: {jobs:,} synthetic jobs; {folder / 'planted.json'} has the policy that a fit must find")


@twin_app.command("fit")
def fit(
    log: Annotated[str, typer.Argument(metavar="FORMAT:PATH", help="The log, such as slurm:sacct.txt.")],
    conf: Annotated[
        list[Path] | None,
        typer.Option(
            "--conf", metavar="FILE", help="slurm.conf, gres.conf, topology.conf, or what sinfo or scontrol printed."
        ),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="CLUSTER",
            help="Instead: machines that all partitions share, such as 250x8@A100, or FORMAT:PATH.",
        ),
    ] = "",
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="NAME=CLUSTER", help="Instead: machines of one partition, or of A+B."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File of the twin.")] = Path("twin.json"),
    slurm_conf: Annotated[
        Path | None, typer.Option("--slurm-conf", metavar="FILE", help="Also write the policy as lines of slurm.conf.")
    ] = None,
    tenants: Annotated[
        str, typer.Option(metavar="ATTRIBUTES", help="What shares fairly, by commas.", show_default="account,user")
    ] = "",
    assoc: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Accounts, shares and limits, as sacctmgr list associations printed them."),
    ] = None,
    outages: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Nodes that were down or drained, as sacctmgr list event printed them."),
    ] = None,
    qos: Annotated[
        Path | None, typer.Option(metavar="FILE", help="QOS and their limits, as sacctmgr show qos printed them.")
    ] = None,
    fit_part: Annotated[
        float, typer.Option(min=0.05, max=1.0, help="Part of the log that is fitted; the rest gives the score.")
    ] = 0.6,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of starts that are compared.")] = 0,
    mapping: MapOption = None,
    gpu_resource: GpuResourceOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
) -> None:
    """Fit machines and policy to the first part of a log, and score a replay on the rest.

    Example: gpusched twin fit slurm:sacct.txt --conf slurm.conf --out twin.json
    """
    import dataclasses

    from gpusched_env.cli.outputs import check_output
    from gpusched_env.errors import GpuschedError
    from gpusched_env.support.files import write_whole
    from gpusched_env.traces import read_trace
    from gpusched_env.twin import write_twin
    from gpusched_env.twin.associations import read_associations
    from gpusched_env.twin.configuration import known_policy, not_played, weights_told
    from gpusched_env.twin.configuration import slurm_conf as fragment
    from gpusched_env.twin.fitting import fit_twin, tells
    from gpusched_env.twin.qualities import read_qos

    check_output("--out", out, (".json",))
    if slurm_conf is not None:
        check_output("--slurm-conf", slurm_conf, ("",))
    files, pools = _machines(conf or [], cluster, partition or [])
    start = None if files is None else known_policy(files)
    reading = read_options(mapping, skip_bad_rows, None, gpu_resource)
    workload, report = read_trace(log, **reading)
    print(report.describe())
    if outages is not None:
        pools = _with_outages(pools, files, outages, report.origin, workload)
    columns = _tenant_columns(tenants, workload, assoc is not None)
    if qos is not None and not tells(workload, "qos"):
        raise GpuschedError("--qos: the log tells no QOS of a job; export it with this column")
    shares = None if assoc is None else read_associations(assoc)
    limits = () if qos is None else read_qos(qos)
    twin = fit_twin(workload, pools, log, columns, fit_part, shares, start, seed, tell=print, qos=limits)
    notes = twin.notes if files is None else (*twin.notes, *not_played(files))
    twin = dataclasses.replace(twin, reading=reading, notes=notes)
    write_twin(twin, out)
    _show_policy(twin, {} if files is None else weights_told(files))
    _show_score(twin, log, held_back=fit_part < 1)
    if slurm_conf is not None:
        write_whole(slurm_conf, fragment(twin))
    print(f"{out}: the twin" + (f"; {slurm_conf}: lines of slurm.conf" if slurm_conf else ""))


def _machines(conf: list[Path], cluster: str, partition: list[str]) -> tuple[SlurmCluster | None, tuple[Pool, ...]]:
    """Read the machines, from Slurm's files or as texts; the files are None if there are none.

    Raises
    ------
    GpuschedError : both, neither, or what cannot be read
    """
    from gpusched_env.cli.parsing import chosen_cluster
    from gpusched_env.errors import GpuschedError
    from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
    from gpusched_env.twin.configuration import pools_of, pools_of_texts

    if not conf:
        return None, pools_of_texts(cluster, partition, lambda text: chosen_cluster(text)[0])
    if cluster or partition:
        raise GpuschedError("--conf: it tells the machines; leave out --cluster and --partition")
    files, described = read_slurm_cluster(*conf)
    print(described.describe())
    return files, pools_of(files)


def _tenant_columns(tenants: str, log: Workload, shared: bool) -> list[str] | None:
    """Return the attributes that --tenants names, None = none; ``shared`` = --assoc tells the shares.

    Raises
    ------
    GpuschedError : attributes that the log lacks, or that --assoc does not know
    """
    from gpusched_env.errors import GpuschedError
    from gpusched_env.twin.fitting import tells

    columns = [name.strip() for name in tenants.split(",") if name.strip()] or None
    missing = [name for name in columns or [] if name not in log.attributes]
    if missing:
        raise GpuschedError(f"--tenants: the log has no {missing[0]!r}; it has {', '.join(sorted(log.attributes))}")
    if shared and columns not in (None, ["account", "user"]):
        raise GpuschedError("--assoc: its tenants are accounts and users; leave out --tenants")
    if shared and (untold := [name for name in ("account", "user") if not tells(log, name)]):
        raise GpuschedError(f"--assoc: the log tells no {untold[0]} of a job; export it with this column")
    return columns


def _show_policy(twin: Twin, told: Mapping[str, float]) -> None:
    """Print the fitted policy, and the weights that slurm.conf tells."""
    from gpusched_env.support.files import visible

    print(f"policy: {twin.scheduler}")
    for kind, classes in (("QOS", twin.classes), ("partition", twin.partition_classes)):
        if len(classes) > 1:
            points = (f"{visible(name) or '(none)'} {value:g}" for name, value in classes.items())
            print(f"points of {kind}: {', '.join(points)}")
    if told:
        print("for comparison, slurm.conf says: " + ", ".join(f"{name} {weight:g}" for name, weight in told.items()))


def _show_score(twin: Twin, log: str, held_back: bool) -> None:
    """Print how well the twin agrees with the log, what it does not explain, and its notes."""
    from gpusched_env.cli.console import show
    from gpusched_env.support.files import visible

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
    pools: tuple[Pool, ...], files: SlurmCluster | None, path: Path, origin: str, log: Workload
) -> tuple[Pool, ...]:
    """Read outages and give them to the pools."""
    from gpusched_env.errors import GpuschedError
    from gpusched_env.twin.configuration import node_numbers
    from gpusched_env.twin.model import WAIT
    from gpusched_env.twin.outages import read_outages, with_outages

    if files is None:
        raise GpuschedError("--outages: it names nodes; give them by --conf")
    if not origin:
        raise GpuschedError("--outages: this log tells no dates; use one that does, such as slurm")
    last_s = float((log.jobs["arrival_s"] + log.attributes.get(WAIT, 0.0) + log.jobs["duration_s"]).max())
    found = read_outages(path)
    pools, unknown = with_outages(pools, node_numbers(files, pools), found, origin, last_s)
    print(f"{path}: {len(found):,} outages, {unknown:,} of them of nodes in no pool")
    return pools


def score_table(twin: Twin) -> Table:
    """Return the table of scores, by partition and size."""
    from gpusched_env.cli.console import plain_table
    from gpusched_env.support.files import visible
    from gpusched_env.support.units import readable

    table = plain_table(
        "partition", "GPUs", "jobs", "median wait", "in the twin", "mean wait", "in the twin", "median error",
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


@twin_app.command("compare")
def compare(
    path: Annotated[Path, typer.Argument(metavar="TWIN", help="File of gpusched twin fit.")] = Path("twin.json"),
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policies",
            metavar="SPECS",
            help="Schedulers as in gpusched compare; current = that of the twin.",
            show_default="current",
        ),
    ] = None,
    add_nodes: Annotated[
        str, typer.Option("--add-nodes", metavar="[POOL:]CLUSTER", help="More machines, such as 4x8@H100.")
    ] = "",
    load: Annotated[float, typer.Option(help="Jobs per hour / those of the log: 1.2 = a fifth more.")] = 1.0,
    speed: Annotated[
        list[str] | None,
        typer.Option("--speed", metavar="TYPE=FACTOR", help="Speed of a GPU type relative to the log's machines."),
    ] = None,
    log: Annotated[str, typer.Option(metavar="FORMAT:PATH", help="Another log.", show_default="that of the twin")] = "",
    mapping: MapOption = None,
    gpu_resource: GpuResourceOption = None,
    skip_bad_rows: SkipBadRowsOption = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page, .html.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write all numbers, .csv.")] = None,
    pseudonymise: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Pseudonyms of tenants in page and CSV, under the key in this file."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes; -1 = one per core.")] = -1,
) -> None:
    """Play policies on the twin, today and with more machines or load, and report who waits how long.

    Example: gpusched twin compare twin.json --policies tiresias --add-nodes 4x8@H100 --load 1.2 --report out.html
    """
    import dataclasses

    from gpusched_env.cli.console import show
    from gpusched_env.cli.outputs import check_output, check_report
    from gpusched_env.cli.parsing import chosen_schedulers
    from gpusched_env.cli.pseudonyms import pseudonyms_of
    from gpusched_env.errors import GpuschedError, unknown_name
    from gpusched_env.support.files import write_whole
    from gpusched_env.traces import read_workload
    from gpusched_env.twin import read_twin
    from gpusched_env.twin.comparing import CURRENT, compare_policies, settings_of
    from gpusched_env.twin.summary import comparison_csv, comparison_rows, sentences

    check_report(report)
    check_output("--csv", csv, (".csv",))
    reading = read_options(mapping, skip_bad_rows, None, gpu_resource)
    if reading and not log:
        raise GpuschedError("--map, --gpu-resource and --skip-bad-rows are for --log; the twin knows those of its log")
    texts = [part for text in policies or [] for part in [_without(text, CURRENT)] if part]
    specs = chosen_schedulers(texts) if texts else []
    twin = read_twin(path)
    if speed:
        twin = dataclasses.replace(twin, gpu_speeds={**twin.gpu_speeds, **_speeds(speed)})
    settings = settings_of(twin, read_workload(log or twin.log, **(reading if log else twin.reading)), add_nodes, load)
    known = {group.gpu_type for pool in settings[-1].twin.pools for group in pool.groups}
    for name in _speeds(speed or []):
        if name not in known:
            raise GpuschedError(f"--speed: {unknown_name('GPU type', name, sorted(known))}")
    names = None if pseudonymise is None else pseudonyms_of(pseudonymise)
    found = dataclasses.replace(compare_policies(settings, specs, workers), names=names)
    from gpusched_env.cli.console import plain_table

    header, *rows = comparison_rows(found)
    table = plain_table(*header, texts=2)
    for row in rows:
        table.add_row(*row)
    show(table, f"{path}: {len(found.settings[0].workload):,} jobs, {twin.gpus:,} GPUs")
    for sentence in sentences(found):
        print(sentence)
    if csv is not None:
        write_whole(csv, comparison_csv(found))
    if report is not None:
        from gpusched_env.reports.twin import write_twin_report

        write_twin_report(found, report)
    for file in (csv, report):
        if file is not None:
            print(f"{file}: {file.stat().st_size:,} bytes")


@twin_app.command("slurm-conf")
def write_slurm_conf(
    path: Annotated[Path, typer.Argument(metavar="TWIN", help="File of gpusched twin fit.")],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")],
    policy: Annotated[
        str, typer.Option(metavar="SPEC", help="Another policy: slurm with other weights.", show_default="the twin's")
    ] = "",
) -> None:
    """Write the policy of a twin, or another one for it, as lines of slurm.conf."""
    import dataclasses

    from gpusched_env.cli.outputs import check_output
    from gpusched_env.support.files import write_whole
    from gpusched_env.twin import read_twin
    from gpusched_env.twin.configuration import slurm_conf

    check_output("FILE", out, ("",))
    twin = read_twin(path)
    write_whole(out, slurm_conf(dataclasses.replace(twin, scheduler=policy) if policy else twin))
    print(f"{out}: lines of slurm.conf")


def _without(text: str, name: str) -> str:
    """Return a list of specs without this name."""
    return ",".join(part for part in text.split(",") if part.strip() != name)


def _speeds(texts: list[str]) -> dict[str, float]:
    from gpusched_env.errors import GpuschedError

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
