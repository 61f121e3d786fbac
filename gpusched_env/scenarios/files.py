"""Scenario files: read JSON or TOML, write JSON."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network import NETWORK_PRESETS
from gpusched_env.problem.failures import Failures
from gpusched_env.scenarios.convert import build
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.sharing import INTERFERENCE_SOURCES, Interference, Sharing
from gpusched_env.support.files import write_whole


def sharing_from_dict(data: object, where: str = "sharing") -> Sharing:
    """Build sharing rules from plain data; ``where`` gives the file and the section for error messages."""
    if isinstance(data, Sharing):
        return data
    source = data.get("interference") if isinstance(data, Mapping) else None
    if source is not None and (isinstance(source, bool) or not isinstance(source, int | float | Mapping)):
        raise ScenarioError(
            f"{where}.interference is {source!r}: give a number of at least 1, or a table with 'source', one of "
            f"{', '.join(INTERFERENCE_SOURCES)}, and its fields"
        )
    if not isinstance(data, Mapping) or not isinstance(source, Mapping):
        return build(Sharing, data, where)
    others = sharing_from_dict({key: value for key, value in data.items() if key != "interference"}, where)
    return dataclasses.replace(others, interference=interference_from_dict(source, f"{where}.interference"))


def interference_from_dict(data: Mapping[str, Any], where: str) -> Interference:
    """Build a source of interference from plain data.

    The field ``source`` is a name in INTERFERENCE_SOURCES; the other fields are those of the source's class.
    """
    name = data.get("source")
    if not isinstance(name, str) or name not in INTERFERENCE_SOURCES:
        raise ScenarioError(
            f"{where}.source: {unknown_name('source of interference', str(name), INTERFERENCE_SOURCES)}"
        )
    fields = {key: value for key, value in data.items() if key != "source"}
    source: Interference = build(INTERFERENCE_SOURCES[name], fields, where)
    return source


def failures_from_dict(data: object, where: str = "failures") -> Failures:
    """Build failures from plain data; a field ``preset`` names those from which the other fields differ."""
    if not isinstance(data, Mapping) or "preset" not in data:
        return data if isinstance(data, Failures) else build(Failures, data, where)
    try:
        preset = Failures.preset(str(data["preset"]))
    except ScenarioError as error:
        raise ScenarioError(f"{where}.preset: {error}") from None
    return build(Failures, preset.as_dict() | {name: data[name] for name in data if name != "preset"}, where)


_BYTE_ORDER_MARK: Final = "\ufeff"


def scenario_from_dict(data: object, where: str = "scenario") -> Scenario:
    """Build a scenario from a mapping with its fields; ``description`` may be left out, ``where`` is for errors."""
    if isinstance(data, dict):
        data = {"description": "", **data}
        if data.get("variation") is not None:
            data.setdefault("groups", [])
        if isinstance(semantics := data.get("semantics"), dict) and semantics.get("time_limit_s", 0) is None:
            data["semantics"] = {name: semantics[name] for name in semantics if name != "time_limit_s"}  # no limit
        if data.get("sharing") is not None:
            data["sharing"] = sharing_from_dict(data["sharing"], f"{where}.sharing")
        if data.get("failures") is not None:
            data["failures"] = failures_from_dict(data["failures"], f"{where}.failures")
        if isinstance(network := data.get("network"), dict) and "topology" in network:
            data["network"] = network | {"topology": _from_preset(network["topology"], f"{where}.network.topology")}
    return build(Scenario, data, where)


def _from_preset(topology: object, where: str) -> object:
    """Replace the field ``preset`` by the fields of this network preset; fields that are given take precedence."""
    if not isinstance(topology, dict) or "preset" not in topology:
        return topology
    name = topology["preset"]
    if not isinstance(name, str) or name not in NETWORK_PRESETS:
        raise ScenarioError(f"{where}.preset: {unknown_name('preset of networks', str(name), NETWORK_PRESETS)}")
    own = {field: value for field, value in topology.items() if field != "preset"}
    return dataclasses.asdict(NETWORK_PRESETS[name].topology) | own


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file, ``.toml`` or ``.json``; relative paths in it start at the working directory."""
    return scenario_from_dict(read_fields(Path(path)), str(path))


def read_fields(path: Path, what: str = "a scenario file") -> Any:
    """Read a file of fields with the suffix ``.toml`` or ``.json``; errors are those of :func:`load_scenario`."""
    readers: dict[str, Callable[[str], Any]] = {
        ".json": partial(json.loads, object_pairs_hook=_fields),
        ".toml": tomllib.loads,
    }
    if path.suffix not in readers:
        raise ScenarioError(f"{path}: {what} ends in .json or .toml")
    try:
        text = path.read_text(encoding="utf-8")
        if text.startswith(_BYTE_ORDER_MARK):
            raise ValueError("it begins with a byte order mark; save it as UTF-8 without one")
        data: Any = readers[path.suffix](text)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except (ValueError, RecursionError) as error:  # errors of JSON, TOML and UTF-8 are subclasses of ValueError
        raise ScenarioError(f"{path}: not valid {path.suffix[1:].upper()}: {error}") from error
    return data


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; refuse a field that occurs twice, because json would silently keep only the last value."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} occurs twice in one table; keep one")
    return fields


def save_scenario(scenario: Scenario, path: str | Path) -> None:
    """Write a scenario as JSON; :func:`load_scenario` returns an equal scenario from the file."""
    if (suffix := Path(path).suffix) != ".json":
        raise ScenarioError(f"{path}: scenarios are written as JSON; name a .json file, not {suffix or 'one without'}")
    write_whole(Path(path), json.dumps(scenario.as_dict(), indent=2, allow_nan=False) + "\n")
