"""How users' functions get a name and a number: the step that all registries of kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusched_env.core.handle import Numbered
from gpusched_env.errors import GpuschedError


def put_named(kind: str, name: str, is_taken: bool, number: int, functions: Sequence[tuple[Numbered, Any]]) -> None:
    """Give functions their number, each in its table; a function that is None has none.

    Parameters
    ----------
    kind : of what is registered, for errors
    is_taken : something else has the name
    functions : table and function

    Raises
    ------
    GpuschedError : the name is taken, a kernel has another signature, or a table is full
    """
    if is_taken:
        raise GpuschedError(f"{kind} {name!r} exists already; choose another name")
    try:
        for table, function in functions:
            if function is not None:
                table.put(number, function)
    except TypeError as error:
        raise GpuschedError(f"{kind} {name!r}: {error}") from None
