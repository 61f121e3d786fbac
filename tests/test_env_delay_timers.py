"""Delay timers as an environment: actions, what is seen, what is paid, and the runs that must be equal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import play
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.cluster import Cluster
from gpusched_env.envs.delay_actions import TimerActions, timer_action, timer_seconds
from gpusched_env.envs.delay_columns import CLASS_COLUMNS, CLASS_INDEX, CLUSTER_COLUMNS, CLUSTER_INDEX
from gpusched_env.envs.delay_observer import TimerObserver, observation_space
from gpusched_env.errors import GpuschedError

CLUSTER = Cluster.parse("32x8/8")

# --- actions


def test_the_actions_of_the_specification_give_its_timers() -> None:
    seconds = timer_seconds(np.array([0.0, -0.5, 0.5]))
    np.testing.assert_allclose(seconds, [6_023.95, 465.38, 77_974.73], atol=0.005)
    assert timer_seconds(np.array(0.38469)) == pytest.approx(43_200, rel=1e-4)
    assert timer_action([43_200.0])[0] == pytest.approx(0.38469, abs=5e-6)


def test_both_ends_are_reached_before_the_limits() -> None:
    assert timer_seconds(np.array([-1.0, -0.9, 0.9, 1.0])).tolist() == [0.0, 0.0, math.inf, math.inf]
    near = timer_seconds(np.array([-0.899, 0.899]))
    assert 60.0 < near[0] < 61.0
    assert 590_000 < near[1] < 604_800


@given(st.floats(61.0, 604_000.0))
def test_a_timer_survives_the_way_to_its_action_and_back(seconds: float) -> None:
    assert timer_seconds(timer_action([seconds]))[0] == pytest.approx(seconds, rel=1e-5)


@given(st.lists(st.floats(-1, 1), min_size=12, max_size=12))
def test_the_network_timer_is_never_below_the_rack_timer_where_a_machine_may_hold_the_gang(values: list[float]) -> None:
    action = np.reshape(values, (6, 2))
    actions = TimerActions(CLUSTER)
    waits = actions.waits(action)
    own = timer_seconds(action)
    assert (waits[2:9, 1] >= waits[2:9, 0]).all()
    np.testing.assert_array_equal(waits[2:9, 1], waits[2:9, 0] + own[actions.class_of[2:9], 1])
    np.testing.assert_array_equal(waits[9:, 1], own[actions.class_of[9:], 1])  # beyond a machine: the network alone
    assert (waits[:2] == 0).all()


def test_demands_fall_into_the_classes_of_the_specification() -> None:
    classes = TimerActions(CLUSTER).class_of
    assert [classes[g] for g in (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 256)] == [-1, -1, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_a_class_that_straddles_the_machine_size_treats_its_demands_apart() -> None:
    actions = TimerActions(Cluster.parse("4x6/2"))
    waits = actions.waits(np.zeros((6, 2)))
    one = timer_seconds(np.array(0.0))
    assert waits[6].tolist() == [one, 2 * one]
    assert waits[7].tolist() == [one, one]


def test_residual_actions_multiply_by_at_most_sixteen() -> None:
    actions = TimerActions(CLUSTER, residual=True)
    assert (actions.factors(np.zeros((6, 2))) == 1.0).all()
    factors = actions.factors(np.tile([1.0, -0.5], (6, 1)))
    assert (factors[2:] == [16.0, 0.25]).all()
    assert (factors[:2] == 1.0).all()


@pytest.mark.parametrize("action", [np.zeros(12), np.zeros((5, 2)), [[math.nan, 0.0]] * 6, "far", [[0.0], [0.0, 1.0]]])
def test_what_is_no_action_is_refused(action: object) -> None:
    with pytest.raises(GpuschedError, match="action"):
        TimerActions(CLUSTER).waits(action)  # type: ignore[arg-type]


@pytest.mark.parametrize("classes", [(), (1, 4), (4, 4), (8, 4)])
def test_classes_that_do_not_ascend_are_refused(classes: tuple[int, ...]) -> None:
    with pytest.raises(GpuschedError, match="ascend"):
        TimerActions(CLUSTER, classes)
