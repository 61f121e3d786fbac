"""Hand a kernel forty arrays as one: a table of their addresses and lengths.

Numba looks at and unpacks every array argument of every call from Python, which for the arrays of a state takes longer
than a step of the simulation. A driver gets one table instead, made once (0.15 us a call, not 3 us), and calls the
kernel for one environment after the other by its address. So the kernel is compiled once, whoever drives it: what a
compiled function calls in the ordinary way is compiled into it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
# Integers that stand among a kernel's arrays.
ENVIRONMENT, ACTION = "environment", "action"

_WORDS: Final = 6  # of a row of the table: the array's address and at most five lengths; the last row has the kernel's
_INTERPRETED: Final = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]


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


def caller(parameters: Sequence[Parameter | str]) -> Any:
    """Make the function by which a driver calls a kernel with these parameters: ``(table, b, action) -> int``.

    The arrays of the table that are no parameters follow those that are.
    """
    if _INTERPRETED:
        return lambda table, b, action: table.kernel(*table.arguments(b, action))
    kinds = [types.int64 if isinstance(p, str) else _array_type(p.dtype, p.axes) for p in parameters]

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, b, action = arguments
        table = make_array(signature.args[0])(context, builder, table)
        given, row = [], 0
        for parameter, kind in zip(parameters, kinds, strict=True):
            if isinstance(parameter, str):
                given.append(b if parameter == ENVIRONMENT else action)
            else:
                given.append(_load(context, builder, table.data, row, kind, None if parameter.whole else b))
                row += 1
        last = builder.sub(table.nitems, context.get_constant(types.intp, _WORDS))
        address = builder.load(builder.gep(table.data, [last]))
        convention = context.call_conv
        pointer = builder.inttoptr(address, convention.get_function_type(types.int64, kinds).as_pointer())
        status, result = convention.call_function(builder, pointer, types.int64, kinds, given)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    @intrinsic
    def call(_: Any, table: Any, b: Any, action: Any) -> Any:
        return types.int64(table, types.int64, types.int64), lower

    return call


class Bound:
    """A kernel bound to its arrays, and a driver that plays it in several environments.

    The arrays must be C-contiguous, and are kept. Whoever copies a Bound must bind the copies of the arrays anew.

    Parameters
    ----------
    driver : kernel called as (table, first, end)
    kernel : what the driver calls, by the function that :func:`caller` made of ``parameters``
    parameters : of the kernel
    arrays : those of the kernel, in order, then those that the driver alone looks at
    """

    def __init__(
        self, driver: Any, kernel: Any, parameters: Sequence[Parameter | str], arrays: Sequence[np.ndarray]
    ) -> None:
        self.kernel, self.arrays, self._parameters = kernel, tuple(arrays), parameters
        for array, parameter in zip(arrays, (p for p in parameters if not isinstance(p, str)), strict=False):
            axes = parameter.axes + (not parameter.whole)
            if array.dtype != parameter.dtype or array.ndim != axes or not array.flags.c_contiguous:
                raise TypeError(
                    f"array {array.dtype} {array.shape} is not a contiguous {parameter.dtype} of {axes} axes"
                )
        self.call: Callable[[int, int], int] = partial(driver, self if _INTERPRETED else self._addresses())

    def _addresses(self) -> np.ndarray:
        table = np.zeros((len(self.arrays) + 1, _WORDS), np.int64)
        for words, array in zip(table, self.arrays, strict=False):
            words[: 1 + array.ndim] = array.ctypes.data, *array.shape
        signature = tuple(types.int64 if isinstance(p, str) else _array_type(p.dtype, p.axes) for p in self._parameters)
        self.kernel.compile(signature)
        made = self.kernel.overloads[signature]
        assert made.signature.return_type == types.int64
        table[-1, 0] = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        return table.reshape(-1)

    def arguments(self, b: int, action: int) -> list[Any]:
        """List what the kernel gets for an environment; for plain Python."""
        rest = iter(self.arrays)
        integers = {ENVIRONMENT: b, ACTION: action}
        return [
            integers[p] if isinstance(p, str) else next(rest) if p.whole else next(rest)[b] for p in self._parameters
        ]
