"""Kernels never count from the end of an array: compiled code would read what lies before it."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.core.handle import int64, kernel
from gpusched_env.simulator.binding import rows_of
from gpusched_env.simulator.rows import Checked

RECORD = np.dtype([("one", "<i8"), ("two", "<f8")])


@kernel
def shift(table: np.ndarray, records: np.ndarray, first: int) -> float:
    """Move entries by one, add up a field of the records, and write to a part of the table."""
    rows, kept = rows_of((table, records))
    for i in range(first, rows.shape[1] - 1):
        rows[0, i] = rows[0, i + 1]
    part = rows[1]
    part[len(part) - 1] = 7
    kept[np.int32(0)]["one"] += 1
    total = 0.0
    for i in range(len(kept)):
        total += kept[i]["two"] * kept[i]["one"]
    return total


def test_rows_read_and_write_as_any_array() -> None:
    table, records = np.arange(10, dtype=np.int32).reshape(2, 5), np.zeros(3, RECORD)
    records["one"], records["two"] = [1, 2, 3], [0.5, 0.25, 2.0]
    assert shift(table, records, int64(2)) == 1.0 + 0.5 + 6.0
    assert table.tolist() == [[0, 1, 3, 4, 4], [5, 6, 7, 8, 7]]
    assert records["one"].tolist() == [2, 2, 3]


@pytest.mark.parametrize("index", [-1, (0, -1), (-1, 0), (np.int64(-2), 1)])
def test_plain_python_refuses_negative_indices(index: object) -> None:
    array = np.zeros((2, 3)).view(Checked)
    with pytest.raises(IndexError, match="far behind the end"):
        array[index]
    with pytest.raises(IndexError, match="far behind the end"):
        array[index] = 1.0
    assert array[1, 2] == array[1][2] == 0.0
    with pytest.raises(IndexError, match="far behind the end"):
        array[1][-1]  # what is a part of it refuses as well
