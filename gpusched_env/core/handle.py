"""Handles, which give kernels and Python the arrays of a run by name, and the decorators of kernels.

* A class derived from :class:`Handle` lists arrays. ``sim.jobs[row]`` reads the same in compiled code and in Python.
* ``@kernel`` turns a function into a kernel. Its annotations are its signature: ``int``, ``float``, ``bool`` and
  handles, and for the result also tuples of them. Each kernel is compiled separately when it is first needed, and calls
  other kernels by their names. ``@kernel(lazy=True)`` compiles the kernel on its first call instead of with its
  callers: a scenario compiles only what it uses.
* ``@helper`` marks a short function that is inlined into each of its callers.
* ``Numbered`` is a table of kernels or plain Python functions that kernels call by number. Users' functions are there.

The address of a handle is the address of a table of 64-bit words: for each array its address, then its lengths. With
``NUMBA_DISABLE_JIT=1`` kernels run as plain Python (interpreter.py); otherwise compiler.py compiles them.
"""

from __future__ import annotations

import math
import os
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeVar, overload
from weakref import WeakValueDictionary

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

INTERPRETED: Final = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_LINE: Final = 64  # [byte] of a cache line


class Field(NamedTuple):
    """An array of a handle.

    Parameters
    ----------
    dtype : type of its elements
    axes : names of its axes, the keys of ``sizes`` in :class:`Batched`; none = a single record
    fill : initial value of its elements
    """

    dtype: np.dtype[Any]
    axes: tuple[str, ...] = ()
    fill: Any = 0


def array(dtype: Any, *axes: str, fill: Any = 0) -> Any:
    """Declare an array of a handle: see :class:`Field`."""
    return Field(np.dtype(dtype), axes, fill)


class Handle:
    """Arrays by name, for kernels and Python; derive a class and list its arrays with :func:`array`.

    The arrays must be C-contiguous; the object holds references to them. ``address`` is valid while the object lives.

    Raises
    ------
    TypeError : an array is missing, not contiguous, or of another type or number of axes
    """

    fields: ClassVar[dict[str, Field]]
    _words: ClassVar[dict[str, int]]  # number of the first word of each array

    def __init_subclass__(cls) -> None:
        """List the arrays, base classes first, and number the words of the table."""
        inherited = dict(getattr(cls, "fields", {}))
        cls.fields = inherited | {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls._words, word = {}, 0
        for name, field in cls.fields.items():
            cls._words[name] = word
            word += 1 + len(field.axes)

    def __init__(self, **arrays: Any) -> None:
        if arrays.keys() != self.fields.keys():
            raise TypeError(f"{type(self).__name__}: give {sorted(self.fields)}, not {sorted(arrays)}")
        self._arrays: dict[str, np.ndarray] = {}
        words: list[int] = []
        for name in self.fields:
            words += self._words_of(name, arrays[name])
        self._table = np.array(words, np.int64)
        self.address = int(self._table.ctypes.data)
        self.parameter = self._as_parameter_ = self if INTERPRETED else self.address  # what kernels take
        handles[self.address] = self

    def replace(self, name: str, value: Any) -> None:
        """Replace the array ``name``.

        Raises
        ------
        TypeError : as for the class
        """
        words, at = self._words_of(name, value), self._words[name]
        self._table[at : at + len(words)] = words

    def _words_of(self, name: str, value: Any) -> tuple[int, ...]:
        """Keep an array, and return its words of the table."""
        field = self.fields[name]
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(self).__name__}.{name}: a {type(value).__name__} is no array")
        if value.dtype != field.dtype or value.ndim != len(field.axes) or not value.flags.c_contiguous:
            raise TypeError(
                f"{type(self).__name__}.{name}: {value.dtype} {value.shape} is not a contiguous {field.dtype} of "
                f"{len(field.axes)} axes"
            )
        self._arrays[name] = value
        setattr(self, name, value if field.axes else value[()])
        return (value.ctypes.data, *value.shape)

    def copy(self) -> Self:
        """Copy all arrays."""
        return type(self)(**{name: value.copy() for name, value in self._arrays.items()})

    def copy_from(self, other: Self) -> None:
        """Copy the contents of another handle, with arrays of the same lengths, into the arrays of this one."""
        for name, value in other._arrays.items():
            np.copyto(self._arrays[name], value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays only: a copy makes its own table."""
        return _made, (type(self), self._arrays)


def _made(cls: type[Handle], arrays: dict[str, np.ndarray]) -> Handle:
    return cls(**arrays)


class Batched:
    """The arrays of many handles of one kind; each array has a leading batch axis.

    Parameters
    ----------
    kind : class of the handles
    batch : number of handles
    sizes : length of each axis
    shared : arrays that all handles share, without a batch axis
    """

    def __init__(self, kind: type[Handle], batch: int, sizes: Mapping[str, int], **shared: np.ndarray) -> None:
        self.kind, self.batch, self.shared = kind, batch, shared
        for name, field in kind.fields.items():
            if name not in shared:
                shape = (batch, *(sizes[axis] for axis in field.axes))
                setattr(self, name, _aligned(shape, field.dtype))
                if field.fill:
                    getattr(self, name)[:] = field.fill

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray: ...

    @property
    def own(self) -> list[str]:
        """Names of the arrays that are not shared."""
        return [name for name in self.kind.fields if name not in self.shared]

    def handle(self, b: int) -> Any:
        """Return handle number ``b``."""
        arrays = {name: getattr(self, name) for name in self.own}
        rows = {name: array[b : b + 1].reshape(array.shape[1:]) for name, array in arrays.items()}
        return self.kind(**rows, **self.shared)


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Allocate zeros that begin at a cache line."""
    length = math.prod(shape) * dtype.itemsize
    raw = np.zeros(length + _LINE, np.uint8)
    first = -raw.ctypes.data % _LINE
    return raw[first : first + length].view(dtype).reshape(shape)


handles: Final[WeakValueDictionary[int, Handle]] = WeakValueDictionary()  # by address


def types_of(function: Any) -> tuple[list[Any], Any]:
    """Return the annotated types of the parameters and of the result."""
    hints = typing.get_type_hints(function)
    result = hints.pop("return")
    return [hints[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]], result


if TYPE_CHECKING:

    @overload
    def kernel(function: Function, /) -> Function: ...

    @overload
    def kernel(*, lazy: bool) -> Callable[[Function], Function]: ...

    def kernel(function: Any = None, *, lazy: bool = False) -> Any:
        """Turn a function into a kernel; ``lazy``: it is compiled on its first call, not with its callers."""

    def helper(function: Function) -> Function:
        """Make a function that only kernels call; it is inlined into each of them."""

    def plain(function: Function) -> Function:
        """Make a plain Python function callable from kernels by its name."""

    def entry_of(kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return the fastest callable for Python; instead of a handle it takes the handle's ``parameter``."""

    def handle_at(cls: type[Handle]) -> Callable[[int], Any]:
        """Make the function that turns an address into a handle inside kernels."""

    def set_listener(function: Callable[[int, int, str], None]) -> None:
        """Set the function to be called during compilation with (kernels done, kernels in all, name of the next)."""

    def cache_folder() -> Path | None:
        """Return the folder of the machine code; None = there is none, or it is not writable."""

    def all_kernels() -> list[Any]:
        """List the kernels of all imported modules."""

    class Numbered:
        """A table of functions of one signature, which kernels call by number: ``table(number, ...)``.

        Parameters
        ----------
        name : unique
        signature : a function with the annotations that all functions of the table have
        most : maximum number of functions
        """

        def __init__(self, name: str, signature: Callable[..., Any], most: int) -> None: ...

        def put(self, number: int, function: Callable[..., Any]) -> None:
            """Give a kernel, or a plain function, a number; TypeError: another signature, or too large a number."""

        def __call__(self, number: int, *arguments: Any) -> Any:
            """Call one of them."""

elif INTERPRETED:
    from gpusched_env.core.interpreter import (
        Numbered,
        all_kernels,
        cache_folder,
        entry_of,
        handle_at,
        helper,
        kernel,
        plain,
        set_listener,
    )  # fmt: skip
else:
    from gpusched_env.core.compiler import (
        Numbered,
        all_kernels,
        cache_folder,
        entry_of,
        handle_at,
        helper,
        kernel,
        plain,
        set_listener,
    )  # fmt: skip

__all__ = [
    "INTERPRETED", "Batched", "Field", "Handle", "Numbered", "all_kernels", "array", "cache_folder", "entry_of",
    "handle_at", "handles", "helper", "kernel", "plain", "set_listener", "types_of",
]  # fmt: skip
