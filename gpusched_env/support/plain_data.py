"""Dataclasses as plain data for JSON files and fingerprints."""

from __future__ import annotations

import dataclasses
from typing import Any


def set_fields(item: Any, *always: str) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, and those named in ``always``.

    So a scenario keeps its fingerprint when a new version adds a field.
    """
    values = {field.name: (getattr(item, field.name), field.default) for field in dataclasses.fields(item)}
    return {name: value for name, (value, default) in values.items() if name in always or value != default}
