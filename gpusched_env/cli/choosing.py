"""What several commands ask for: a log, jobs, a problem, seeds, processes. Each option is declared here once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from gpusched_env.errors import GpuschedError, TraceError

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario

MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="Roles of the columns of csv:PATH if their names do not tell them: arrival=submit_time,duration_min=wall, "
        "or a file that gpusched traces map wrote. May be given repeatedly.",
        metavar="ROLE=COLUMN,...|FILE.toml",
        rich_help_panel="Which jobs",
    ),
]
SchedulersOption = Annotated[
    list[str],
    typer.Option(
        "--schedulers",
        "--scheduler",
        help="Specs, separated by commas, or several such options. A part parameter=value belongs to the "
        "scheduler before it: fifo,tiresias:knob=8,packlimit=0.5,srtf names three. NAME=SPEC is called NAME in tables; "
        "after a comma, x=y is a name only if y is a scheduler and no scheduler has a parameter x.",
        metavar="SPECS",
    ),
]
_SCENARIO: Final = typer.Option(
    "--scenario",
    help="Name (gpusched scenarios list), with parameters if it has any, such as "
    "dally-poisson-v1:gpus=512,load=0.7; or the path of a .json or .toml file. Without --workload, philly-64-v1.",
    metavar="NAME|PATH",
)
ScenarioOption = Annotated[str, _SCENARIO]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers",
        help="Processes, at most one per core; -1 = one per core. Results do not depend on it.",
        envvar="GPUSCHED_WORKERS",
    ),
]
WORKERS: Final = -1  # default of every command
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        help="Where the runs are played: processes of this machine, ray (a Ray cluster that is started here), or "
        "ray:ADDRESS of a running cluster. Results do not depend on it.",
        metavar="processes|ray[:ADDRESS]",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a log is read."""

    PANEL: ClassVar = "Which jobs"
    mapping: MapOption = None
    gpu_resource: Annotated[str | None, typer.Option(metavar="NAME")] = None
    """Resource of Kubernetes that is a GPU, for kueue, kubernetes and volcano."""
    sacct_columns: Annotated[str | None, typer.Option(metavar="NAME,...")] = None
    """Columns of a table of sacct without a header (sacct -n), as its --format has them."""
    skip_bad_rows: bool = False
    """Skip and report malformed rows of a log instead of refusing the log."""

    def options(self, estimate: str | None = None) -> dict[str, Any]:
        """Return what is given as options of read_trace."""
        given = {
            "map": columns_of(self.mapping) or None,
            "skip_bad_rows": self.skip_bad_rows or None,
            "estimate": estimate,
            "gpu_resource": self.gpu_resource,
            "columns": self.sacct_columns,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LogReading(Reading):
    """How a log is read, and predictions of run times beside it."""

    PANEL: ClassVar = "Which jobs"
    estimate: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """Predicted run times by job id: a CSV with columns such as job_id,estimate_s."""

    def options(self, estimate: str | None = None) -> dict[str, Any]:
        """Return what is given as options of read_trace."""
        return super().options(estimate or self.estimate)


@dataclass(frozen=True, kw_only=True)
class Jobs(LogReading):
    """Which jobs, and how fast they arrive; in the order in which the options apply."""

    PANEL: ClassVar = "Which jobs"
    window: Annotated[str | None, typer.Option(metavar="START:STOP")] = None
    """Of a log, jobs that arrive in these seconds."""
    where: Annotated[list[str] | None, typer.Option(metavar="ATTRIBUTE=VALUES")] = None
    """Of a log, jobs with an attribute: virtual_cluster=6214e9,11cb48 or status!=Killed. May be given repeatedly."""
    max_gpus: Annotated[int | None, typer.Option(metavar="GPUS", min=1)] = None
    """Leave out jobs with larger demands."""
    sample: Annotated[float | None, typer.Option(metavar="SHARE|COUNT")] = None
    """Of a log, a random fraction below 1, or so many jobs."""
    jobs: Annotated[int | None, typer.Option(metavar="COUNT", min=1)] = None
    """Number of jobs; of a log, the first ones."""
    load: Annotated[float | None, typer.Option(metavar="LOAD")] = None
    """Scale arrival times so that the jobs offer this load to the cluster."""

    def changes(self) -> dict[str, Any]:
        """Return what is given as fields of a WorkloadSpec."""
        given: dict[str, Any] = {} if self.window is None else _seconds(self.window)
        given |= {"where": tuple(self.where or ()), "max_gpus": self.max_gpus, "sample": self.sample}
        given |= {"jobs": self.jobs, "load": self.load, "parameters": self.options() or None}
        return {name: value for name, value in given.items() if name == "stop_s" or value not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class Wires:
    """Which network."""

    PANEL: ClassVar = "Which network"
    network: Annotated[str | None, typer.Option(metavar="PRESET")] = None
    """Play on the topology of a preset (docs/network.md), such as oversub4. Gangs contend by the model maxmin, unless
    the scenario or --contention chooses another."""
    contention: Annotated[str | None, typer.Option(metavar="MODEL")] = None
    """Contention model: none, maxmin, kway, flat, table, budget, tiers or strict-priority, with fields such as
    kway:xi1=0.5,alpha=0.2. Fields that are not given keep their values."""


@dataclass(frozen=True, kw_only=True)
class Problem(Jobs, Wires):
    """A scenario, with what the command line changes of it."""

    scenario: Annotated[str | None, _SCENARIO] = None
    workload: Annotated[str | None, typer.Option(metavar="FORMAT:PATH")] = None
    """Play other jobs: a log (philly, helios, ...) or synthetic:NAME. Without --scenario, nothing else is taken from
    one: --cluster tells the machines."""
    cluster: Annotated[str | None, typer.Option(metavar="NxG/R@TYPE|FORMAT:PATH")] = None
    """Play on other machines: nodes x GPUs, optionally / nodes per rack and @ GPU type, such as 310x8/31 or
    16x4@T4,4x8@A100; or a cluster description (openb, pai, slurm, ...), or slurm.conf."""
    preemption_cost: Annotated[str | None, typer.Option(metavar="NAME|CHECKPOINT/RESTORE")] = None
    """Cost of a preemption: zero, tiresias62, pollux30, warm, process, container (docs/scenarios.md), or the seconds of
    checkpoint and restore, such as 30/30."""
    start_latency: Annotated[str | None, typer.Option(metavar="KIND")] = None
    """What first starts take besides semantics.start_s, drawn for each job: warm, process or container."""
    noise: bool = False
    """Gangs wait for their slowest worker, whose speed is drawn (docs/scenarios.md)."""
    sharing: Annotated[str | None, typer.Option(metavar="FIELD=VALUE,...|none")] = None
    """Let jobs share GPUs (docs/sharing.md): limit=2,xi=1.5; or a source of slowdowns, such as source=synthetic,seed=1
    or source=table,path=FILE,missing=forbid. gpu_memory_GB=16 also limits memory. Fields that are not given keep their
    values. none = one job per GPU."""
    energy: Annotated[str | None, typer.Option(metavar="FIELD=VALUE,...|default")] = None
    """Compute energy (docs/energy.md): default = the package's watts of GPUs; watts=FILE, price=FILE|NUMBER,
    carbon=FILE|NUMBER, sleep_after_s=600,sleep_w=0, cap_w=FILE|NUMBER. Fields that are not given keep their values."""
    failures: Annotated[str | None, typer.Option(metavar="PRESET|FIELD=VALUE,...|FILE|none")] = None
    """Let nodes fail (docs/failures.md): a preset, such as llama3 or rsc-1,repair_s=3600; fields, such as rate=6.5 (per
    1,000 nodes and day); a .toml or .json file of such fields; or a .csv file of outages."""
    profiles: Annotated[str | None, typer.Option(metavar="RULE")] = None
    """Models for jobs without one: unit = equal run times on every GPU type and placement, the default of a log without
    --scenario; mix (V100), gavel (V100, P100, K80), elasticflow (A100, T4), pollux (T4) and sia (A100, RTX2080Ti, ...)
    draw them; gavel:PATH reads another throughput file of Gavel."""
    measured_on: Annotated[str | None, typer.Option(metavar="NETWORK[/CLUSTER]")] = None
    """Where run times were measured, such as dgxv-100g/16x8@V100, by default here: jobs do the work of this time on the
    ideal placement there, on every --network and --cluster. --load and --deadlines refer to this time."""
    ignore_placement: bool = False
    """Gangs of measured models run as fast spread as in one machine, as in Gavel's simulator."""
    ignore_types: bool = False
    """Jobs run on GPUs of every type, whatever types they ask for."""
    ignore_nodes: bool = False
    """Gangs may be split over any nodes, whatever numbers of nodes they ask for."""

    def changes(self) -> dict[str, Any]:
        """Return what is given as fields of a WorkloadSpec."""
        given: dict[str, Any] = {"profiles": self.profiles, "ignore_placement": self.ignore_placement or None}
        given |= {"ignore_types": self.ignore_types or None, "ignore_nodes": self.ignore_nodes or None}
        given |= {"measured_on": self.measured_on, "start_latency": self.start_latency}
        given |= {"noise": {} if self.noise else None}
        return super().changes() | {name: value for name, value in given.items() if value is not None}

    def chosen(self) -> Scenario:
        """Return the scenario; its name tells what was changed."""
        from gpusched_env.cli.changing import (
            with_energy,
            with_failures,
            with_network,
            with_preemption_cost,
            with_sharing,
        )  # fmt: skip
        from gpusched_env.cli.parsing import chosen_scenario

        found = chosen_scenario(self.scenario, self.workload, self.cluster, self.changes())
        found = with_network(found, self.network, self.contention)
        found = with_sharing(with_preemption_cost(found, self.preemption_cost), self.sharing)
        return with_failures(with_energy(found, self.energy), self.failures)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Which seeds."""

    seeds: Annotated[str | None, typer.Option(metavar="COUNT|FIRST:END")] = None
    """Number of seeds, or a range FIRST:END (END excluded)."""
    seed: Annotated[int | None, typer.Option(min=0)] = None
    """This seed alone: 7 is short for --seeds 7:8."""

    @property
    def text(self) -> str | None:
        """What --seeds or --seed says."""
        if self.seed is None:
            return self.seeds
        if self.seeds is not None:
            raise GpuschedError("--seeds and --seed: give one of them")
        return f"{self.seed}:{self.seed + 1}"

    def one(self, first: int = 0) -> int:
        """Return the seed of a command that takes one; ``first`` = if none is given."""
        from gpusched_env.cli.parsing import parsed_seeds

        seeds = range(first, first + 1) if self.text is None else parsed_seeds(self.text, first)
        if len(seeds) != 1:
            raise GpuschedError(f"--seeds {self.text}: this command takes one seed, such as --seed {seeds.start}")
        return seeds.start

    def of(self, scenario: Scenario, use: str = "report", default: int = 5) -> list[int]:
        """Return the seeds for a scenario; see :func:`gpusched_env.cli.parsing.chosen_seeds`."""
        from gpusched_env.cli.parsing import chosen_seeds

        return chosen_seeds(self.text, scenario, use, default)


ANY_SEED: Final = Draws()
AS_IT_IS: Final = Reading()


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Where the runs are played."""

    workers: WorkersOption = WORKERS
    backend: BackendOption = "processes"


def columns_of(mapping: list[str] | None) -> dict[str, str]:
    """Return the columns by role that ``--map`` names."""
    from gpusched_env.traces.read_options import parse_map

    columns: dict[str, str] = {}
    for one in mapping or ():
        told = parse_map(one)
        if twice := next((role for role in told if role in columns), ""):
            raise TraceError(f"--map: {twice} is given twice; keep one")
        columns |= told
    return columns


def _seconds(window: str) -> dict[str, float | None]:
    start, colon, stop = window.partition(":")
    try:
        if colon:
            return {"start_s": float(start or 0), "stop_s": float(stop) if stop else None}
    except ValueError:
        pass
    raise GpuschedError(
        f"--window {window!r}: write START:STOP in seconds from the first arrival, such as 0:86400 or 3600:"
    )
