"""The default scenario separates schedulers on its report seeds."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.evaluation import evaluate
from gpusched_env.metrics import paired_ratio
from gpusched_env.scenarios import get_scenario


@pytest.fixture(scope="module")
def mean_jct() -> dict[str, np.ndarray]:
    """Mean JCT [s] of some schedulers on every report seed."""
    names = ["fifo", "sjf", "srtf", "random"]
    scenario = get_scenario("philly-64-v1")
    results = evaluate(scenario, names, range(*scenario.seeds.report), progress=False)
    table = np.array([result.metrics["mean_jct_s"] for result in results]).reshape(len(names), -1)
    return dict(zip(names, table, strict=True))


def test_fifo_takes_at_least_twice_as_long_as_srtf(mean_jct: dict[str, np.ndarray]) -> None:
    assert mean_jct["fifo"].mean() >= 2 * mean_jct["srtf"].mean()


def test_random_choices_are_clearly_worse_than_sjf(mean_jct: dict[str, np.ndarray]) -> None:
    assert paired_ratio(mean_jct["random"], mean_jct["sjf"]).low > 1.1
    assert mean_jct["random"].mean() > 1.15 * mean_jct["sjf"].mean()
