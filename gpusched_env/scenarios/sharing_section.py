"""The section ``sharing`` of a scenario file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.scenarios.convert import build
from gpusched_env.sharing import INTERFERENCE_SOURCES, Interference, Sharing


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
        sharing = build(Sharing, data, where)
        assert isinstance(sharing, Sharing)
        return sharing
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
