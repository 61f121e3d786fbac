"""Elementary functions over arrays, sums and interpolation: the same bits on every machine.

The element-wise products, quotients and comparisons of numpy have the same bits on every machine. The following
functions of numpy do not; they are replaced here or avoided:

- exp, log and power;
- ``@`` and ``dot``, which call BLAS;
- ``interp``, in which compilers may fuse a product and a sum;
- ``argsort`` without ``kind="stable"``.

The functions of this module import the compiled loops when they are called, because the compiler is slow to import.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray[Any, np.dtype[np.float64]]
_NONE: Final = np.empty(0)


def exp(values: ArrayLike) -> Array:
    """float64: e to the power of each value."""
    from gpusched_env.portable import kernels

    return _each(kernels.exp_each, values)


def log(values: ArrayLike) -> Array:
    """float64: natural logarithm of each value; -inf for 0, NaN for negative values."""
    from gpusched_env.portable import kernels

    return _each(kernels.log_each, values)


def log1p(values: ArrayLike) -> Array:
    """float64: ln(1 + value)."""
    from gpusched_env.portable import kernels

    return _each(kernels.log1p_each, values)


def log2(values: ArrayLike) -> Array:
    """float64: logarithm to base 2, exact for powers of two."""
    from gpusched_env.portable import kernels

    return _each(kernels.log2_each, values)


def normal_quantile(values: ArrayLike) -> Array:
    """float64: quantile of the standard normal distribution for each probability, 0 < value < 1."""
    from gpusched_env.portable import kernels

    return _each(kernels.normal_quantile_each, values)


def power(base: ArrayLike, exponent: ArrayLike) -> Array:
    """float64: each base >= 0 to the power of its exponent; ``base`` and ``exponent`` are broadcast."""
    from gpusched_env.portable import kernels

    bases, exponents = np.broadcast_arrays(np.asarray(base, np.float64), np.asarray(exponent, np.float64))
    found = np.empty(bases.shape)
    kernels.power_each(kernels.Numbers(given=bases.ravel(), exponents=exponents.ravel(), found=found.reshape(-1)))
    return found


def total(values: ArrayLike) -> float:
    """Return the sum of all values, correctly rounded and therefore independent of their order."""
    return math.fsum(np.asarray(values, np.float64).ravel().tolist())


def mean(values: ArrayLike) -> float:
    """Return the mean of all values, computed from their :func:`total`; NaN if there are no values."""
    array = np.asarray(values)
    return total(array) / array.size if array.size else math.nan


def interpolated(values: ArrayLike, known: np.ndarray, at_known: np.ndarray) -> Array:
    """float64: linear interpolation of finite ``at_known`` at ascending points ``known``; constant beyond them."""
    from gpusched_env.portable import kernels

    given = np.asarray(values, np.float64)
    found = np.empty(given.shape)
    points = kernels.Points(
        known=np.ascontiguousarray(known, np.float64),
        at_known=np.ascontiguousarray(at_known, np.float64),
        given=given.ravel(),
        found=found.reshape(-1),
    )
    kernels.interpolate_each(points)
    return found


def _each(kernel: Callable[[Any], None], values: ArrayLike) -> Array:
    from gpusched_env.portable.kernels import Numbers

    given = np.asarray(values, np.float64)
    found = np.empty(given.shape)
    kernel(Numbers(given=given.ravel(), exponents=_NONE, found=found.reshape(-1)))
    return found
