"""Kernels as plain Python functions, for debugging (``NUMBA_DISABLE_JIT=1``): slow, but with identical event logs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

from gpusched_env.core.tables import Function, handles, mark_failed

# Conversions, keyed by annotation. An annotation is a string in modules that import ``annotations`` from __future__.
_WIDE: Final[dict[Any, Callable[[Any], Any]]] = {
    "int": int, "float": float, "bool": bool, int: int, float: float, bool: bool,
}  # fmt: skip


def kernel(function: Any = None, *, lazy: bool = False) -> Any:
    """Convert the numbers that a function takes to 64 bits, as compiled kernels do, and mark handles after an error.

    Without the conversion, arithmetic on 8-bit and 32-bit elements of arrays would overflow.
    """
    if function is None:
        return kernel
    code = function.__code__
    given = [function.__annotations__.get(name) for name in code.co_varnames[: code.co_argcount]]
    wide = [_WIDE.get(kind) for kind in given]

    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*(a if w is None else w(a) for w, a in zip(wide, arguments, strict=True)))
        except BaseException as error:
            mark_failed(arguments, error)
            raise

    return call


def helper(function: Any) -> Any:
    """Convert the numbers that a function takes to 64 bits, see :func:`kernel`."""
    return kernel(function)


def plain(function: Function) -> Function:
    """Return the function itself."""
    return function


def bound(kernel: Callable[..., Any], *arguments: Any, reaches: Any = ()) -> Callable[[], Any]:
    """Return a function that calls a function with these arguments."""
    return partial(kernel, *arguments)


def handle_at(cls: type[Any]) -> Callable[[int], Any]:
    """Return a function with which kernels turn an address (int64) into a handle of class ``cls``."""
    return lambda address: handles[int(address)]


def set_listener(function: Callable[[int, int, str], None]) -> None:
    """Do nothing, because nothing is compiled."""


def cache_folder() -> Path | None:
    """Return None, because there is no machine code."""
    return None


def all_kernels() -> list[Any]:
    """Return an empty list, because no kernel can be compiled."""
    return []


class Numbered:
    """A table of functions with the same signature, which kernels call by number: ``table(number, ...)``."""

    def __init__(self, name: str, signature: Any, most: int) -> None:
        self._name, self._most = name, most
        self._functions: dict[int, Any] = {}

    def put(self, number: int, function: Any) -> None:
        """Put a function into the table, at index ``number``; TypeError if ``number`` is not less than ``most``."""
        if number >= self._most:
            raise TypeError(f"{self._name}: {self._most} functions at most")
        self._functions[number] = function

    def prepare(self, number: int) -> None:
        """Do nothing, because nothing is compiled."""

    def __call__(self, number: int, *arguments: Any) -> Any:
        """Call the function at index ``number``."""
        return self._functions[number](*arguments)
