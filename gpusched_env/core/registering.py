"""Registration of functions by name and number, which all registries of kernels share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gpusched_env.core.handle import Numbered
from gpusched_env.errors import GpuschedError, ScenarioError, unknown_name


def put_named(kind: str, name: str, is_taken: bool, number: int, functions: Sequence[tuple[Numbered, Any]]) -> None:
    """Put each function that is not None into its table, at index ``number``; ``kind`` and ``name`` are for errors."""
    if is_taken:
        raise GpuschedError(f"{kind} {name!r} exists already; choose another name")
    try:
        for table, function in functions:
            if function is not None:
                table.put(number, function)
    except TypeError as error:
        raise GpuschedError(f"{kind} {name!r}: {error}") from None


def check_named(argument: str, kind: str, names: Sequence[str], known: Collection[str]) -> None:
    """Refuse names that are not registered, and names given twice."""
    if isinstance(names, str):
        raise ScenarioError(f"{argument} is {names!r}: give a sequence of names, such as ({names!r},)")
    for name in names:
        if name not in known:
            raise ScenarioError(f"{argument}: {unknown_name(kind, str(name), known)}")
    if len(set(names)) < len(names):
        raise ScenarioError(f"{argument}: {tuple(names)} contains a name twice")
