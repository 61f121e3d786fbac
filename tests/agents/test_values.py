"""The value network: generalised advantages against their definition, and values that are learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.agents.tokens import Layout
from gpusched_env.agents.values import Values, generalised_advantages
from gpusched_env.envs.windows import Windows

NUMBERS = st.floats(-10.0, 10.0)
STEP = st.tuples(NUMBERS, NUMBERS, st.floats(0.0, 100.0))


@given(st.lists(STEP, min_size=1, max_size=12), st.floats(1.0, 1e4))
def test_with_lambda_1_an_advantage_is_the_discounted_return_beyond_the_value(
    steps: list[tuple[float, float, float]], horizon_s: float
) -> None:
    values, rewards, durations_s = (np.array(column) for column in zip(*steps, strict=True))
    found = generalised_advantages(values, rewards, durations_s, horizon_s, 1.0)
    begins_s = np.concatenate([[0.0], np.cumsum(durations_s)[:-1]])
    for k in range(len(steps)):
        discounted = rewards[k:] * np.exp((begins_s[k] - begins_s[k:]) / horizon_s)
        assert found[k] == pytest.approx(discounted.sum() - values[k], abs=1e-8)


def test_with_lambda_0_an_advantage_looks_one_step_ahead() -> None:
    """Steps of 0 s are not discounted; one of ln 2 horizons counts half."""
    values, rewards, durations_s = (
        np.array([1.0, 2.0, 4.0]),
        np.array([-1.0, -2.0, -3.0]),
        np.array([0.0, np.log(2), 5.0]),
    )
    found = generalised_advantages(values, rewards, durations_s, 1.0, 0.0)
    assert found == pytest.approx([-1.0 + 2.0 - 1.0, -2.0 + 0.5 * 4.0 - 2.0, -3.0 - 4.0])


def test_lambda_weighs_later_gains() -> None:
    found = generalised_advantages(np.zeros(3), np.array([1.0, 1.0, 1.0]), np.ones(3), np.inf, 0.5)
    assert found == pytest.approx([1.75, 1.5, 1.0])


def test_values_of_any_size_are_learned() -> None:
    """Returns in the thousands that follow from one column."""
    torch.manual_seed(0)
    layout = Layout.of({"queue": (2, 13), "cluster": (11,)}, Windows(running_window=0))
    values = Values(layout, 16, 1e-2)
    inputs = layout.inputs({"queue": torch.rand(512, 2, 13), "cluster": torch.rand(512, 11)})
    returns = -5_000.0 + 300.0 * inputs["cluster"][:, 3].double().numpy()
    first = values.fit(inputs, returns, 128, 30)
    assert first < 0.1
    assert values.fit(inputs, returns, 128, 1) > 0.9
    assert values.of(inputs, 100) == pytest.approx(returns, rel=0.02)
