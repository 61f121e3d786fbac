"""Arrays, inside kernels, whose indices are never negative.

Numba lets an index count from the end, as Python does: each access then tests the sign of every index and may add a
length, which took a quarter of a step's instructions, and keeps loops from becoming vector instructions. Kernels never
count from the end; tests/test_rows.py plays everything in plain Python with arrays that refuse to.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types as _types
from numba.core.extending import models, register_model
from numba.core.imputils import lower_builtin
from numba.np import arrayobj as _arrayobj

# Numba's types and lowering functions have no types.
types: Any = _types
arrayobj: Any = _arrayobj
lower: Any = lower_builtin


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
