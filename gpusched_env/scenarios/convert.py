"""Convert plain data to dataclasses; an unknown field or a wrong type is an error."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from gpusched_env.errors import GpuschedError, ScenarioError, unknown_name

Built = TypeVar("Built")


def build(kind: type[Built], data: object, where: str) -> Built:
    """Build the dataclass ``kind`` from a mapping of its fields."""
    if not isinstance(data, Mapping):
        raise ScenarioError(f"{where}: {data!r} must be a table of fields")
    hints = hints_of(kind)
    fields = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields:
            raise ScenarioError(f"{where}: {unknown_name('field', str(name), fields)}")
    for name, item in fields.items():
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and name not in data:
            raise ScenarioError(f"{where}: the field {name!r} is missing; add it")
    values = {name: convert(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    try:
        return kind(**values)
    except GpuschedError as error:
        raise ScenarioError(f"{where}: {error}") from error


hints_of: Any = functools.cache(typing.get_type_hints)


def check_types(data: Any, where: str) -> None:
    """Refuse fields of a dataclass whose values have other types than their hints; whole numbers are floats too."""
    for name, hint in hints_of(type(data)).items():
        convert(hint, getattr(data, name), f"{where}.{name}")


def convert(hint: Any, value: object, where: str) -> Any:
    """Convert ``value`` to the type of a type hint: lists to tuples, mappings to dataclasses, whole numbers to floats.

    A value that is an object of the dataclass is returned unchanged.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):  # only ``T | None`` occurs
        return None if value is None else convert(next(a for a in arguments if a is not types.NoneType), value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else build(hint, value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ScenarioError(f"{where} is {value!r}: it must be a list")
        if arguments[-1] is Ellipsis:
            return tuple(convert(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
        if len(value) != len(arguments):
            raise ScenarioError(f"{where} is {value!r}: it must be a list of {len(arguments)}")
        pairs = zip(arguments, value, strict=True)
        return tuple(convert(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(pairs))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ScenarioError(f"{where} is larger than any float: give a smaller number") from None
    wanted = Mapping if origin is not None else hint
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        name = (
            "table" if wanted is Mapping else {int: "whole number", float: "number", str: "text"}.get(hint, str(hint))
        )
        raise ScenarioError(f"{where} is {value!r}: it must be a {name}")
    return dict(value) if isinstance(value, Mapping) else value
