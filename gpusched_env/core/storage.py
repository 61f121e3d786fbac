"""Several arrays in one piece of memory, so that one copy copies all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

_LINE: Final = 64  # [byte] of a cache line


class Part(NamedTuple):
    """Place of an array.

    Parameters
    ----------
    begin, end : its bytes
    dtype, shape : of the array
    """

    begin: int
    end: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Layout:
    """Where each array lies in a piece of memory; every array begins at a cache line.

    Parameters
    ----------
    arrays : type and shape of each array, by name

    Attributes
    ----------
    parts : place of each array, by name
    size : length of the memory [byte]
    """

    def __init__(self, arrays: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        self.parts: dict[str, Part] = {}
        end = 0
        for name, (dtype, shape) in arrays.items():
            begin = -(-end // _LINE) * _LINE
            end = begin + math.prod(shape) * dtype.itemsize
            self.parts[name] = Part(begin, end, dtype, shape)
        self.size = -(-end // _LINE) * _LINE

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array, by name."""
        return {name: part.shape for name, part in self.parts.items()}

    def views(self, memory: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays, by name.

        Parameters
        ----------
        memory : uint8 [..., size]; axes before the last one are axes of every array
        """
        others = memory.shape[:-1]
        return {
            name: (
                memory[..., begin:end].view(dtype).reshape((*others, *shape))
                if end > begin
                else np.zeros((*others, *shape), dtype)
            )
            for name, (begin, end, dtype, shape) in self.parts.items()
        }


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Allocate an array of zeros that begins at a cache line."""
    length = math.prod(shape) * dtype.itemsize
    raw = np.zeros(length + _LINE, np.uint8)
    first = -raw.ctypes.data % _LINE
    return raw[first : first + length].view(dtype).reshape(shape)


def copied(value: np.ndarray) -> np.ndarray:
    """Copy an array of records as bytes: numpy copies them field by field, which takes ten times as long."""
    return as_bytes(value).copy().view(value.dtype)


def as_bytes(value: np.ndarray) -> np.ndarray:
    """View records as bytes."""
    return value.view(_raw(value.dtype.itemsize)) if value.dtype.names else value


@cache
def _raw(length: int) -> np.dtype[Any]:
    """Return the type of records without fields; kept, because NumPy reads its name each time."""
    return np.dtype(f"V{length}")
