"""Fields of Kubernetes objects: tables, lists, texts, times and quantities, each checked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from gpusched_env.traces.parsing.fields import MAX_WHOLE, Place
from gpusched_env.traces.parsing.json_records import json_objects

Table = dict[str, Any]

GPU_RESOURCE: Final = "nvidia.com/gpu"
REPAIR: Final = "correct or remove the object"
_EMPTY: Final[Table] = {}
_UNITS: Final = {  # suffix of a quantity -> factor
    "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 1024.0, "Mi": float(1 << 20), "Gi": float(1 << 30), "Ti": float(1 << 40), "Pi": float(1 << 50),
}  # fmt: skip


def kubernetes_objects(path: Path) -> Iterator[tuple[Place, Any]]:
    """Yield the place and the value of every object; what is no JSON object is left to :func:`table`."""
    return json_objects(path)


def table(place: Place, value: object, *keys: str) -> Table:
    """Return the object under these keys; empty if one of them is missing.

    Raises
    ------
    TraceError : one of the values is no JSON object
    """
    if not isinstance(value, dict):
        place.refuse("object", value, f"expected a JSON object; {REPAIR}")
    for key in keys:
        value = value.get(key)
        if value is None:
            return _EMPTY
        if not isinstance(value, dict):
            place.refuse(key, value, f"expected a JSON object; {REPAIR}")
    return value


def tables(place: Place, value: Table, key: str) -> list[Table]:
    """Return the list of objects under a key; empty if it is missing.

    Raises
    ------
    TraceError : the value is no list of JSON objects
    """
    found = value.get(key)
    if found is None:
        return []
    for one in found if isinstance(found, list) else (None,):
        if type(one) is not dict:
            place.refuse(key, found, f"expected a list of JSON objects; {REPAIR}")
    return found


def text(place: Place, value: Table, key: str) -> str:
    """Return the text under a key; "" if it is missing.

    Raises
    ------
    TraceError : the value is no text
    """
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        place.refuse(key, found, f"expected a text; {REPAIR}")
    return found


def whole(place: Place, value: Table, key: str, otherwise: int) -> int:
    """Return the whole number under a key, which may be negative; ``otherwise`` if it is missing.

    Raises
    ------
    TraceError : the value is no whole number of 32 bits
    """
    found = value.get(key)
    if found is None:
        return otherwise
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) > MAX_WHOLE:
        place.refuse(key, found, f"expected a whole number; {REPAIR}")
    return found


def when(place: Place, value: Table, key: str) -> float | None:
    """Return the time under a key, in RFC 3339, as seconds since 1970; None if it is missing.

    Raises
    ------
    TraceError : the value is no time with a zone
    """
    found = value.get(key)
    if found is None:
        return None
    try:
        time = datetime.fromisoformat(found)
    except (TypeError, ValueError):  # no text, or no time
        time = None
    if time is None or time.tzinfo is None:
        place.refuse(key, found, f"expected a time such as 2025-03-03T09:00:00Z; {REPAIR}")
    return time.timestamp()


def gpus(place: Place, resources: Table, name: str) -> int | None:
    """Return the whole number of GPUs of a table of resources; None if it has no such resource.

    Raises
    ------
    TraceError : the value is no quantity, or no whole number of GPUs >= 0
    """
    found = resources.get(name)
    if found is None:
        return None
    amount = quantity(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else math.nan
    if not 0 <= amount <= MAX_WHOLE or amount != int(amount):
        place.refuse(name, found, f"expected a whole number of GPUs >= 0; {REPAIR}")
    return int(amount)


@lru_cache(1 << 10)
def quantity(value: str | float) -> float:
    """Return a quantity as Kubernetes writes it: ``2``, ``500m``, ``1e3``, ``4Ki``; NaN if it is none."""
    written = str(value)
    digits = written.rstrip("kMGTPKim")
    try:
        return math.nan if "_" in written else float(digits) * _UNITS[written[len(digits) :]]
    except (KeyError, ValueError):
        return math.nan


def labels(place: Place, record: object) -> tuple[str, str, Table]:
    """Return name, namespace and metadata of an object.

    Raises
    ------
    TraceError : the object has no name
    """
    metadata = table(place, record, "metadata")
    name = text(place, metadata, "name")
    if not name:
        place.refuse("metadata.name", name, f"an object without a name; {REPAIR}")
    return name, text(place, metadata, "namespace"), metadata


def template_gpus(place: Place, spec: Table, name: str) -> int | None:
    """Return the GPUs that a pod with this spec requests; None if no container names the resource.

    Containers of a pod run at once, so their requests add up. Init containers run before, so only the largest counts.

    Raises
    ------
    TraceError : a malformed field
    """
    found = [_container_gpus(place, one, name) for one in tables(place, spec, "containers")]
    told = [count for count in found if count is not None]
    total = sum(told) if told else None
    if "initContainers" not in spec:
        return total
    before = (_container_gpus(place, one, name) for one in tables(place, spec, "initContainers"))
    return max((count for count in (total, *before) if count is not None), default=None)


def _container_gpus(place: Place, container: Table, name: str) -> int | None:
    resources = table(place, container, "resources")
    own = gpus(place, table(place, resources, "requests"), name)
    return gpus(place, table(place, resources, "limits"), name) if own is None else own
