"""What several commands ask for: a log, jobs, a problem, seeds, processes. Each option is declared here once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gpusched_env.errors import GpuschedError, TraceError

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario

PANEL: Final = "Which jobs"
NETWORK_PANEL: Final = "Which network"


def _option(name: str, metavar: str, text: str, panel: str = PANEL, **limits: Any) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=panel, show_default=False, **limits)


MapOption = Annotated[
    list[str] | None,
    _option(
        "--map",
        "ROLE=COLUMN,...|FILE.toml",
        "Roles of the columns of csv:PATH if their names do not tell them: arrival=submit_time,duration_min=wall, or a "
        "file that gpusched traces map wrote. May be given repeatedly.",
    ),
]
SchedulersOption = Annotated[
    list[str],
    typer.Option(
        "--schedulers",
        "--scheduler",
        help="Specs, separated by commas, or several such options. A part parameter=value belongs to the "
        "scheduler before it: fifo,tiresias:knob=8,packlimit=0.5,srtf names three.",
        metavar="SPECS",
    ),
]
ScenarioOption = Annotated[
    str,
    typer.Option(
        "--scenario",
        help="Name (gpusched scenarios list), with parameters if it has any, such as dally-poisson-v1:gpus=512,load=0.7; "
        "or the path of a .json or .toml file.",
        metavar="NAME|PATH",
    ),
]
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

    mapping: MapOption = None
    gpu_resource: Annotated[
        str | None,
        _option("--gpu-resource", "NAME", "Resource of Kubernetes that is a GPU, for kueue, kubernetes and volcano."),
    ] = None
    skip_bad_rows: Annotated[
        bool, _option("--skip-bad-rows", "", "Skip and report malformed rows of a log instead of refusing the log.")
    ] = False

    def options(self, estimate: str | None = None) -> dict[str, Any]:
        """Return what is given as options of read_trace.

        Raises
        ------
        TraceError : a malformed mapping, or a role that two of them give
        """
        given = {
            "map": columns_of(self.mapping) or None,
            "skip_bad_rows": self.skip_bad_rows or None,
            "estimate": estimate,
            "gpu_resource": self.gpu_resource,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LogReading(Reading):
    """How a log is read, and predictions of run times beside it."""

    estimate: Annotated[
        str | None,
        _option("--estimate", "FILE", "Predicted run times by job id: a CSV with columns such as job_id,estimate_s."),
    ] = None

    def options(self, estimate: str | None = None) -> dict[str, Any]:
        """Return what is given as options of read_trace."""
        return super().options(estimate or self.estimate)


@dataclass(frozen=True, kw_only=True)
class Jobs(LogReading):
    """Which jobs, and how fast they arrive; in the order in which the options apply."""

    window: Annotated[str | None, _option("--window", "START:STOP", "Of a log, jobs that arrive in these seconds.")] = (
        None
    )
    where: Annotated[
        list[str] | None,
        _option(
            "--where",
            "ATTRIBUTE=VALUES",
            "Of a log, jobs with an attribute: virtual_cluster=6214e9,11cb48 or status!=Killed. May be given "
            "repeatedly.",
        ),
    ] = None
    max_gpus: Annotated[int | None, _option("--max-gpus", "GPUS", "Leave out jobs with larger demands.", min=1)] = None
    sample: Annotated[
        float | None, _option("--sample", "SHARE|COUNT", "Of a log, a random fraction below 1, or so many jobs.")
    ] = None
    jobs: Annotated[int | None, _option("--jobs", "COUNT", "Number of jobs; of a log, the first ones.", min=1)] = None
    load: Annotated[
        float | None,
        _option("--load", "LOAD", "Scale arrival times so that the jobs offer this load to the cluster."),
    ] = None

    def changes(self) -> dict[str, Any]:
        """Return what is given as fields of a WorkloadSpec.

        Raises
        ------
        GpuschedError : a malformed window or mapping
        """
        given: dict[str, Any] = {} if self.window is None else _seconds(self.window)
        given |= {"where": tuple(self.where or ()), "max_gpus": self.max_gpus, "sample": self.sample}
        given |= {"jobs": self.jobs, "load": self.load, "parameters": self.options() or None}
        return {name: value for name, value in given.items() if name == "stop_s" or value not in (None, ())}


@dataclass(frozen=True, kw_only=True)
class Wires:
    """Which network."""

    network: Annotated[
        str | None,
        _option(
            "--network",
            "PRESET",
            "Play on the topology of a preset (docs/network.md), such as oversub4. Gangs contend by the model maxmin, "
            "unless the scenario or --contention chooses another.",
            NETWORK_PANEL,
        ),
    ] = None
    contention: Annotated[
        str | None,
        _option(
            "--contention",
            "MODEL",
            "Contention model: none, maxmin, kway, flat, table, budget or tiers, with fields such as "
            "kway:xi1=0.5,alpha=0.2. Fields that are not given keep their values.",
            NETWORK_PANEL,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Problem(Jobs, Wires):
    """A scenario, with what the command line changes of it."""

    scenario: ScenarioOption = "philly-64-v1"
    workload: Annotated[
        str | None,
        typer.Option(help="Play other jobs: a log (philly, helios, ...) or synthetic:NAME.", metavar="FORMAT:PATH"),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Play on other machines: nodes x GPUs, optionally / nodes per rack and @ GPU type, such as 310x8/31 "
            "or 16x4@T4,4x8@A100; or a cluster description (openb, pai, slurm, ...), or slurm.conf.",
            metavar="NxG/R@TYPE|FORMAT:PATH",
        ),
    ] = None
    preemption_cost: Annotated[
        str | None,
        typer.Option(
            "--preemption-cost",
            help="Cost of a preemption: zero, tiresias62, pollux30 (docs/scenarios.md), or the seconds of checkpoint "
            "and restore, such as 30/30.",
            metavar="NAME|CHECKPOINT/RESTORE",
            show_default=False,
        ),
    ] = None
    sharing: Annotated[
        str | None,
        typer.Option(
            help="Let jobs share GPUs (docs/sharing.md): limit=2,xi=1.5; or a source of slowdowns, such as "
            "source=synthetic,seed=1 or source=table,path=FILE,missing=forbid. gpu_memory_GB=16 also limits memory. "
            "Fields that are not given keep their values. none = one job per GPU.",
            metavar="FIELD=VALUE,...|none",
            show_default=False,
        ),
    ] = None
    profiles: Annotated[
        str | None,
        _option(
            "--profiles",
            "RULE",
            "Models for jobs without one: unit = equal run times on every GPU type and placement; mix (V100), "
            "gavel (V100, P100, K80), elasticflow (A100, T4), pollux (T4) and sia (A100, RTX2080Ti, ...) draw them.",
        ),
    ] = None
    ignore_placement: Annotated[
        bool,
        _option(
            "--ignore-placement",
            "",
            "Gangs of measured models run as fast spread as in one machine, as in Gavel's simulator.",
        ),
    ] = False

    def changes(self) -> dict[str, Any]:
        """Return what is given as fields of a WorkloadSpec."""
        given = {"profiles": self.profiles, "ignore_placement": self.ignore_placement or None}
        return super().changes() | {name: value for name, value in given.items() if value is not None}

    def chosen(self) -> Scenario:
        """Return the scenario; its name tells what was changed.

        Raises
        ------
        GpuschedError : an unknown name, a damaged file, or a malformed option
        """
        from gpusched_env.cli.networking import with_network
        from gpusched_env.cli.parsing import chosen_scenario
        from gpusched_env.cli.preempting import with_preemption_cost
        from gpusched_env.cli.sharing import with_sharing

        found = chosen_scenario(self.scenario, self.workload, self.cluster, self.changes())
        found = with_network(found, self.network, self.contention)
        return with_sharing(with_preemption_cost(found, self.preemption_cost), self.sharing)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Which seeds."""

    seeds: Annotated[
        str | None,
        typer.Option(help="Number of seeds, or a range FIRST:END (END excluded).", metavar="COUNT|FIRST:END"),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, help="This seed alone: 7 is short for --seeds 7:8.")] = None

    @property
    def text(self) -> str | None:
        """What --seeds or --seed says.

        Raises
        ------
        GpuschedError : both are given
        """
        if self.seed is None:
            return self.seeds
        if self.seeds is not None:
            raise GpuschedError("--seeds and --seed: give one of them")
        return f"{self.seed}:{self.seed + 1}"

    def one(self, first: int = 0) -> int:
        """Return the seed of a command that takes one; ``first`` = if none is given.

        Raises
        ------
        GpuschedError : a malformed text, or several seeds
        """
        from gpusched_env.cli.parsing import parsed_seeds

        seeds = range(first, first + 1) if self.text is None else parsed_seeds(self.text, first)
        if len(seeds) != 1:
            raise GpuschedError(f"--seeds {self.text}: this command takes one seed, such as --seed {seeds.start}")
        return seeds.start

    def of(self, scenario: Scenario, use: str = "report", default: int = 5) -> list[int]:
        """Return the seeds for a scenario; see :func:`gpusched_env.cli.parsing.chosen_seeds`."""
        from gpusched_env.cli.parsing import chosen_seeds

        return chosen_seeds(self.text, scenario, use, default)


@dataclass(frozen=True, kw_only=True)
class Processes:
    """Where the runs are played."""

    workers: WorkersOption = WORKERS
    backend: BackendOption = "processes"


def columns_of(mapping: list[str] | None) -> dict[str, str]:
    """Return the columns by role that ``--map`` names.

    Raises
    ------
    TraceError : a malformed mapping, or a role that two of them give
    """
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


def in_words(changes: dict[str, Any]) -> list[str]:
    """Describe what :func:`chosen_jobs` chose, in short texts for the name of a scenario."""
    parts = []
    if "start_s" in changes:
        stop = changes["stop_s"]
        parts.append(f"window {changes['start_s']:.15g}:{'' if stop is None else f'{stop:.15g}'}")
    parts += changes.get("where", ())
    for name in ("max_gpus", "sample", "jobs", "load"):
        if name in changes:
            parts.append(f"{name.replace('_', ' ')} {changes[name]:g}")
    for name, value in changes.get("parameters", {}).items():
        shown = ",".join(f"{role}={column}" for role, column in value.items()) if name == "map" else value
        parts.append(name.replace("_", " ") if value is True else f"{name} {shown}")
    if "ignore_placement" in changes:
        parts.append("ignore placement")
    if "profiles" in changes:
        parts.append(f"profiles {changes['profiles']}")
    return parts
