"""The list of waiting jobs against a sorted Python list."""

from __future__ import annotations

import bisect

import numpy as np
from helpers import unit_instance
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import Run, allocate
from gpusched_env.core.waiting import dequeue, enqueue, waiting_rows

JOBS = 12
INSTANCE = unit_instance(list(range(JOBS)), [1] * JOBS, [1] * JOBS, "1x2")


@kernel
def add(sim: Run, row: int) -> None:
    enqueue(sim, row)


@kernel
def remove(sim: Run, row: int) -> None:
    dequeue(sim, row)


@given(st.lists(st.integers(0, JOBS - 1), max_size=80))
def test_rows_stay_sorted_and_within_the_array(rows: list[int]) -> None:
    state = allocate([INSTANCE, INSTANCE])
    sim = state.handle(1)
    waiting: list[int] = []
    for row in rows:
        if row in waiting:
            waiting.remove(row)
            remove(sim, row)
        else:
            bisect.insort(waiting, row)
            add(sim, row)
        assert waiting_rows(sim).tolist() == waiting
        assert 0 <= sim.world["first_waiting"] <= JOBS - len(waiting)
    assert not state.waiting[0].any()


def test_removing_the_oldest_and_adding_the_newest_moves_no_row() -> None:
    sim = allocate([INSTANCE]).handle(0)
    for row in range(JOBS - 1):
        add(sim, row)
    before = sim.waiting.copy()
    for row in range(5):
        remove(sim, row)
    add(sim, JOBS - 1)
    before[JOBS - 1] = JOBS - 1
    np.testing.assert_array_equal(sim.waiting, before)
