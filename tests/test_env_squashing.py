"""Times on the logarithmic scale: taken many at a time, they are bit for bit those taken one after the other."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import int64, kernel
from gpusched_env.envs.observation.squashing import LANES, squash, squash_all
from gpusched_env.simulator.binding import scratch

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
ROOM = 64 + LANES


@kernel
def together(seconds: np.ndarray, count: int, out: np.ndarray) -> None:
    """Squash ``count`` times in parts of 64, as many as an observation shows of a window."""
    some = scratch(ROOM, FLOAT64)
    squashed = scratch(ROOM, FLOAT32)
    for first in range(0, count, 64):
        part = min(64, count - first)
        for i in range(part):
            some[i] = seconds[first + i]
        squash_all(some, int64(part), squashed)
        for i in range(part):
            out[first + i] = squashed[i]


@kernel
def one_by_one(seconds: np.ndarray, out: np.ndarray) -> None:
    for i in range(len(seconds)):
        out[i] = squash(seconds[i])


def seconds() -> np.ndarray:
    """Times of all sizes, and those at which something changes in the polynomial or the scale."""
    rng = np.random.default_rng(0)
    powers = 60.0 * (2.0 ** np.arange(-60, 40) - 1.0)
    halves = 60.0 * (np.sqrt(0.5) * 2.0 ** np.arange(1, 40) - 1.0)
    edges = np.concatenate([powers, halves, [30.0, 2_592_000.0, 6e7, 0.0, -5.0, 5e-324, 1e300, np.inf]])
    around = [np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)]
    drawn = [np.exp(rng.uniform(-40.0, 20.0, 60_000)), rng.uniform(0.0, 3e6, 60_000), np.arange(60_000) * 0.5]
    return np.concatenate([*around, *drawn])


def test_times_squashed_together_equal_those_squashed_alone() -> None:
    values = seconds()
    some, each = np.zeros(len(values), np.float32), np.zeros(len(values), np.float32)
    together(values, len(values), some)
    one_by_one(values, each)
    assert some.tobytes() == each.tobytes()
    assert each.min() == 0.0
    assert each.max() == 1.0


def test_a_rounding_in_doubt_is_decided_by_the_logarithm() -> None:
    """A value between two float32 numbers, as near as float64 can tell, and its neighbours."""
    low = np.float32(0.3)
    middle = (float(low) + float(np.nextafter(low, np.float32(1.0)))) / 2.0
    at = 60.0 * np.expm1(middle * np.log1p(43_200.0))
    values = at * (1.0 + np.arange(-200, 201) * 2.0**-52)
    some, each = np.zeros(len(values), np.float32), np.zeros(len(values), np.float32)
    together(values, len(values), some)
    one_by_one(values, each)
    assert len(set(each.tolist())) == 2
    assert some.tobytes() == each.tobytes()


def test_a_few_times_that_fill_no_whole_vector() -> None:
    for count in range(2 * LANES + 1):
        values = np.arange(count) * 1234.5
        some, each = np.zeros(count, np.float32), np.zeros(count, np.float32)
        together(values, count, some)
        one_by_one(values, each)
        assert some.tobytes() == each.tobytes()
