"""Scenario files: read JSON or TOML, write JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from gpusched_env.errors import ScenarioError
from gpusched_env.files import write_whole
from gpusched_env.scenarios.convert import build
from gpusched_env.scenarios.scenario import Scenario


def scenario_from_dict(data: object, where: str = "scenario") -> Scenario:
    """Build a scenario from plain data with the fields of Scenario; ``where`` names the file in messages.

    Raises
    ------
    ScenarioError : with the field, what it must be, and the nearest known names
    """
    if isinstance(data, dict) and isinstance(semantics := data.get("semantics"), dict):
        # None is how JSON writes "no limit"
        rules = {key: value for key, value in semantics.items() if not (key == "time_limit_s" and value is None)}
        data = {**data, "semantics": rules}
    scenario = build(Scenario, data, where)
    assert isinstance(scenario, Scenario)
    return scenario


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file; the suffix ``.toml`` or ``.json`` decides. A relative path of a log stays as written.

    Raises
    ------
    ScenarioError : a missing or damaged file, an unknown field, a wrong type or value
    """
    path = Path(path)
    readers = {".json": json.loads, ".toml": tomllib.loads}
    if path.suffix not in readers:
        raise ScenarioError(f"{path}: a scenario file ends in .json or .toml")
    try:
        data: Any = readers[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except (ValueError, RecursionError) as error:  # JSON, TOML and UTF-8 errors are ValueErrors
        raise ScenarioError(f"{path}: not valid {path.suffix[1:].upper()}: {error}") from error
    return scenario_from_dict(data, str(path))


def save_scenario(scenario: Scenario, path: str | Path) -> None:
    """Write a scenario as JSON; :func:`load_scenario` gives an equal one back."""
    write_whole(Path(path), json.dumps(scenario.as_dict(), indent=2, allow_nan=False) + "\n")
