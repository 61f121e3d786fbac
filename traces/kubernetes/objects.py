"""Fields of Kubernetes objects: tables, lists, texts, times and quantities, each checked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from gpusched_env.traces.parsing.fields import MAX_WHOLE, Place
from gpusched_env.traces.parsing.json_records import json_objects

Table = dict[str, Any]
Fields = TypeVar("Fields", bound=msgspec.Struct)
Entry = TypeVar("Entry", str, int)

GPU_RESOURCE: Final = "nvidia.com/gpu"
AMD: Final = "amd.com/gpu"  # counts beside GPU_RESOURCE
PRODUCTS: Final = (  # labels
    *("nvidia.com/gpu.product", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    "cloud.google.com/gke-accelerator",
)
AFFINITY: Final = "jobs whose node affinity restricts GPU types in a way that is not read"
REQUIRED: Final = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
# Resource of the parts that a GPU is divided into -> what they are. Source: device plugins of NVIDIA and AMD, HAMi,
# Koordinator, Volcano, and Alibaba's and Tencent's GPU sharing
SLICES: Final = "slices of GPUs (MIG or partitions), which are no whole GPUs"
SHARES: Final = "shares of GPUs, which are no whole GPUs"
CLAIMS: Final = "devices of resource claims (DRA), whose kind the file does not tell"
ELSE: Final = "GPUs of another resource, which --gpu-resource may name"
PARTS: Final = {
    re.compile(r"[^/]+/mig-.+|amd\.com/[sdqc]px_nps[1248]"): SLICES,
    re.compile(r"[^/]+/(?:v?gpu[-.\w]+|vcuda-\w+)"): SHARES,
    re.compile(r"[^/]+/gpu|gpu\.intel\.com/(?:i915|xe)"): ELSE,
}
WHOLE_CARDS: Final = ("nvidia.com/gpumem-percentage", "nvidia.com/gpucores")  # 100 = the whole GPU, in HAMi
SHARED: Final = ("gpu-fraction", "gpu-memory", "alibabacloud.com/gpu-milli")  # annotations of KAI and openb
CPUS: Final = "jobs ask for CPUs or memory, which are ignored"
NO_GPUS: Final = ("cpu", "memory")
REPAIR: Final = "correct or remove the object"
_EMPTY: Final[Table] = {}
_UNITS: Final = {  # suffix of a quantity -> factor
    "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 1024.0, "Mi": float(1 << 20), "Gi": float(1 << 30), "Ti": float(1 << 40), "Pi": float(1 << 50),
}  # fmt: skip
_MISFIT: Final = re.compile(r"Expected `(\w+)[^`]*`.*?(?: - at `\$(.*)`)?$")  # what msgspec says of a wrong type
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_TYPES: Final = {"object": "a JSON object", "array": "a list of JSON objects", "str": "a text", "int": "a whole number"}


def kubernetes_objects(path: Path, fields: type[Any] = Table) -> Iterator[tuple[Place, Any]]:
    """Yield the place and the value of every object; what is no JSON object is left to :func:`table`.

    An object that is a line and fits ``fields`` is of this type; :func:`typed` makes the others so.
    """
    return json_objects(path, fields)


def kind_of(place: Place, record: object) -> object:
    """Return the kind of an object, which may be typed; None if it tells none."""
    return getattr(record, "kind", None) if isinstance(record, msgspec.Struct) else table(place, record).get("kind")


def typed(place: Place, record: object, fields: type[Fields]) -> Fields:
    """Return an object as ``fields``, of the types that it declares; msgspec checks them, which is fast."""
    if type(record) is fields:
        return record
    try:
        return msgspec.convert(record, fields)
    except msgspec.ValidationError as error:
        _refuse_misfit(place, record, str(error))
    except UnicodeEncodeError:
        place.refuse("object", record, f"a name of a field that is no text; {REPAIR}")


def _refuse_misfit(place: Place, record: Any, error: str) -> NoReturn:
    """Refuse the value of which msgspec says that it has another type."""
    found = _MISFIT.search(error)
    field, wanted = "object", "object"
    if found is not None:
        wanted = found[1]
        for key, index in _STEP.findall(found[2] or ""):
            field, record = key or field, record[key or int(index)]
    place.refuse(field, record, f"expected {_TYPES[wanted]}; {REPAIR}")


def table(place: Place, value: object, *keys: str) -> Table:
    """Return the object under these keys; empty if one of them is missing."""
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
    """Return the list of objects under a key; empty if it is missing."""
    found = value.get(key)
    if found is None:
        return []
    for one in found if isinstance(found, list) else (None,):
        if type(one) is not dict:
            place.refuse(key, found, f"expected a list of JSON objects; {REPAIR}")
    return found


def entries(place: Place, value: Table, key: str, kind: type[Entry]) -> list[Entry]:
    """Return the list of texts or whole numbers under a key; empty if it is missing."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or any(type(one) is not kind for one in found):
        place.refuse(key, found, f"expected a list of {'texts' if kind is str else 'whole numbers'}; {REPAIR}")
    return found


def text(place: Place, value: Table, key: str) -> str:
    """Return the text under a key; "" if it is missing."""
    found = value.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        place.refuse(key, found, f"expected a text; {REPAIR}")
    return found


def whole(place: Place, value: Table, key: str, otherwise: int) -> int:
    """Return the whole number under a key, which may be negative; ``otherwise`` if it is missing."""
    found = value.get(key)
    if found is None:
        return otherwise
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) > MAX_WHOLE:
        place.refuse(key, found, f"expected a whole number; {REPAIR}")
    return found


def when(place: Place, value: Table, key: str) -> float | None:
    """Return the time under a key, in RFC 3339, as seconds since 1970; None if it is missing."""
    found = value.get(key)
    return None if found is None else seconds(place, key, found)


def seconds(place: Place, key: str, found: object) -> float:
    """Return a time in RFC 3339 as seconds since 1970; inf if it is None."""
    if found is None:
        return math.inf
    try:
        time = datetime.fromisoformat(found)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # no text, or no time
        time = None
    if time is None or time.tzinfo is None:
        place.refuse(key, found, f"expected a time such as 2025-03-03T09:00:00Z; {REPAIR}")
    return time.timestamp()


def gpus(place: Place, resources: Table, name: str) -> int | None:
    """Return the whole number of GPUs of a table of resources; None if it has no such resource.

    Where there are none of NVIDIA, GPUs of AMD count.
    """
    found = resources.get(name)
    if name == GPU_RESOURCE and found in (None, 0, "0") and AMD in resources:
        found, name = resources[AMD], AMD
    if found is None:
        return None
    amount = quantity(found) if type(found) in (str, int, float) else math.nan
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
    """Return name, namespace and metadata of an object."""
    metadata = table(place, record, "metadata")
    return name_of(place, text(place, metadata, "name")), text(place, metadata, "namespace"), metadata


def name_of(place: Place, name: str | None) -> str:
    """Return the name of an object."""
    if not name:
        place.refuse("metadata.name", name or "", f"an object without a name; {REPAIR}")
    return name


class Resources(msgspec.Struct, gc=False):
    """What a container asks for: name of a resource -> quantity."""

    requests: Table | None = None
    limits: Table | None = None


class Container(msgspec.Struct, gc=False):
    """A container of a pod."""

    resources: Resources | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """The fields of the spec of a pod that are read; ``queue`` is one of a PodGroup's."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    node_selector: Table | None = None
    affinity: Table | None = None
    priority: int | None = None
    queue: str | None = None
    resource_claims: list[Table] | None = None
    workload_ref: Table | None = None
    scheduling_group: Table | None = None


def product(place: Place, marks: Table | None, resources: Table) -> str:
    """Return the GPU type of labels or of a node selector; of GPUs of AMD, AMD if they tell none."""
    told = next((found for key in PRODUCTS if (found := text(place, marks, key))), "") if marks else ""
    return told or ("AMD" if AMD in resources and GPU_RESOURCE not in resources else "")


def affine_products(place: Place, spec: PodSpec) -> tuple[str, bool]:
    """Return the GPU types of the required node affinity, joined by |, and whether it restricts them in another way."""
    if not spec.affinity:
        return "", False
    found: dict[str, None] = {}
    terms = tables(place, table(place, spec.affinity, *REQUIRED), "nodeSelectorTerms")
    told = [
        [one for one in tables(place, term, "matchExpressions") if one.get("key") in PRODUCTS] for term in terms
    ]  # a node fits one of the terms, and all expressions of this one
    told = [[one for one in term if one.get("operator") != "Exists"] for term in told]
    if not any(told) or any(len(term) != 1 or term[0].get("operator") != "In" for term in told):
        return "", any(told)
    for (one,) in told:
        found |= dict.fromkeys(entries(place, one, "values", str))
    return "|".join(found), False


def parts_of_gpus(resources: Table, name: str) -> str:
    """Return what parts of GPUs, or GPUs of other makers, resources are other than ``name``; "" = none."""
    found = {
        _part(key)
        for key, value in resources.items()
        if key != name and not (key in WHOLE_CARDS and value in (100, "100")) and (key != AMD or name != GPU_RESOURCE)
    }
    return next((what for what in PARTS.values() if what in found), "")


@lru_cache(1 << 10)
def _part(resource: str) -> str:
    return next((what for form, what in PARTS.items() if form.fullmatch(resource)), "")


def requested(spec: PodSpec) -> Table:
    """Return the resources of all containers of a pod; where several name one, of the last."""
    found: Table = {}
    for one in (*(spec.containers or ()), *(spec.init_containers or ())):
        if one.resources is not None:
            found |= {**(one.resources.limits or {}), **(one.resources.requests or {})}
    return found


def demand(place: Place, spec: PodSpec, name: str, resources: Table, annotations: Table | None) -> tuple[int, str]:
    """Return the whole GPUs that a pod requests, and what else of GPUs; ``resources`` are those of its containers.

    GPUs beside limits of their memory or cores are shares.
    """
    count, part = template_gpus(place, spec, name) or 0, parts_of_gpus(resources, name)
    if not part and annotations and not annotations.keys().isdisjoint(SHARED):
        part = SHARES
    return (0 if part == SHARES else count), part or (CLAIMS if spec.resource_claims and not count else "")


def template_gpus(place: Place, spec: PodSpec, name: str) -> int | None:
    """Return the GPUs that a pod requests: the sum of its containers, or its largest init container; None = none."""
    total: int | None = None
    for one in spec.containers or ():
        count = _container_gpus(place, one, name)
        if count is not None:
            total = count + (total or 0)
    before = [_container_gpus(place, one, name) for one in spec.init_containers or ()]
    return max((count for count in (total, *before) if count is not None), default=None) if before else total


def _container_gpus(place: Place, container: Container, name: str) -> int | None:
    resources = container.resources
    if resources is None:
        return None
    own = gpus(place, resources.requests, name) if resources.requests else None
    return gpus(place, resources.limits, name) if own is None and resources.limits else own
