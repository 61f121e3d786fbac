"""Hand a kernel forty arrays as one: a table of their addresses and lengths.

Numba looks at and unpacks every array argument of every call from Python, which for the arrays of a state takes longer
than a step of the simulation. A driver gets the address of one table instead, made once, and calls kernels for one
environment after the other by their addresses, which stand in the table too. So a kernel is compiled once, whoever
calls it: what a compiled function calls in the ordinary way is compiled into it again. A kernel that gets the table
looks its arrays up there: forty arrays as arguments are four hundred words, copied at every call. What it finds there
are :class:`Rows`, on which no negative index is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj as _arrayobj

from gpusched_env.event_log import EVENT_DTYPE
from gpusched_env.simulator import state as s
from gpusched_env.simulator.network_state import LINK_STATE_DTYPE, PAIR_DTYPE, ROUTE_DTYPE, USE_DTYPE
from gpusched_env.simulator.rows import Checked, Rows

# Numba's lowering functions have no types.
cgutils: Final[Any] = _cgutils
make_array: Final[Any] = _arrayobj.make_array
populate_array: Final[Any] = _arrayobj.populate_array
uni_tuple: Final[Any] = types.UniTuple


class Parameter(NamedTuple):
    """An array that a kernel takes.

    Parameters
    ----------
    dtype, axes : as the kernel sees it
    whole : the kernel gets the array as it is; if False, of an array with one axis more, the row of its environment
    """

    dtype: np.dtype[Any]
    axes: int
    whole: bool = False


_INT32: Final = np.dtype(np.int32)
_FLOAT64: Final = np.dtype(np.float64)
# The arrays of a State, in its order.
STATE_PARAMETERS: Final = tuple(
    Parameter(dtype, axes, True)
    for dtype, axes in (
        (s.WORLD_DTYPE, 1), (s.JOB_STATE_DTYPE, 2), (s.REPLICA_DTYPE, 2), (s.NODE_STATE_DTYPE, 2),
        (s.RACK_STATE_DTYPE, 2), *[(_INT32, 2)] * 6, (s.PACE_DTYPE, 4), (EVENT_DTYPE, 2), *[(_INT32, 2)] * 2,
        (LINK_STATE_DTYPE, 2), (USE_DTYPE, 2), (ROUTE_DTYPE, 2), (PAIR_DTYPE, 2), (_FLOAT64, 3), (s.BUSY_DTYPE, 2),
        (s.SUB_BATCH_DTYPE, 4), (_FLOAT64, 4), (s.DUE_DTYPE, 2),
    )
)  # fmt: skip
# Numbers among a kernel's arrays: the environment, and what the driver gives with each call; a flag is 0 or 1.
ENVIRONMENT, ACTION, FLAG = "environment", "action", "flag"

_WORDS: Final = 8  # of a row of the table: an array's address, lengths, bytes of a row
_KERNEL_ROWS: Final = 2  # that come before: addresses of kernels
_ROW_BYTES: Final = 7
_INTERPRETED: Final = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
# Of a kernel that is called by its address: the table and the environment, then five integers and a number.
MOVE: Final = (types.int64,) * 7 + (types.float64,)


@cache  # numba.from_dtype looks at each of sixty fields
def _array_type(dtype: np.dtype[Any], axes: int) -> Any:
    return types.Array(numba.from_dtype(dtype), axes, "C")


@cache
def _rows_type(dtype: np.dtype[Any], axes: int) -> Any:
    return Rows(numba.from_dtype(dtype), axes)


def _words(context: Any, builder: Any, table: Any) -> Any:
    """Lower: the table behind its address."""
    return builder.inttoptr(table, context.get_value_type(types.intp).as_pointer())


def _load(context: Any, builder: Any, table: Any, row: int, kind: Any, b: Any = None, keeps_axis: bool = False) -> Any:
    """Lower: array number ``row`` of a table, or of it the row of environment ``b``, maybe with an axis of length 1."""

    def word(number: int) -> Any:
        read = builder.load(
            builder.gep(table, [context.get_constant(types.intp, _WORDS * (_KERNEL_ROWS + row) + number)])
        )
        read.set_metadata("invariant.load", builder.module.add_metadata([]))  # may be read as late as it is needed
        return read

    array = make_array(kind)(context, builder)
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    first = 1 if b is None else 2
    lengths = [word(first + axis) for axis in range(kind.ndim - keeps_axis)]
    shape = [context.get_constant(types.intp, 1), *lengths] if keeps_axis else lengths
    strides = [item]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    address = word(0) if b is None else builder.add(word(0), builder.mul(word(_ROW_BYTES), b))
    populate_array(
        array, data=builder.inttoptr(address, array.data.type), shape=shape, strides=strides, itemsize=item,
        meminfo=None, parent=None,
    )  # fmt: skip
    return array._getvalue()


def _bound_array(_: Any, table: Any, row: Any, dtype: Any, axes: Any) -> Any:
    """Give array number ``row`` of a table, inside a kernel; ``row`` and ``axes`` are literal."""
    kind = Rows(dtype.dtype, axes.literal_value)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(context, builder, _words(context, builder, arguments[0]), row.literal_value, kind)

    return kind(table, row, dtype, axes), lower


def _bound_row(_: Any, table: Any, row: Any, dtype: Any, axes: Any, b: Any) -> Any:
    """Give row ``b`` of array number ``row`` of a table; ``axes`` are those of the row."""
    kind = Rows(dtype.dtype, axes.literal_value)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(context, builder, _words(context, builder, arguments[0]), row.literal_value, kind, arguments[4])

    return kind(table, row, dtype, axes, types.int64), lower


def _bound_here(_: Any, table: Any, row: Any, dtype: Any, axes: Any, b: Any) -> Any:
    """Give array number ``row`` of a table as if it had environment ``b`` alone: its number is then 0, a constant."""
    kind = Rows(dtype.dtype, axes.literal_value)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _words(context, builder, arguments[0])
        return _load(context, builder, words, row.literal_value, kind, arguments[4], True)

    return kind(table, row, dtype, axes, types.int64), lower


def _state_kinds() -> Any:
    return types.Tuple([_rows_type(p.dtype, p.axes) for p in STATE_PARAMETERS])  # type: ignore[no-untyped-call]


def _bound_state(_: Any, table: Any) -> Any:
    """Give the arrays of a State, the first of a table."""
    kinds = _state_kinds()

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _words(context, builder, arguments[0])
        arrays = [_load(context, builder, words, row, kind) for row, kind in enumerate(kinds)]
        return context.make_tuple(builder, kinds, arrays)

    return kinds(table), lower


def _state_here(_: Any, table: Any, b: Any) -> Any:
    """Give the arrays of a State as if it had environment ``b`` alone: its number is then 0, a constant."""
    kinds = _state_kinds()

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = _words(context, builder, arguments[0])
        arrays = [_load(context, builder, words, row, kind, arguments[1], True) for row, kind in enumerate(kinds)]
        return context.make_tuple(builder, kinds, arrays)

    return kinds(table, types.int64), lower


def _scratch(_: Any, length: Any, dtype: Any) -> Any:
    """Give an array of ``length`` numbers, a literal, that lasts as long as the kernel's call; its values are unset."""
    kind = Rows(dtype.dtype, 1)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        item = context.get_data_type(kind.dtype)
        size = context.get_constant(types.intp, length.literal_value)
        bytes_each = context.get_constant(types.intp, context.get_abi_sizeof(item))
        array = make_array(kind)(context, builder)
        data = cgutils.alloca_once(builder, item, size=length.literal_value)
        populate_array(
            array, data=data, shape=[size], strides=[bytes_each], itemsize=bytes_each, meminfo=None, parent=None
        )
        return array._getvalue()

    return kind(length, dtype), lower


def _rows_of(_: Any, arrays: Any) -> Any:
    """Give C-contiguous arrays, a tuple, as some on which no negative index is used (rows.py)."""
    if any(array.layout != "C" for array in arrays):
        raise TypeError(f"rows_of: not all of {arrays} are known to be C-contiguous")
    kinds: Any = types.Tuple([Rows(array.dtype, array.ndim) for array in arrays])  # type: ignore[no-untyped-call]

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_tuple(builder, kinds, cgutils.unpack_tuple(builder, arguments[0]))

    return kinds(arrays), lower


def _fetch(_: Any, array: Any, b: Any, at: Any, byte: Any) -> Any:
    """Tell the processor that byte ``byte`` of entry ``at`` of row ``b`` of an array will be needed soon."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        whole = make_array(kind)(context, builder, arguments[0])
        entry = cgutils.get_item_pointer(context, builder, kind, whole, arguments[1 : 1 + kind.ndim])
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.gep(builder.bitcast(entry, pointer), [arguments[3]])
        kinds = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kinds)
        builder.call(hint, [place, word(0), word(3), word(1)])  # to be read; near; data
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), lower


if _INTERPRETED:
    bound_array: Any = lambda table, row, dtype, axes: table.arrays[row]  # noqa: E731
    bound_row: Any = lambda table, row, dtype, axes, b: table.arrays[row][b]  # noqa: E731
    bound_here: Any = lambda table, row, dtype, axes, b: table.arrays[row][b : b + 1]  # noqa: E731
    bound_state: Any = lambda table: table.arrays[: len(STATE_PARAMETERS)]  # noqa: E731
    state_here: Any = lambda table, b: [array[b : b + 1] for array in bound_state(table)]  # noqa: E731
    scratch: Any = np.empty
    rows_of: Any = lambda arrays: tuple(array.view(Checked) for array in arrays)  # noqa: E731
    fetch: Any = lambda array, b, at, byte: None  # noqa: E731
else:
    literal: Any = intrinsic(prefer_literal=True)
    bound_array, bound_row, bound_here = literal(_bound_array), literal(_bound_row), literal(_bound_here)
    bound_state, state_here = intrinsic(_bound_state), intrinsic(_state_here)
    scratch, fetch, rows_of = literal(_scratch), intrinsic(_fetch), intrinsic(_rows_of)


def _result(count: int) -> Any:
    return types.int64 if count == 1 else uni_tuple(types.int64, count)


def _call(
    context: Any, builder: Any, table: Any, number: int, kinds: Sequence[Any], given: Sequence[Any], results: int = 1
) -> Any:
    """Lower: kernel ``number`` of a table, called with arguments of these kinds."""
    words = _words(context, builder, table)
    address = builder.load(builder.gep(words, [context.get_constant(types.intp, number)]))
    convention, kind = context.call_conv, _result(results)
    pointer = builder.inttoptr(address, convention.get_function_type(kind, kinds).as_pointer())
    status, result = convention.call_function(builder, pointer, kind, kinds, given)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return result


def caller(parameters: Sequence[Parameter | str], results: int = 1) -> Any:
    """Make the function by which a driver calls a kernel with these parameters: ``(table, b, action) -> int``.

    It is the first kernel of the table. The arrays of the table that are no parameters follow those that are. A kernel
    that takes several actions, or flags, gets a tuple of integers; one that gives several ``results``, all integers,
    gives a tuple of them.
    """
    if _INTERPRETED:
        return lambda table, b, action: table.kernels[0](*table.arguments(parameters, b, action))
    kinds = signature_of(parameters)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, b, action = arguments
        words = _words(context, builder, table)
        actions = iter(
            cgutils.unpack_tuple(builder, action) if isinstance(signature.args[2], types.BaseTuple) else [action]
        )
        given, row = [], 0
        for parameter, kind in zip(parameters, kinds, strict=True):
            if parameter == ENVIRONMENT:
                given.append(b)
            elif isinstance(parameter, str):
                number = next(actions)
                if parameter == FLAG:
                    number = builder.icmp_unsigned("!=", number, context.get_constant(types.int64, 0))
                given.append(number)
            else:
                given.append(_load(context, builder, words, row, kind, None if parameter.whole else b))
                row += 1
        return _call(context, builder, table, 0, kinds, given, results)

    @intrinsic
    def call(_: Any, table: Any, b: Any, action: Any) -> Any:
        count = sum(isinstance(p, str) and p != ENVIRONMENT for p in parameters)
        numbers = types.int64 if isinstance(action, types.Integer) else uni_tuple(types.int64, count)
        return _result(results)(types.int64, types.int64, numbers), lower

    return call


def mover(number: int) -> Any:
    """Make the function by which kernel ``number`` of a table is called: ``(table, b, 5 integers, number) -> int``.

    What is not given is 0.
    """
    if _INTERPRETED:

        def move(table: Any, b: int, i: int = 0, j: int = 0, k: int = 0, m: int = 0, n: int = 0, x: float = 0.0) -> Any:
            return table.kernels[number](table, b, i, j, k, m, n, x)

        return move

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(context, builder, arguments[0], number, MOVE, arguments)

    @intrinsic
    def call(
        _: Any, table: Any, b: Any, i: Any = 0, j: Any = 0, k: Any = 0, m: Any = 0, n: Any = 0, x: Any = 0.0
    ) -> Any:
        return types.int64(*MOVE), lower

    return call


def signature_of(parameters: Sequence[Parameter | str]) -> tuple[Any, ...]:
    """Give the types of a kernel's parameters."""
    numbers = {ENVIRONMENT: types.int64, ACTION: types.int64, FLAG: types.boolean}
    return tuple(numbers[p] if isinstance(p, str) else _array_type(p.dtype, p.axes) for p in parameters)


class KernelTable:
    """Kernels bound to their arrays: what compiled code calls them by is ``table``.

    The arrays must be C-contiguous, and are kept. ``table`` is an address: it holds as long as this object does.
    Whoever copies a KernelTable must bind the copies of the arrays anew.

    Parameters
    ----------
    kernels : what a driver, or one of them, calls by number; sixteen at most
    signatures : types of the parameters of each
    parameters : what the first arrays must be
    arrays : those, in order, then others
    results : integers that each kernel gives
    """

    def __init__(
        self,
        kernels: Sequence[Any],
        signatures: Sequence[tuple[Any, ...]],
        parameters: Sequence[Parameter | str],
        arrays: Sequence[np.ndarray],
        results: int = 1,
    ) -> None:
        self.kernels, self.arrays = tuple(kernels), list(arrays)
        for array, parameter in zip(arrays, (p for p in parameters if not isinstance(p, str)), strict=False):
            axes = parameter.axes + (not parameter.whole)
            if array.dtype != parameter.dtype or array.ndim != axes or not array.flags.c_contiguous:
                raise TypeError(
                    f"array {array.dtype} {array.shape} is not a contiguous {parameter.dtype} of {axes} axes"
                )
        self.table: Any = self
        if _INTERPRETED:
            self.arrays = [array.view(Checked) for array in self.arrays]
        else:
            self._table = np.zeros((_KERNEL_ROWS + len(self.arrays), _WORDS), np.int64)
            for number, (made, signature) in enumerate(zip(kernels, signatures, strict=True)):
                self._table.flat[number] = _address(made, signature, results)
            for words, array in zip(self._table[_KERNEL_ROWS:], self.arrays, strict=True):
                words[: 1 + array.ndim] = array.ctypes.data, *array.shape
                words[_ROW_BYTES] = array.strides[0]
            self.table = self._table.ctypes.data
            self._words = memoryview(self._table.reshape(-1))  # type: ignore[arg-type]

    def replace(self, number: int, array: np.ndarray, address: int) -> None:
        """Go on with another array of the same type and axes, which lies at ``address``, in the place of ``number``."""
        if _INTERPRETED:
            array = array.view(Checked)
        else:
            at = _WORDS * (_KERNEL_ROWS + number)
            self._words[at] = address
            if array.shape != self.arrays[number].shape:
                for axis, length in enumerate(array.shape, at + 1):
                    self._words[axis] = length
                self._words[at + _ROW_BYTES] = array.strides[0]
        self.arrays[number] = array

    def arguments(self, parameters: Sequence[Parameter | str], b: int, action: int | tuple[int, ...]) -> list[Any]:
        """List what a kernel gets for an environment; for plain Python."""
        rest = iter(self.arrays)
        actions = iter(action if isinstance(action, tuple) else (action,))
        given: list[Any] = []
        for p in parameters:
            if isinstance(p, str):
                given.append(b if p == ENVIRONMENT else bool(next(actions)) if p == FLAG else next(actions))
            else:
                given.append(next(rest) if p.whole else next(rest)[b])
        return given


class Bound(KernelTable):
    """Kernels bound to their arrays, and a driver that plays them in several environments.

    Parameters
    ----------
    driver : kernel called as (table, first, end)
    kernels, signatures, parameters, arrays : as for :class:`KernelTable`
    """

    def __init__(
        self,
        driver: Any,
        kernels: Sequence[Any],
        signatures: Sequence[tuple[Any, ...]],
        parameters: Sequence[Parameter | str],
        arrays: Sequence[np.ndarray],
    ) -> None:
        super().__init__(kernels, signatures, parameters, arrays)
        self.call: Callable[[int, int], int] = partial(driver, self.table)


@cache
def _address(kernel: Any, signature: tuple[Any, ...], results: int) -> int:
    """Compile a kernel, unless it is, and give its address."""
    kernel.compile(signature)
    made = kernel.overloads[signature]
    assert made.signature.return_type == _result(results), made.signature.return_type
    address: int = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
    return address
