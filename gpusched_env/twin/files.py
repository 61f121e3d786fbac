"""Reading of the JSON files of a twin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpusched_env.errors import ScenarioError


def read_json(path: str | Path, what: str, remedy: str, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return the content of a JSON file; else raise a ScenarioError that names what is expected, and a remedy."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=parse_constant)
    except (OSError, ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: not a {what} ({error}); {remedy}") from error
