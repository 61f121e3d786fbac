"""``gpusched scenarios``, ``schedulers`` and ``traces``: list, show, read."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from gpusched_env.cli.choosing import Draws, LogReading, Wires
from gpusched_env.cli.outputs import PLOT_SUFFIXES, written
from gpusched_env.errors import GpuschedError, SchedulerError, TraceError, unknown_name
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.support.files import write_whole
from gpusched_env.support.plugins import load_plugins

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario, ScenarioFamily

HEADINGS: Final = ("scenario", "GPUs", "nodes", "racks", "jobs", "workload", "description")
scenarios_app = Commands("List the scenarios; show, draw or play one.")
schedulers_app = Commands("List the schedulers, or explain one and its parameters.")
traces_app = Commands("Read, describe and fetch public logs, tables and machine lists; write logs.")


@scenarios_app.add("list", tables=True)
def list_scenarios() -> None:
    """List the scenarios."""
    from gpusched_env.scenarios import FAMILIES, get_scenario
    from gpusched_env.scenarios import list_scenarios as names

    table = Table(*HEADINGS, caption_justify="left")
    rows = []
    for scenario in map(get_scenario, names()):
        cluster = scenario.cluster
        counts = (cluster.gpus, len(cluster.nodes), len(cluster.racks), scenario.workload.jobs or 0)
        told = (scenario.name, *counts, _source(scenario), scenario.description)
        has_parameters = scenario.name in FAMILIES
        rows.append(dict(zip(HEADINGS, told, strict=True)) | {"parameters": has_parameters})
        table.add_row(told[0] + "*" * has_parameters, *(f"{n:,}" for n in counts), *told[5:])
    for column in table.columns[:-1]:
        column.no_wrap = True
    for column in table.columns[1:5]:
        column.justify = "right"
    table.caption = "* has parameters, NAME:parameter=value,...; gpusched scenarios show NAME explains them"
    show(table, rows=rows)


def _source(scenario: Scenario) -> str:
    load, sharing = scenario.workload.load, scenario.sharing
    text = scenario.workload.source + (f", load {load:g}" if load is not None else "")
    return text + (f", {sharing.limit} per GPU" if sharing is not None else "")


@scenarios_app.add("show")
def show_scenario(name: Annotated[str, typer.Argument(metavar="NAME[:parameter=value,...]|PATH")]) -> None:
    """Print a scenario as JSON, which --scenario accepts as a file, and explain its parameters on stderr."""
    from gpusched_env.scenarios import FAMILIES, get_scenario

    print(json.dumps(get_scenario(name).as_dict(), indent=2, allow_nan=False))
    family = FAMILIES.get(name.partition(":")[0])
    if family is not None:
        print("\n".join(_explained(family)), file=sys.stderr)


@scenarios_app.add("draw")
def draw_scenario(
    name: Annotated[str, typer.Argument(metavar="NAME|PATH")],
    output: Annotated[Path, written(*PLOT_SUFFIXES, help="File of the drawing: .png, .svg or .pdf.")],
    wires: Wires,
    draws: Draws,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Play it, and draw the load of each link when most bytes cross the network.", metavar="SPEC"),
    ] = None,
) -> None:
    """Draw the servers, switches and links of a scenario (of its first report seed, if it draws them).

    Example: gpusched scenarios draw leaf-spine-256-v1 --scheduler fifo --output loads.png
    """
    from gpusched_env.cli.changing import with_network
    from gpusched_env.cli.parsing import seed_range
    from gpusched_env.network import compiled_links, draw_topology
    from gpusched_env.scenarios import get_scenario

    scenario = with_network(get_scenario(name), wires.network, wires.contention)
    draw = draws.one(scenario.seeds.report[0])
    scenario = scenario.problem(draw)
    topology, _, _ = compiled_links(scenario.network, scenario.cluster)
    if topology is None:
        raise GpuschedError(
            f"scenario {scenario.name} is priced by tiers and has no links to draw; give --network, or choose another"
        )
    title, loads = scenario.name, None
    if scheduler is not None:
        from gpusched_env.baselines import make_scheduler
        from gpusched_env.evaluation.busiest import busiest_moment
        from gpusched_env.support.units import three_digits, unit_for

        moment = busiest_moment(scenario.instance(draw), make_scheduler(scheduler), draw)
        unit, loads = unit_for([moment.time_s]), moment.loads
        title = (
            f"{scheduler} on {scenario.name}, {seed_range([draw])}: busiest after "
            f"{three_digits(moment.time_s / unit.seconds)} {unit.sign}"
        )
    draw_topology(topology, output, loads, title)
    print(output)


def _explained(family: ScenarioFamily) -> list[str]:
    """Explain the parameters of a scenario, one per line."""
    from gpusched_env.scenarios.family import written

    first = family.parameters[0]
    example = first.values[-1] if first.values else first.default
    lines = [f"parameters, as in {family.name}:{first.name}={written(first.least if example is None else example)}"]
    for item in family.parameters:
        default = "" if item.default is None else f"; {written(item.default)} if not given"
        lines.append(f"  {item.name}: {item.meaning}; {item.allowed}{default}")
    return lines


@schedulers_app.add("list", tables=True)
def list_schedulers() -> None:
    """List the schedulers, and what a scenario must have so that each one is itself."""
    from gpusched_env.baselines import BASELINES

    load_plugins()
    table = plain_table("scheduler", "summary", "needs", texts=3)
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    rows = [_told(name) for name in BASELINES]
    for row in rows:
        name = row["scheduler"] + "*" * row["clairvoyant"]
        table.add_row(name, Text(row["summary"], no_wrap=True, overflow="ellipsis"), ", ".join(row["needs"]))
    table.caption = "* reads true run times. gpusched schedulers show NAME explains needs and parameters"
    show(table, rows=rows)


@schedulers_app.add("show")
def show_scheduler(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Explain a scheduler: what it does and needs, its parameters, and where it was published."""
    from gpusched_env.baselines import BASELINES
    from gpusched_env.baselines.domains import NEEDS
    from gpusched_env.simulator import PLACEMENT_RULES

    load_plugins()
    if name not in BASELINES:
        raise SchedulerError(unknown_name("scheduler", name, BASELINES, "gpusched schedulers list"))
    cls, told = _class_of(BASELINES[name].target), _told(name)
    print(f"{name}: {told['summary']}\n")
    print(f"to be itself it needs: {', '.join(NEEDS[need].words for need in told['needs']) or 'nothing special'}")
    print(f"defaults: {name}:{','.join(told['parameters'])}" if told["parameters"] else "no parameters")
    print(f"\n{inspect.getdoc(cls)}")
    for base in cls.__mro__[1:]:  # inherited parameters are explained where they are defined
        if "Parameters\n" in (base.__dict__.get("__doc__") or ""):
            print(f"\n{inspect.getdoc(base)}")
    if any(text.startswith("placement=") for text in told["parameters"]):
        print(f"\nplacement rules: {', '.join(PLACEMENT_RULES)}")


@traces_app.add("read", tables=True)
def read_log(
    source: Annotated[str, typer.Argument(metavar="FORMAT:PATH", help="Or FORMAT PATH. auto detects the format.")],
    reading: LogReading,
    path: Annotated[str, typer.Argument(metavar="PATH", help="If FORMAT stands alone.", show_default=False)] = "",
    output: Annotated[Path | None, written(".csv", help="Save every dropped row and every remark as .csv.")] = None,
) -> None:
    """Read a log and print what was kept, what was dropped and why, and statistics of its jobs."""
    from gpusched_env.evaluation.progress import reading_shown
    from gpusched_env.support.units import readable, three_digits
    from gpusched_env.traces import describe_workload, read_trace

    if path and ":" in source:
        raise TraceError(f"{source} {path}: write FORMAT:PATH or FORMAT PATH, not both")
    with reading_shown():
        workload, report = read_trace(f"{source}:{path}" if path else source, **reading.options())
    if output is not None:  # saved before printing, because a closed pipe ends the command
        report.write_csv(output)
    print(report.describe())
    table = plain_table("of the jobs kept", "value")
    found = describe_workload(workload)
    for name, value in found.items():
        count = f"{value:,}" if isinstance(value, int) else three_digits(value)
        text = readable(value) if name.endswith("_s") else count
        table.add_row(name.removesuffix("_s").replace("_", " ").replace("gpu", "GPU"), text)
    show(table, rows=[found])


@traces_app.add("map")
def guess_map(
    source: Annotated[str, typer.Argument(metavar="csv:PATH", help="A CSV of your own.")],
    output: Annotated[Path | None, written(".toml", help="Write it to this .toml.")] = None,
) -> None:
    """Guess the roles of the columns of a CSV, and print them as a file for --map, to be corrected.

    Example: gpusched traces map csv:jobs.csv --output jobs.toml
    """
    from gpusched_env.traces.parsing.map_files import guessed_map

    kind, colon, path = source.partition(":")
    if colon and kind != "csv":
        raise TraceError(f"{source}: only the columns of a CSV of your own have a mapping; write csv:PATH")
    text = guessed_map(Path(path if colon else source).expanduser())
    if output is None:
        print(text, end="")
        return
    if output.exists():
        raise TraceError(f"--output {output}: this file exists, and may hold your corrections; name another one")
    write_whole(output, text)
    lines = sum(bool(line) and not line.startswith("#") for line in text.splitlines())
    print(f"{output}: {lines} roles guessed; correct the file, then use --map {output}")


def _class_of(target: str) -> Any:

    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _told(name: str) -> dict[str, Any]:
    """Return what the list tells of a registered scheduler, with the parameters that it has by default."""
    from gpusched_env.baselines import BASELINES, make_scheduler
    from gpusched_env.baselines.domains import needs_of
    from gpusched_env.baselines.registry import LEARNED

    baseline = BASELINES[name]
    cls = _class_of(baseline.target)
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()  # a user's class need not be a dataclass
    values = {field.name: field.default for field in fields if field.init} | baseline.parameters
    made = make_scheduler(name) if name != LEARNED else None  # ``learned`` is as its agent
    return {
        "scheduler": name,
        "summary": baseline.summary,
        "needs": list(baseline.needs if made is None else needs_of(made, name)),
        "clairvoyant": made is not None and made.clairvoyant,
        "parameters": [_written(key, value) for key, value in values.items()],
    }


def _written(key: str, value: Any) -> str:
    """Return a parameter with its default as in a spec; if it has no default, return only its name."""
    key = key.rstrip("_")  # lambda_
    if value in ("", ()):
        return key
    if isinstance(value, tuple):
        return f"{key}={'/'.join(f'{part:g}' for part in value)}"
    return f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
