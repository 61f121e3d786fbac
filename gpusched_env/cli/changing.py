"""What options change of a scenario, whose name then says so: the network, the cost of preemption, sharing, energy."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.network import NETWORK_PRESETS, Contention
from gpusched_env.problem.energy import DEFAULT, Energy
from gpusched_env.problem.instance import PREEMPTION_COSTS
from gpusched_env.scenarios.convert import build
from gpusched_env.scenarios.files import failures_from_dict, read_fields, sharing_from_dict
from gpusched_env.scenarios.scenario import ONE_PROBLEM
from gpusched_env.sharing import Sharing
from gpusched_env.support.assignments import split_assignments

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario

NONE: Final = "none"
OWN: Final = ("limit", "gpu_memory_GB")  # fields of Sharing; all others belong to a source of interference


def with_network(scenario: Scenario, network: str | None, contention: str | None) -> Scenario:
    """Return the scenario with another network or contention model.

    Parameters
    ----------
    network : name of a network preset
    contention : ``MODEL`` or ``MODEL:field=value,...``; other fields keep the scenario's values
    """
    wires, changes = scenario.network, [text for text in (network, contention) if text is not None]
    if network is not None:
        if network not in NETWORK_PRESETS:
            raise GpuschedError(f"--network: {unknown_name('preset of networks', network, NETWORK_PRESETS)}")
        wires = wires.with_topology(NETWORK_PRESETS[network].topology)
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
    model, colon, rest = text.partition(":")
    fields: dict[str, Any] = dataclasses.asdict(before) | {"model": model}
    if model != before.model:
        fields["ratios"] = ""  # the old table of ratios is of no use to another model
    try:
        fields |= _values(rest) if colon else {}
    except ValueError as error:
        raise GpuschedError(f"--contention {text}: {error}") from None
    return build(Contention, fields, "--contention")


def with_preemption_cost(scenario: Scenario, text: str | None) -> Scenario:
    """Return the scenario with another cost of preemption."""
    if text is None:
        return scenario
    if scenario.variation is not None:
        raise GpuschedError(f"--preemption-cost: the scenario draws it; {ONE_PROBLEM}")
    checkpoint, slash, restore = text.partition("/")
    try:
        seconds = (float(checkpoint), float(restore)) if slash else PREEMPTION_COSTS[text]
    except KeyError:
        raise GpuschedError(
            f"--preemption-cost: {unknown_name('cost', text, PREEMPTION_COSTS)}; or write CHECKPOINT/RESTORE in seconds"
        ) from None
    except ValueError:
        raise GpuschedError(
            f"--preemption-cost {text!r}: write the seconds of checkpoint and restore, such as 30/30"
        ) from None
    semantics = dataclasses.replace(scenario.semantics, checkpoint_s=seconds[0], restore_s=seconds[1])
    return scenario.replace(semantics=semantics, name=f"{scenario.name} + preemption cost {text}")


def with_sharing(scenario: Scenario, text: str | None) -> Scenario:
    """Return the scenario with other rules of sharing."""
    if text is None:
        return scenario
    name = f"{scenario.name} + sharing {text}"
    if text == NONE:
        return scenario.replace(sharing=None, name=name)
    data = (scenario.sharing or Sharing()).as_dict()
    try:
        source = _values(text)
    except ValueError as error:
        raise GpuschedError(f"--sharing {text}: {error}; write limit=2,xi=1.5, or none") from None
    data |= {field: source.pop(field) for field in OWN if field in source}
    if isinstance(memory := data.get("gpu_memory_GB"), int | float):
        data["gpu_memory_GB"] = dict.fromkeys(scenario.cluster.gpu_types, memory)
    for field in source if "source" not in source else ():
        if field != "xi":
            raise GpuschedError(f"--sharing {text}: {unknown_name('field', field, (*OWN, 'xi', 'source'))}")
    if source:
        data["interference"] = {"source": "constant"} | source
    return scenario.replace(sharing=sharing_from_dict(data, "--sharing"), name=name)


def with_energy(scenario: Scenario, text: str | None) -> Scenario:
    """Return the scenario with other watts, prices, sleep or cap; ``default`` = the fields that it has."""
    if text is None:
        return scenario
    try:
        fields = {} if text == DEFAULT else _values(text)
    except ValueError as error:
        raise GpuschedError(f"--energy {text}: {error}; write default, or price=prices.csv,carbon=400") from None
    fields |= {name: split_assignments(text, "")[name] for name in ("price", "carbon", "cap_w") if name in fields}
    own = {} if scenario.energy is None else scenario.energy.as_dict()
    return scenario.replace(energy=build(Energy, own | fields, "--energy"), name=f"{scenario.name} + energy {text}")


def with_failures(scenario: Scenario, text: str | None) -> Scenario:
    """Return the scenario with other failures of nodes."""
    if text is None:
        return scenario
    name = f"{scenario.name} + failures {text}"
    if text == NONE:
        return scenario.replace(failures=None, name=name)
    preset, _, rest = text.partition(",")
    if Path(text).suffix == ".csv":
        data: Any = {"rate": 0.0, "path": text}
    elif Path(text).suffix in (".toml", ".json"):
        data = read_fields(Path(text), "a file of failures")
    else:
        try:
            data = _values(text) if "=" in preset else {"preset": preset} | (_values(rest) if rest else {})
        except ValueError as error:
            raise GpuschedError(f"--failures {text}: {error}; write rsc-1, rate=6.5,repair_s=3600 or none") from None
    return scenario.replace(failures=failures_from_dict(data, "--failures"), name=name)


def _values(text: str) -> dict[str, Any]:
    """Parse ``field=value,...``; a value that is not JSON is a text."""
    fields: dict[str, Any] = {}
    for name, value in split_assignments(text, "field=value").items():
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields
