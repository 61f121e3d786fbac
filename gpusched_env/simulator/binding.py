"""Hand a kernel forty arrays as one: a table of their addresses and lengths.

Numba looks at and unpacks every array argument of every call from Python, which for the arrays of a state takes longer
than a step of the simulation. A driver gets one table instead, made once (0.15 us a call, not 3 us), and calls the
kernel for one environment after the other by its address. So the kernel is compiled once, whoever drives it: what a
compiled function calls in the ordinary way is compiled into it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj as _arrayobj

from gpusched_env.event_log import EVENT_DTYPE
from gpusched_env.simulator import state as s
from gpusched_env.simulator.network_state import LINK_STATE_DTYPE, PAIR_DTYPE, ROUTE_DTYPE, USE_DTYPE

# Numba's lowering functions have no types.
cgutils: Final[Any] = _cgutils
make_array: Final[Any] = _arrayobj.make_array
uni_tuple: Final[Any] = types.UniTuple
populate_array: Final[Any] = _arrayobj.populate_array


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
        (s.SUB_BATCH_DTYPE, 4), (_FLOAT64, 4),
    )
)  # fmt: skip
# Numbers among a kernel's arrays: the environment, and what the driver gives with each call; a flag is 0 or 1.
ENVIRONMENT, ACTION, FLAG = "environment", "action", "flag"

_WORDS: Final = 6  # of a row of the table: the array's address and at most five lengths; the last row has the kernel's
_INTERPRETED: Final = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]


@cache  # numba.from_dtype looks at each of sixty fields
def _array_type(dtype: np.dtype[Any], axes: int) -> Any:
    return types.Array(numba.from_dtype(dtype), axes, "C")


def _load(context: Any, builder: Any, table: Any, row: int, kind: Any, b: Any = None) -> Any:
    """Lower: array number ``row`` of a table, or the row of environment ``b`` of it."""

    def word(number: int) -> Any:
        return builder.load(builder.gep(table, [context.get_constant(types.intp, _WORDS * row + number)]))

    array = make_array(kind)(context, builder)
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    shape = [word((1 if b is None else 2) + axis) for axis in range(kind.ndim)]
    strides = [item]
    for length in shape[::-1]:
        strides.insert(0, builder.mul(strides[0], length))
    address = word(0) if b is None else builder.add(word(0), builder.mul(strides[0], b))
    populate_array(
        array, data=builder.inttoptr(address, array.data.type), shape=shape, strides=strides[1:], itemsize=item,
        meminfo=None, parent=None,
    )  # fmt: skip
    return array._getvalue()


def _bound_array(_: Any, table: Any, row: Any, dtype: Any, axes: Any) -> Any:
    """Give array number ``row`` of a table, inside a driver; ``row`` and ``axes`` are literal."""
    kind = types.Array(dtype.dtype, axes.literal_value, "C")

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = make_array(signature.args[0])(context, builder, arguments[0]).data
        return _load(context, builder, words, row.literal_value, kind)

    return kind(table, row, dtype, axes), lower


bound_array: Final[Any] = (
    (lambda table, row, dtype, axes: table.arrays[row])
    if _INTERPRETED
    else intrinsic(prefer_literal=True)(_bound_array)
)


def _kind(parameter: Parameter | str) -> Any:
    if isinstance(parameter, str):
        return types.boolean if parameter == FLAG else types.int64
    return _array_type(parameter.dtype, parameter.axes)


def caller(parameters: Sequence[Parameter | str], results: int = 1) -> Any:
    """Make the function by which a driver calls a kernel with these parameters: ``(table, b, action) -> int``.

    The arrays of the table that are no parameters follow those that are. A kernel that takes several actions, or flags,
    gets a tuple of integers; one that gives several ``results``, all integers, gives a tuple of them.
    """
    if _INTERPRETED:
        return lambda table, b, action: table.kernel(*table.arguments(b, action))
    kinds = [_kind(p) for p in parameters]
    result_kind = types.int64 if results == 1 else uni_tuple(types.int64, results)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, b, action = arguments
        table = make_array(signature.args[0])(context, builder, table)
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
                given.append(_load(context, builder, table.data, row, kind, None if parameter.whole else b))
                row += 1
        last = builder.sub(table.nitems, context.get_constant(types.intp, _WORDS))
        address = builder.load(builder.gep(table.data, [last]))
        convention = context.call_conv
        pointer = builder.inttoptr(address, convention.get_function_type(result_kind, kinds).as_pointer())
        status, result = convention.call_function(builder, pointer, result_kind, kinds, given)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    @intrinsic
    def call(_: Any, table: Any, b: Any, action: Any) -> Any:
        count = sum(isinstance(p, str) and p != ENVIRONMENT for p in parameters)
        numbers = types.int64 if isinstance(action, types.Integer) else uni_tuple(types.int64, count)
        return result_kind(table, types.int64, numbers), lower

    return call


class KernelTable:
    """A kernel bound to its arrays: what a driver calls it by is ``table``.

    The arrays must be C-contiguous, and are kept. Whoever copies a table must bind the copies of the arrays anew.

    Parameters
    ----------
    kernel : what a driver calls, by the function that :func:`caller` made of ``parameters``
    parameters : of the kernel
    arrays : those of the kernel, in order, then those that the driver alone looks at
    results : integers that the kernel gives
    """

    def __init__(
        self, kernel: Any, parameters: Sequence[Parameter | str], arrays: Sequence[np.ndarray], results: int = 1
    ) -> None:
        self.kernel, self.arrays, self._parameters = kernel, tuple(arrays), parameters
        for array, parameter in zip(arrays, (p for p in parameters if not isinstance(p, str)), strict=False):
            axes = parameter.axes + (not parameter.whole)
            if array.dtype != parameter.dtype or array.ndim != axes or not array.flags.c_contiguous:
                raise TypeError(
                    f"array {array.dtype} {array.shape} is not a contiguous {parameter.dtype} of {axes} axes"
                )
        self.table: Any = self if _INTERPRETED else self._addresses(results)

    def _addresses(self, results: int) -> np.ndarray:
        table = np.zeros((len(self.arrays) + 1, _WORDS), np.int64)
        for words, array in zip(table, self.arrays, strict=False):
            words[: 1 + array.ndim] = array.ctypes.data, *array.shape
        signature = tuple(_kind(p) for p in self._parameters)
        self.kernel.compile(signature)
        made = self.kernel.overloads[signature]
        expected = types.int64 if results == 1 else uni_tuple(types.int64, results)
        assert made.signature.return_type == expected, made.signature.return_type
        table[-1, 0] = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        return table.reshape(-1)

    def arguments(self, b: int, action: int | tuple[int, ...]) -> list[Any]:
        """List what the kernel gets for an environment; for plain Python."""
        rest = iter(self.arrays)
        actions = iter(action if isinstance(action, tuple) else (action,))
        given: list[Any] = []
        for p in self._parameters:
            if isinstance(p, str):
                given.append(b if p == ENVIRONMENT else bool(next(actions)) if p == FLAG else next(actions))
            else:
                given.append(next(rest) if p.whole else next(rest)[b])
        return given


class Bound(KernelTable):
    """A kernel bound to its arrays, and a driver that plays it in several environments.

    Parameters
    ----------
    driver : kernel called as (table, first, end)
    kernel, parameters, arrays : as for :class:`KernelTable`
    """

    def __init__(
        self, driver: Any, kernel: Any, parameters: Sequence[Parameter | str], arrays: Sequence[np.ndarray]
    ) -> None:
        super().__init__(kernel, parameters, arrays)
        self.call: Callable[[int, int], int] = partial(driver, self.table)
