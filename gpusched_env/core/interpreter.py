"""Kernels in plain Python (``NUMBA_DISABLE_JIT=1``): slow, with the same event log, and open to a debugger."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

from gpusched_env.core.handle import Function, handles

# By annotation, which is a string where a module imports annotations from __future__.
_WIDE: Final[dict[Any, Callable[[Any], Any]]] = {
    "int": int, "float": float, "bool": bool, int: int, float: float, bool: bool,
}  # fmt: skip


def kernel(function: Any = None, *, lazy: bool = False) -> Any:
    """Widen a function's numbers as compiled kernels do: arrays hold some of 8 and 32 bits, which would overflow."""
    if function is None:
        return kernel
    code = function.__code__
    given = [function.__annotations__.get(name) for name in code.co_varnames[: code.co_argcount]]
    wide = [_WIDE.get(kind) for kind in given]

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*(a if w is None else w(a) for w, a in zip(wide, arguments, strict=True)))

    return call


def helper(function: Any) -> Any:
    """Widen a function's numbers, as :func:`kernel`."""
    return kernel(function)


def plain(function: Function) -> Function:
    """Leave a function as it is."""
    return function


def entry_of(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Give the function itself."""
    return kernel


def handle_at(cls: type[Any]) -> Callable[[int], Any]:
    """Make the function by which kernels look a handle up by its address."""
    return lambda address: handles[int(address)]


def set_listener(function: Callable[[int, int, str], None]) -> None:
    """Nothing is compiled: nobody is told."""


def cache_folder() -> Path | None:
    """There is no machine code."""
    return None


def all_kernels() -> list[Any]:
    """Nothing can be compiled."""
    return []


class Numbered:
    """Functions of one signature that kernels call by number: ``these(number, ...)``."""

    def __init__(self, name: str, signature: Any, most: int) -> None:
        self._name, self._most = name, most
        self._functions: dict[int, Any] = {}

    def put(self, number: int, function: Any) -> None:
        """Give a function a number; TypeError if it is too large."""
        if number >= self._most:
            raise TypeError(f"{self._name}: {self._most} functions at most")
        self._functions[number] = function

    def __call__(self, number: int, *arguments: Any) -> Any:
        """Call one."""
        return self._functions[number](*arguments)
