"""Times on the logarithmic scale equal those of the portable logarithm bit for bit, although a faster one is used."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.envs.observation.time_scale import scaled_time, scaled_time_exactly


class Times(Handle):
    seconds = array(np.float64, "times")
    fast = array(np.float32, "times")
    exact = array(np.float32, "times")


@kernel
def squash_each(these: Times) -> None:
    for i in range(len(these.seconds)):
        these.fast[i] = scaled_time(these.seconds[i])
        if these.seconds[i] > 0.0:
            these.exact[i] = scaled_time_exactly(these.seconds[i] / 60.0)


def squashed(seconds: np.ndarray) -> Times:
    nothing = np.zeros(len(seconds), np.float32)
    these = Times(seconds=seconds, fast=nothing.copy(), exact=nothing.copy())
    squash_each(these)
    return these


def times_of_all_sizes() -> np.ndarray:
    """Times of all sizes, including those where the polynomial or the scale changes."""
    rng = np.random.default_rng(0)
    powers = 60.0 * (2.0 ** np.arange(-60, 40) - 1.0)
    halves = 60.0 * (np.sqrt(0.5) * 2.0 ** np.arange(1, 40) - 1.0)
    edges = np.concatenate([powers, halves, [0.6, 30.0, 2_592_000.0, 6e7, 0.0, -5.0, 5e-324, 1e300, np.inf]])
    around = [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)]
    drawn = [np.exp(rng.uniform(-40.0, 20.0, 60_000)), rng.uniform(0.0, 3e6, 60_000), np.arange(60_000) * 0.5]
    return np.concatenate([*around, *drawn])


def test_the_scale_equals_that_of_the_portable_logarithm() -> None:
    these = squashed(times_of_all_sizes())
    assert these.fast.tobytes() == these.exact.tobytes()
    assert these.fast.min() == 0.0
    assert these.fast.max() == 1.0


def test_doubtful_roundings_use_the_portable_logarithm() -> None:
    """float64 values closest to the middle of two float32 numbers, and their neighbours."""
    lows = np.linspace(0.05, 0.95, 200, dtype=np.float32)
    middles = (lows.astype(float) + np.nextafter(lows, np.float32(1.0)).astype(float)) / 2.0
    at = 60.0 * np.expm1(middles * np.log1p(43_200.0))
    these = squashed((at[:, None] * (1.0 + np.arange(-50, 51) * 2.0**-52)).ravel())
    assert these.fast.tobytes() == these.exact.tobytes()
    assert sum(len(set(row)) == 2 for row in these.fast.reshape(len(lows), -1).tolist()) > 150
