"""The network that options choose, and ``gpusched scenarios draw``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusched_env.cli.choosing import Draws, Wires
from gpusched_env.cli.outputs import PLOT_SUFFIXES, written
from gpusched_env.errors import GpuschedError

if TYPE_CHECKING:
    from gpusched_env.network import Contention
    from gpusched_env.scenarios import Scenario


def with_network(scenario: Scenario, network: str | None, contention: str | None) -> Scenario:
    """Return the scenario with another network or contention model; the name of the new scenario says so.

    Parameters
    ----------
    network : name of a network preset
    contention : ``MODEL`` or ``MODEL:field=value,...``; other fields keep the scenario's values
    """
    from gpusched_env.errors import unknown_name
    from gpusched_env.network import NETWORK_PRESETS, Contention, Network

    wires, changes = scenario.network, [text for text in (network, contention) if text is not None]
    if network is not None:
        if network not in NETWORK_PRESETS:
            raise GpuschedError(f"--network: {unknown_name('preset of networks', network, NETWORK_PRESETS)}")
        topology = NETWORK_PRESETS[network].topology
        if wires.topology is None:
            wires = Network("topology", topology=topology, contention=Contention())
        else:
            wires = dataclasses.replace(wires, topology=topology)
    if contention is not None:
        if wires.topology is None:
            raise GpuschedError(
                f"--contention {contention}: scenario {scenario.name} has no links that gangs could share; give "
                "--network as well"
            )
        wires = dataclasses.replace(wires, contention=_contention(wires.contention, contention))
    return scenario.replace(network=wires, name=" + ".join([scenario.name, *changes])) if changes else scenario


def _contention(before: Contention, text: str) -> Contention:
    """Read ``MODEL`` or ``MODEL:field=value,...``."""
    from gpusched_env.network import Contention
    from gpusched_env.scenarios.convert import build

    model, colon, rest = text.partition(":")
    fields: dict[str, Any] = dataclasses.asdict(before) | {"model": model}
    if model != before.model:
        fields["ratios"] = ""  # the old table of ratios is of no use to another model
    for item in rest.split(",") if colon else ():
        name, equals, value = item.partition("=")
        if not equals:
            raise GpuschedError(f"--contention {text}: {item!r} is not of the form field=value")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value  # a name
    contention = build(Contention, fields, "--contention")
    assert isinstance(contention, Contention)
    return contention


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
    from gpusched_env.cli.parsing import seed_range
    from gpusched_env.network import compiled_topology, draw_topology
    from gpusched_env.scenarios import get_scenario

    scenario = with_network(get_scenario(name), wires.network, wires.contention)
    draw = draws.one(scenario.seeds.report[0])
    scenario = scenario.problem(draw)
    topology = compiled_topology(scenario.network, scenario.cluster)
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
