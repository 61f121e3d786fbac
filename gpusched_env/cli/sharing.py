"""The option that allows or forbids jobs to share GPUs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.assignments import split_assignments

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario

NONE: Final = "none"
OWN: Final = ("limit", "gpu_memory_GB")  # fields of Sharing; all others belong to a source of interference


def with_sharing(scenario: Scenario, text: str | None) -> Scenario:
    """Return the scenario with other rules of sharing; the name of the new scenario says so."""
    from gpusched_env.scenarios.sharing_section import sharing_from_dict
    from gpusched_env.sharing import Sharing

    if text is None:
        return scenario
    name = f"{scenario.name} + sharing {text}"
    if text == NONE:
        return scenario.replace(sharing=None, name=name)
    data = (scenario.sharing or Sharing()).as_dict()
    source = _fields(text)
    data |= {field: source.pop(field) for field in OWN if field in source}
    if isinstance(memory := data.get("gpu_memory_GB"), int | float):
        data["gpu_memory_GB"] = dict.fromkeys(scenario.cluster.gpu_types, memory)
    for field in source if "source" not in source else ():
        if field != "xi":
            raise GpuschedError(f"--sharing {text}: {unknown_name('field', field, (*OWN, 'xi', 'source'))}")
    if source:
        data["interference"] = {"source": "constant"} | source
    return scenario.replace(sharing=sharing_from_dict(data, "--sharing"), name=name)


def _fields(text: str) -> dict[str, Any]:
    """Parse ``field=value,...``; a value that is not JSON is a text."""
    fields: dict[str, Any] = {}
    try:
        texts = split_assignments(text, "field=value")
    except ValueError as error:
        raise GpuschedError(f"--sharing {text}: {error}; write limit=2,xi=1.5, or none") from None
    for name, value in texts.items():
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields
