"""Intervals of ratios over several agents of one search: a bootstrap over agents and problems."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.portable import arrays

RESAMPLES: Final = 2_000


def ratio_over_agents(ratios: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean of ratios, float64 [agents, problems], and its 95 % interval by bootstrap over both."""
    logs = arrays.log(ratios)
    rng = np.random.default_rng(0)
    count, length = logs.shape
    means = [
        logs[np.ix_(rng.integers(count, size=count), rng.integers(length, size=length))].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(means, (0.025, 0.975))
    middle, low, high = arrays.exp(np.array([logs.mean(), low, high])).tolist()
    return middle, low, high
