"""The named scenarios; ``registry.toml`` lists them, and says when the version in a name is raised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.scenarios.family import Parameter, ScenarioFamily, Value
from gpusched_env.scenarios.files import load_scenario, scenario_from_dict
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.support.files import toml_beside
from gpusched_env.support.plugins import load_plugins


def _parameter(name: str, meaning: str, default: Value = None, **allowed: Any) -> Parameter:
    least, most = allowed.get("whole") or allowed.get("numbers") or (-math.inf, math.inf)
    values = tuple(allowed.get("values", ()))
    return Parameter(name, default, meaning, values, least, most, "whole" in allowed, "text" in allowed)


def _family(name: str, entry: Mapping[str, Any]) -> ScenarioFamily:
    module, _, function = entry["build"].partition(":")
    build = getattr(import_module(f"gpusched_env.scenarios.{module}"), function)
    parameters = (_parameter(one, **fields) for one, fields in entry.get("parameters", {}).items())
    return ScenarioFamily(name, partial(build, **entry.get("given", {})), tuple(parameters))


_ENTRIES: Final = toml_beside(__file__)
_BUILT: Final = {name: _family(name, entry) for name, entry in _ENTRIES.items() if "build" in entry}
# Families of scenarios; SCENARIOS has the scenario of each family with the default parameters.
FAMILIES: Final[dict[str, ScenarioFamily]] = {name: family for name, family in _BUILT.items() if family.parameters}
SCENARIOS: Final = tuple(
    _BUILT[name].scenario() if name in _BUILT else scenario_from_dict({"name": name, **entry}, name)
    for name, entry in _ENTRIES.items()
)
_BY_NAME: Final = {scenario.name: scenario for scenario in SCENARIOS}
# Retired name -> its replacement; the results of the retired scenarios differed between machines.
RETIRED: Final = {f"{name}-v0": f"{name}-v1" for name in (
    "philly-64", "philly-256", "philly-full", "helios-venus", "poisson-64", "tiny", "leaf-spine-256",
    "leaf-spine-2048", "dally-batch", "dally-poisson", "dally-trace", "dally-drift", "dally-authors",
    "gavel-continuous", "hadar-60gpu", "bsbf-sim-240", "bsbf-physical-30",
)}  # fmt: skip


def register_scenario(scenario: Scenario | ScenarioFamily) -> None:
    """Register a scenario, or a family of scenarios with parameters, under its name."""
    name = scenario.name
    if name in _BY_NAME or name in RETIRED:
        raise ScenarioError(f"scenario {name!r} exists already; choose another name")
    if isinstance(scenario, ScenarioFamily):
        FAMILIES[name] = scenario
        scenario = scenario.scenario()
    _BY_NAME[name] = scenario


def list_scenarios() -> tuple[str, ...]:
    """Return the names of the registered scenarios."""
    load_plugins()
    return tuple(_BY_NAME)


def get_scenario(name_or_path: str) -> Scenario:
    """Return a registered scenario, or read a scenario from a file.

    Parameters
    ----------
    name_or_path : name of a scenario; or name of a family with parameters, such as
        ``dally-poisson-v1:gpus=512,oversubscription=8``; or path of a file that ends in ``.json`` or ``.toml``

    Raises
    ------
    ScenarioError : an unknown or retired name, an unknown parameter or value (the message lists the known ones), or a
        file that cannot be read
    """
    load_plugins()
    if str(name_or_path).endswith((".json", ".toml")):
        return load_scenario(name_or_path)
    name, colon, parameters = str(name_or_path).partition(":")
    if name in RETIRED:
        raise ScenarioError(
            f"scenario {name!r} is retired: the last bits of its jobs differed between processors; "
            f"play {RETIRED[name] + colon + parameters!r}, and do not compare results of the two"
        )
    if name not in _BY_NAME:
        told = unknown_name("scenario", name, _BY_NAME, "gpusched scenarios list")
        raise ScenarioError(f"{told}; or give a .json or .toml file")
    if not colon:
        return _BY_NAME[name]
    if name not in FAMILIES:
        raise ScenarioError(f"scenario {name!r} takes no parameters; those that do: {', '.join(FAMILIES)}")
    return FAMILIES[name].scenario(parameters)
