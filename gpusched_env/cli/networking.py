"""The network that options choose."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

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
