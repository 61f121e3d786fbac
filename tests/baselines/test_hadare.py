"""HadarE: the division of steps and the plan of a slot, against worked examples and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hadare_play import AWS, LAB, mix, play_slots
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.baselines.hadar.slots import plan_slot
from gpusched_env.errors import SchedulerError

SPEEDS = np.array([10.0, 6.5, 2.0])


def test_one_job_on_three_nodes() -> None:
    ends, utilisation, steps = play_slots([10_000.0], SPEEDS[None, :])
    assert steps[0][0] == pytest.approx([3_450.0, 2_242.5, 690.0])
    assert steps[0][1] == pytest.approx([1_955.405, 1_271.014, 391.081], abs=1e-3)
    assert ends == pytest.approx([570.5405], abs=1e-4)
    assert utilisation == pytest.approx(0.947418, abs=1e-6)
    assert (10_000 / 10 + 10) / ends[0] == pytest.approx(1.770251, abs=1e-6)


def test_two_jobs_on_three_nodes() -> None:
    """The longer job takes the fastest node and the spare one."""
    rates = np.tile(SPEEDS, (2, 1))
    assert plan_slot([6_000, 3_000], rates).tolist() == [0, 1, 0]
    ends, utilisation, steps = play_slots([6_000.0, 3_000.0], rates)
    assert ends == pytest.approx([530.0, 481.538], abs=1e-3)
    assert np.mean(ends) == pytest.approx(505.769, abs=1e-3)
    assert utilisation == pytest.approx(0.919207, abs=1e-6)
    assert [step.tolist() for step in steps[0]] == [pytest.approx([3_450, 690]), pytest.approx([1_550, 310])]


MIXES = range(20)


@pytest.mark.parametrize("speeds", [AWS, LAB], ids=["aws", "lab"])
def test_a_single_job_gains_the_speeds_of_all_nodes(speeds: np.ndarray) -> None:
    """Gain over one copy on the fastest node: (sum / fastest) x (slot - overheads) / slot, except for the last slot."""
    gains, limits = [], []
    for remaining, rates in (mix(seed, 1, speeds, True) for seed in MIXES):
        gains.append(play_slots(remaining, rates, copies=1).ends[0] / play_slots(remaining, rates).ends[0])
        limits.append(rates.sum() / rates.max() * 345 / 360)
    assert np.median(np.array(gains) / limits) == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize(("speeds", "jobs"), [(AWS, 3), (AWS, 5), (AWS, 12), (LAB, 5), (LAB, 12)])
def test_copies_gain_nothing_with_as_many_jobs_as_nodes(speeds: np.ndarray, jobs: int) -> None:
    """The rival migrates its jobs each slot, longest first."""
    drawn = [mix(seed, jobs, speeds, True) for seed in MIXES]
    forked = [play_slots(*each) for each in drawn]
    gains = [play_slots(*each, copies=1).ends.max() / one.ends.max() for each, one in zip(drawn, forked, strict=True)]
    assert 0.94 <= np.median([one.utilisation for one in forked]) <= 0.97
    assert 0.97 <= np.median(gains) <= 1.03
    for (remaining, _), one in zip(drawn, forked, strict=True):
        assert [sum(step.sum() for step in steps) for steps in one.steps] == pytest.approx(remaining)


@pytest.mark.parametrize("jobs", [1, 5, 12])
def test_slots_of_360_s_match_longer_ones_and_beat_shorter_ones(jobs: int) -> None:
    """15 s of overheads in a slot; long slots leave nodes idle at the end."""
    drawn = [mix(seed, jobs, LAB, True) for seed in MIXES]
    spans = {
        slot_s: np.array([play_slots(*each, slot_s=slot_s).ends.max() for each in drawn])
        for slot_s in (90.0, 360.0, 720.0)
    }
    assert np.median(spans[360.0] / spans[720.0]) < 1.03
    assert np.median(spans[90.0] / spans[360.0]) > 1.08


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


def test_an_unknown_order_of_spare_nodes_is_refused() -> None:
    with pytest.raises(SchedulerError, match="unknown spare order 'latest'"):
        plan_slot([1.0], np.ones((1, 2)), spare_order="latest")
    assert plan_slot([3.0, 2.0], np.ones((2, 4)), spare_order="scheduler").tolist() == [0, 1, 0, 1]


def test_a_forker_before_the_scheduler_puts_all_copies_of_a_job_before_the_next() -> None:
    rates = np.tile([10.0, 6.5, 2.0, 1.0], (3, 1))
    assert plan_slot([1.0, 9.0, 5.0], rates, order="forked").tolist() == [0, 0, 0, 0]
    assert plan_slot([0.0, 9.0, 50.0], rates, most_copies=2, order="forked").tolist() == [1, 1, 2, 2]
    rates[0, :2] = 0.0  # the first job does not run on the fastest nodes
    assert plan_slot([1.0, 9.0, 5.0], rates, order="forked").tolist() == [1, 1, 0, 0]
    assert plan_slot([1.0, 9.0, 5.0], rates, most_copies=1, order="forked").tolist() == [1, 2, 0, -1]
