"""Registration of users' functions by name and number: what all registries of kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusched_env.core.handle import Numbered
from gpusched_env.errors import GpuschedError


def put_named(kind: str, name: str, is_taken: bool, number: int, functions: Sequence[tuple[Numbered, Any]]) -> None:
    """Enter each function into its table under a number; None is skipped.

    Parameters
    ----------
    kind : what is registered, for error messages
    is_taken : whether the name is already in use
    functions : pairs of table and function

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
