"""Handles: tables of arrays, which kernels and Python access by name.

A class derived from :class:`Handle` lists arrays. ``sim.jobs[row]`` works in compiled code and in Python. The address
of a handle is the address of a table of 64-bit words. For each array, the table has the address of the array, then the
lengths of its axes.
"""

from __future__ import annotations

import ctypes
import os
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from gpusched_env.core.storage import Layout, aligned, as_bytes, copied

Function = TypeVar("Function", bound=Callable[..., Any])

_LINE_WORDS: Final = 8  # of a cache line
_address, _byte_of = ctypes.addressof, ctypes.c_byte.from_buffer
INTERPRETED: Final = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def address_of(value: np.ndarray) -> int:
    """Return the address of the first element; ``value.ctypes`` takes four times as long as the buffer."""
    if value.dtype.names is None:
        try:
            return _address(_byte_of(value.data))
        except (TypeError, ValueError):  # a view that repeats elements is read-only; an array may be empty
            pass
    return int(value.ctypes.data)


class Field(NamedTuple):
    """An array of a handle."""

    dtype: np.dtype[Any]  # of its elements
    axes: tuple[str, ...] = ()  # their names, keys of ``sizes`` in :class:`Batched`; none = the array is one record
    fill: Any = 0  # initial value of its elements


def array(dtype: Any, *axes: str, fill: Any = 0) -> Any:
    """Declare an array of a handle; the parameters are those of :class:`Field`."""
    return Field(np.dtype(dtype), axes, fill)


class Handle:
    """A set of arrays that kernels and Python access by name.

    Derive a class and list its arrays with :func:`array`. The constructor takes the arrays as keyword arguments. They
    must be C-contiguous. The object holds references to its arrays, and ``address`` is valid as long as the object
    exists. A kernel that takes a handle of a class takes handles of derived classes, too.

    Attributes
    ----------
    failure : the error in which a kernel that took the handle ended; the contents of the arrays mean nothing then
    """

    failure: BaseException | None = None
    fields: ClassVar[dict[str, Field]] = {}
    _words: ClassVar[dict[str, int]] = {}  # index of the first word of each array in the table

    def __init_subclass__(cls) -> None:
        """Collect the arrays, those of base classes first, and assign words of the table to them."""
        inherited = dict(getattr(cls, "fields", {}))
        if taken := {"storage", "layout", "address", "parameter", "fields", "failure"} & vars(cls).keys():
            raise TypeError(
                f"{cls.__name__}: {', '.join(taken)} is a name of every handle; choose another for the array"
            )
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
        for name, field in self.fields.items():
            words += self._words_of(name, field, arrays[name])
        self.layout: Layout | None = None  # of the arrays that lie in ``storage``; None = each array lies alone
        self.storage = np.empty(0, np.uint8)
        self._lay(np.array(words, np.int64))

    def lie_in(self, table: np.ndarray) -> None:
        """Move the table of the handle to another one (int64) that is at least as long, which changes its address."""
        table = table[: len(self._table)]
        table[:] = self._table
        del handles[self.address]
        self._lay(table)

    def _lay(self, table: np.ndarray) -> None:
        self._table = table
        self.address = address_of(table)
        self.parameter = self._as_parameter_ = self if INTERPRETED else self.address  # what kernels take
        handles[self.address] = self

    def replace(self, name: str, value: Any) -> None:
        """Replace the array ``name`` by ``value``."""
        self.layout = None
        words, at = self._words_of(name, self.fields[name], value), self._words[name]
        self._table[at : at + len(words)] = words

    def _words_of(self, name: str, field: Field, value: Any) -> tuple[int, ...]:
        """Keep an array, and return its words of the table."""
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{type(self).__name__}.{name}: a {type(value).__name__} is no array")
        if value.dtype != field.dtype or value.ndim != len(field.axes) or not value.flags.c_contiguous:
            raise TypeError(
                f"{type(self).__name__}.{name}: {value.dtype} {value.shape} is not a contiguous {field.dtype} of "
                f"{len(field.axes)} axes"
            )
        self._arrays[name] = value
        setattr(self, name, value if field.axes else value[()])
        return (address_of(value) if value.size else 0, *value.shape)

    @classmethod
    def layout_of(cls, shapes: Mapping[str, tuple[int, ...]]) -> Layout:
        """Return the layout of some arrays, given their shapes."""
        return Layout({name: (cls.fields[name].dtype, shape) for name, shape in shapes.items()})

    @classmethod
    def in_memory(cls, layout: Layout, memory: np.ndarray, **others: np.ndarray) -> Self:
        """Return a handle of arrays that lie in one piece of memory, and of others.

        Parameters
        ----------
        memory : uint8 [layout.size]
        """
        made = cls(**layout.views(memory), **others)
        made.layout, made.storage = layout, memory
        return made

    def copy(self) -> Self:
        """Return a handle of copies of all arrays."""
        others = {name: copied(value) for name, value in self._others().items()}
        if self.layout is None:
            made = type(self)(**others)
        else:
            memory = aligned(self.storage.shape, self.storage.dtype)
            memory[:] = self.storage
            made = self.in_memory(self.layout, memory, **others)
        made.failure = self.failure
        return made

    def copy_from(self, other: Self) -> None:
        """Copy the contents of all arrays of ``other`` into the arrays of this handle; the shapes must be equal."""
        together = self.layout is not None and other.layout is not None
        if together:
            self.storage[:] = other.storage
        for name, value in (other._others() if together else other._arrays).items():
            np.copyto(as_bytes(self._arrays[name]), as_bytes(value))

    def _others(self) -> dict[str, np.ndarray]:
        """Return the arrays that lie elsewhere, by name."""
        parts = () if self.layout is None else self.layout.parts
        return {name: value for name, value in self._arrays.items() if name not in parts}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all arrays; a copy makes its own table."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays as bytes, without the table and the types, which the class knows."""
        others = {name: _packed(value) for name, value in self._others().items()}
        together = None if self.layout is None else (self.layout.shapes, self.storage.tobytes())
        return _made, (type(self), others, together)


def _packed(value: np.ndarray) -> tuple[tuple[int, ...], bytes]:
    """Return shape and bytes: to pickle a type of many fields takes longer than the data."""
    return value.shape, value.tobytes()


def _unpacked(field: Field, packed: tuple[tuple[int, ...], bytes]) -> np.ndarray:
    shape, data = packed
    return np.frombuffer(bytearray(data), field.dtype).reshape(shape)


def _made(
    cls: type[Handle],
    others: dict[str, tuple[tuple[int, ...], bytes]],
    together: tuple[dict[str, tuple[int, ...]], bytes] | None,
) -> Handle:
    arrays = {name: _unpacked(cls.fields[name], packed) for name, packed in others.items()}
    if together is None:
        return cls(**arrays)
    shapes, data = together
    layout = cls.layout_of(shapes)
    memory = aligned((layout.size,), np.dtype(np.uint8))
    memory[:] = np.frombuffer(data, np.uint8)
    return cls.in_memory(layout, memory, **arrays)


class Batched:
    """The arrays of many handles of the same class, stored together; each array has a leading batch axis.

    Parameters
    ----------
    kind : class of the handles
    batch : number of handles
    sizes : length of each axis, by the name of the axis
    apart : names of arrays that are stored alone, contiguous over the batch. All others of one handle lie in one piece
        of memory
    shared : arrays that all handles share; they have no batch axis

    Attributes
    ----------
    storage : uint8 [batch, bytes], the pieces of memory
    own : names of the arrays that are not shared
    """

    def __init__(
        self,
        kind: type[Handle],
        batch: int,
        sizes: Mapping[str, int],
        apart: Collection[str] = (),
        **shared: np.ndarray,
    ) -> None:
        self.kind, self.batch, self.shared = kind, batch, shared
        fields = {name: field for name, field in kind.fields.items() if name not in shared}
        self.own, self.apart = list(fields), [name for name in fields if name in apart]
        shapes = {name: tuple(sizes[axis] for axis in field.axes) for name, field in fields.items()}
        self.layout = kind.layout_of({name: shape for name, shape in shapes.items() if name not in apart})
        self.storage = aligned((batch, self.layout.size), np.dtype(np.uint8))
        self.__dict__ |= self.layout.views(self.storage)
        self.__dict__ |= {name: aligned((batch, *shapes[name]), fields[name].dtype) for name in self.apart}
        for name, field in fields.items():
            if field.fill:
                getattr(self, name)[:] = field.fill

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray: ...

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy the arrays; those that all handles share never change."""
        twin = type(self).__new__(type(self))
        twin.__dict__ |= self.__dict__ | {name: copied(getattr(self, name)) for name in self.apart}
        twin.storage = aligned(self.storage.shape, self.storage.dtype)
        twin.storage[:] = self.storage
        twin.__dict__ |= self.layout.views(twin.storage)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the arrays as bytes."""
        packed = {name: _packed(getattr(self, name)) for name in ("storage", *self.apart)}
        kept = {name: value for name, value in self.__dict__.items() if name not in self.layout.parts}
        return kept | packed | {"layout": self.layout.shapes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make arrays of the bytes."""
        self.__dict__.update(state)
        self.layout = self.kind.layout_of(state["layout"])
        shape, data = state["storage"]
        self.storage = aligned(shape, np.dtype(np.uint8))
        self.storage[:] = np.frombuffer(data, np.uint8).reshape(shape)
        self.__dict__ |= self.layout.views(self.storage)
        for name in self.apart:
            setattr(self, name, _unpacked(self.kind.fields[name], state[name]))

    def handle(self, b: int) -> Any:
        """Return a handle of the arrays at index ``b`` of the batch axis."""
        arrays = {name: self.rows(name) for name in self.own}
        rows = {name: array[b : b + 1].reshape(array.shape[1:]) for name, array in arrays.items()}
        made = self.kind(**rows, **self.shared)
        made.layout, made.storage = self.layout, self.storage[b]
        return made

    def rows(self, name: str) -> np.ndarray:
        """Return an array by name, with the batch axis."""
        array: np.ndarray = getattr(self, name)
        return array


handles: Final[WeakValueDictionary[int, Handle]] = WeakValueDictionary()  # by address


def lay_together(groups: Sequence[Sequence[Handle]]) -> None:
    """Move the tables of groups of equal handles into one array, in their order, which changes their addresses.

    A kernel that goes through many groups then finds the tables of the next one in the cache: 5 % of a batch's step.
    """
    ends = np.cumsum([-(-len(handle._table) // _LINE_WORDS) * _LINE_WORDS for handle in groups[0]]).tolist()
    memory = aligned((len(groups), ends[-1]), np.dtype(np.int64))
    for row, group in zip(memory, groups, strict=True):
        for first, handle in zip([0, *ends], group, strict=False):
            handle.lie_in(row[first:])


def mark_failed(arguments: Iterable[Any], error: BaseException) -> None:
    """Mark the handles among the arguments of a kernel that ended in an error: their contents mean nothing now."""
    for argument in arguments:
        found = handles.get(argument) if isinstance(argument, int) else argument
        if isinstance(found, Handle):
            found.failure = error


def types_of(function: Any) -> tuple[list[Any], Any]:
    """Return the annotated types of the parameters of a function, and that of its result."""
    hints = typing.get_type_hints(function)
    result = hints.pop("return")
    return [hints[name] for name in function.__code__.co_varnames[: function.__code__.co_argcount]], result
