"""Random numbers with the same bits on every machine, computed from the uniform random numbers of numpy.

The methods ``random``, ``integers``, ``permutation`` and ``choice`` of a numpy generator have the same bits on every
machine. Other methods do not: exponential and normal random numbers take logarithms from the C library, and in
``uniform`` the compiler may fuse a product and a sum.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.portable import arrays

Array = np.ndarray[Any, np.dtype[np.float64]]

LEAST_UNIFORM: Final = 2.0**-54  # replaces 0, whose normal quantile is infinite
# Increment and multipliers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def uniform(rng: np.random.Generator, low: Any, high: Any, size: int | tuple[int, ...] | None = None) -> Any:
    """Draw uniform random numbers between ``low`` and ``high``: float64 [size], or one number if ``size`` is None."""
    shape = np.broadcast(low, high).shape if size is None else size
    return low + (np.asarray(high) - low) * rng.random(None if shape == () else shape)


def of_seeds(seeds: np.ndarray, count: int) -> Array:
    """float64 [len(seeds), count]: the first ``count`` uniform random numbers of each seed, by SplitMix64.

    No generator is made, so this is fast for one seed and for thousands.

    Parameters
    ----------
    seeds : int64 [n], not negative
    count : numbers for each seed
    """
    steps = np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
    mixed = np.asarray(seeds).astype(np.uint64)[:, None] + steps
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    uniforms: Array = (mixed >> np.uint64(11)) * 2.0**-53
    return uniforms


def exponential(rng: np.random.Generator, count: int) -> Array:
    """float64 [count]: exponential random numbers of mean 1, by inversion."""
    return -arrays.log1p(-rng.random(count))


def normal(rng: np.random.Generator, count: int) -> Array:
    """float64 [count]: standard normal random numbers, by inversion."""
    return arrays.normal_quantile(np.maximum(rng.random(count), LEAST_UNIFORM))
