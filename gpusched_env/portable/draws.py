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


def uniform(rng: np.random.Generator, low: Any, high: Any, size: int | tuple[int, ...] | None = None) -> Any:
    """Draw uniform random numbers between ``low`` and ``high``: float64 [size], or one number if ``size`` is None."""
    shape = np.broadcast(low, high).shape if size is None else size
    return low + (np.asarray(high) - low) * rng.random(None if shape == () else shape)


def exponential(rng: np.random.Generator, count: int) -> Array:
    """float64 [count]: exponential random numbers of mean 1, by inversion."""
    return -arrays.log1p(-rng.random(count))


def normal(rng: np.random.Generator, count: int) -> Array:
    """float64 [count]: standard normal random numbers, by inversion."""
    return arrays.normal_quantile(np.maximum(rng.random(count), LEAST_UNIFORM))
