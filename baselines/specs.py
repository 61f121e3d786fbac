"""The spec that builds a given scheduler object again."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpusched_env.agents.cards import PLAYED_BY
from gpusched_env.baselines.registry import BASELINES, LEARNED, make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.simulator import Scheduler


def spec_of(scheduler: Scheduler) -> str:
    """Return the spec from which :func:`make_scheduler` builds an equal scheduler; "" = no spec can.

    It is the registered name, or ``module:Class``, that leaves the fewest parameters to tell, with these parameters. No
    spec names a class of a script or of a function, a value that is no number, truth value or word, or an attribute
    that is neither in ``parameters`` nor a field.
    """
    own = _parameters(scheduler)
    found = [(head, values) for head, reference in _heads(scheduler) if "" not in (values := _told(own, reference))]
    for head, values in sorted(found, key=lambda one: len(one[1])):
        spec = f"{head}{',' if head.startswith(f'{LEARNED}:') else ':'}{','.join(values)}" if values else head
        try:
            again = make_scheduler(spec)
        except Exception:  # a constructor of the user
            continue
        if type(again) is type(scheduler) and _told(own, _parameters(again)) == []:
            return spec
    return ""


def takes(spec: str, parameter: str, likeness: float = 1.0) -> bool:
    """Return whether the scheduler of a spec has a parameter of about this name; True if the spec builds none."""
    try:
        cls = type(make_scheduler(spec))
    except GpuschedError:
        return True
    if dataclasses.is_dataclass(cls):
        names = [field.name.rstrip("_") for field in dataclasses.fields(cls) if field.init]
        return bool(difflib.get_close_matches(parameter, names, 1, likeness))
    taken = inspect.signature(cls).parameters
    return parameter in taken or any(one.kind is one.VAR_KEYWORD for one in taken.values())


def described(scheduler: Scheduler) -> str:
    """Return the name of a scheduler with those parameters that have a text and are not the defaults of its class."""
    values = list(filter(None, _told(_parameters(scheduler), _defaults(type(scheduler)))))
    return scheduler.name + (f":{','.join(values)}" if values else "")


def _heads(scheduler: Scheduler) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the beginnings of specs that build this class, and the parameters that each implies."""
    cls = type(scheduler)
    target = f"{cls.__module__}:{cls.__qualname__}"
    if target in PLAYED_BY.values():
        agent, path = getattr(scheduler, "agent", ""), getattr(scheduler, "path", "")
        head = f"{LEARNED}:{agent or f'path={path}'}"
        return [(head, {**_defaults(cls), "agent": agent, "path": path})]
    heads: list[tuple[str, Mapping[str, Any]]] = [
        (name, _parameters(make_scheduler(name)))
        for name, baseline in BASELINES.items()
        if baseline.target == target and name != LEARNED
    ]
    if cls.__module__ != "__main__" and "<" not in cls.__qualname__:
        heads.append((target, _defaults(cls)))
    return heads


def _defaults(cls: type[Scheduler]) -> Mapping[str, Any]:
    try:
        return _parameters(cls())
    except Exception:  # a constructor of the user: a parameter has no default, or the defaults name no scheduler
        return {one.name: one.default for one in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}


def _parameters(scheduler: Scheduler) -> dict[str, Any]:
    if not dataclasses.is_dataclass(scheduler):
        return dict(scheduler.parameters)
    return {field.name: getattr(scheduler, field.name) for field in dataclasses.fields(scheduler) if field.init}


def _told(own: Mapping[str, Any], reference: Mapping[str, Any]) -> list[str]:
    """Return ``parameter=value`` of each value that differs from the reference; "" = it has no text."""
    parts = []
    for name, value in own.items():
        if name in reference and _equal(value, reference[name]):
            continue
        parts.append("" if (text := _text(value)) is None else f"{name.rstrip('_')}={text}")
    return parts


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except ValueError:  # arrays
        return False


def _text(value: Any) -> str | None:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        parts = [_text(part) for part in value]
        return "/".join(part or "" for part in parts) if all(parts) else None
    if value is None or isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    return value if isinstance(value, str) and not set(value) & set(",\n") else None
