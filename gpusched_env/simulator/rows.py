"""Arrays, inside kernels, whose indices are never negative.

Numba lets an index count from the end, as Python does: each access then looks at the sign of every index and may add a
length, and that keeps loops from becoming vector instructions. Kernels that look their arrays up in a table
(binding.py) never count from the end: in plain Python, :class:`Checked` refuses.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba.core import types as _types
from numba.core.extending import models, register_model
from numba.core.imputils import lower_builtin
from numba.np import arrayobj as _arrayobj

# Numba's types and lowering functions have no types.
types: Any = _types
arrayobj: Any = _arrayobj
lower: Any = lower_builtin


class Checked(np.ndarray):
    """What plain Python plays with instead: an array that refuses negative indices.

    Raises
    ------
    IndexError : where compiled code would read or write outside the array
    """

    def __getitem__(self, index: Any) -> Any:
        """Read as any array does."""
        _check(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write as any array does."""
        _check(index)
        super().__setitem__(index, value)


def _check(index: Any) -> None:
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, (int, np.integer)) and part < 0:
            raise IndexError(f"index {index}: compiled code would take {part} for a number far behind the end")


class Rows(types.Array):  # type: ignore[misc]
    """A C-contiguous array that no negative index is used on."""

    def __init__(self, dtype: Any, axes: int) -> None:
        super().__init__(dtype, axes, "C", name=f"Rows({dtype}, {axes})")


register_model(Rows)(models.ArrayModel)


def _unsigned(context: Any, builder: Any, kinds: Any, indices: Any) -> tuple[Any, Any]:
    """Lower: a tuple of indices, and its type, in which no integer has a sign."""
    of, given = [], []
    for kind, index in zip(kinds, indices, strict=True):
        is_number = isinstance(kind, types.Integer)
        of.append(types.uintp if is_number else kind)
        given.append(context.cast(builder, index, kind, types.intp) if is_number else index)
    kind = types.Tuple(of)
    return kind, context.make_tuple(builder, kind, given)


def _parts(builder: Any, kind: Any, index: Any) -> tuple[Any, Any]:
    if not isinstance(kind, types.BaseTuple):
        return (kind,), (index,)
    return kind.types, [builder.extract_value(index, i) for i in range(len(kind))]


def _get(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, index = signature.args
    kind, indices = _unsigned(context, builder, *_parts(builder, index, arguments[1]))
    wanted = signature.return_type(array, kind)
    return arrayobj.getitem_array_tuple(context, builder, wanted, (arguments[0], indices))


def _set(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array, index, value = signature.args
    kind, indices = _unsigned(context, builder, *_parts(builder, index, arguments[1]))
    wanted = signature.return_type(array, kind, value)
    return arrayobj.setitem_array(context, builder, wanted, (arguments[0], indices, arguments[2]))


lower(operator.getitem, Rows, types.Integer)(_get)
lower(operator.getitem, Rows, types.BaseTuple)(_get)
lower(operator.setitem, Rows, types.Any, types.Any)(_set)
