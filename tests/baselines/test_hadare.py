"""HadarE: the plan of a slot."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.baselines.hadar.slots import plan_slot

tables = st.integers(1, 5).flatmap(
    lambda nodes: st.lists(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0]), min_size=nodes, max_size=nodes), min_size=1, max_size=6
    )
)


@given(tables, st.randoms(use_true_random=False))
def test_every_plan_is_work_conserving_and_serves_the_longest_jobs(table, random) -> None:  # type: ignore[no-untyped-def]
    rates = np.array(table)
    left = [random.choice([0, 1, 10, 100]) for _ in table]
    given_to = plan_slot(left, rates)
    for node, job in enumerate(given_to.tolist()):
        runnable = [j for j in range(len(table)) if left[j] > 0 and rates[j, node] > 0]
        assert (job in runnable) if job >= 0 else not runnable
    single = plan_slot(left, rates, most_copies=1)
    held = [job for job in single.tolist() if job >= 0]
    assert len(held) == len(set(held))
    # a node that a job gets with one copy it also gets with several
    assert all(given_to[node] == job for node, job in enumerate(single.tolist()) if job >= 0)


def test_spare_nodes_go_to_the_job_that_would_end_last_or_to_the_jobs_in_turn() -> None:
    assert plan_slot([6_000, 3_000], np.tile([10.0, 6.5, 2.0], (2, 1))).tolist() == [0, 1, 0]
    assert plan_slot([3.0, 2.0], np.ones((2, 4)), spare_order="scheduler").tolist() == [0, 1, 0, 1]


def test_a_forker_before_the_scheduler_puts_all_copies_of_a_job_before_the_next() -> None:
    rates = np.tile([10.0, 6.5, 2.0, 1.0], (3, 1))
    assert plan_slot([1.0, 9.0, 5.0], rates, order="forked").tolist() == [0, 0, 0, 0]
    assert plan_slot([0.0, 9.0, 50.0], rates, most_copies=2, order="forked").tolist() == [1, 1, 2, 2]
    rates[0, :2] = 0.0  # the first job does not run on the fastest nodes
    assert plan_slot([1.0, 9.0, 5.0], rates, order="forked").tolist() == [1, 1, 0, 0]
    assert plan_slot([1.0, 9.0, 5.0], rates, most_copies=1, order="forked").tolist() == [1, 2, 0, -1]
