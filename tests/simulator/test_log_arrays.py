"""The growing array of a log: it holds all added records, and earlier views of it never change."""

from __future__ import annotations

import copy
import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.event_log import EVENT_DTYPE
from gpusched_env.simulator.growing import GrowingArray


def some_events(first: int, count: int) -> np.ndarray:
    events = np.zeros(count, EVENT_DTYPE)
    events["time_s"] = events["job"] = np.arange(first, first + count)
    return events


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=20), st.integers(0, 50), st.integers(0, 300))
def test_the_array_holds_all_added_records(parts: list[tuple[int, bool]], room: int, first: int) -> None:
    growing, count, looked = GrowingArray(EVENT_DTYPE, room), 0, []
    for size, looks in parts:
        growing.add(some_events(count, size))
        count += size
        if looks:
            looked.append(growing[:])
    assert len(growing) == count
    assert growing[:].tobytes() == some_events(0, count).tobytes()
    assert growing[first:].tobytes() == some_events(0, count)[first:].tobytes()
    for earlier in looked:
        assert earlier.tobytes() == some_events(0, len(earlier)).tobytes()


def test_a_copy_grows_independently() -> None:
    growing = GrowingArray(np.dtype(np.int32), 100)
    growing.add(np.arange(3, dtype=np.int32))
    for other in (copy.deepcopy(growing), pickle.loads(pickle.dumps(growing))):
        other.add(np.arange(2, dtype=np.int32))
        assert other[:].tolist() == [0, 1, 2, 0, 1]
        assert growing[:].tolist() == [0, 1, 2]
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(growing, 5, buffer_callback=buffers.append)
    read_only = pickle.loads(data, buffers=[bytes(buffer) for buffer in buffers])
    read_only.add(np.arange(0, dtype=np.int32))
    assert read_only[:].tolist() == [0, 1, 2]
    assert len(pickle.dumps(growing)) < 400, "memory that no record has is not copied"
