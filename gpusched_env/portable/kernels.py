"""Kernels that apply an elementary function to every element of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the functions
from gpusched_env.core.handle import Handle, array, helper, kernel
from gpusched_env.portable.elementary import exp, log, log1p, log2, power
from gpusched_env.portable.normal import normal_quantile


class Numbers(Handle):
    """The numbers that a kernel reads, the exponents (for :func:`power_each` only), and the results."""

    given = array(np.float64, "numbers")
    exponents = array(np.float64, "exponents")
    found = array(np.float64, "numbers")


@kernel
def exp_each(these: Numbers) -> None:
    """Write e to the power of each value."""
    for i in range(len(these.given)):
        these.found[i] = exp(these.given[i])


@kernel
def log_each(these: Numbers) -> None:
    """Write the natural logarithm of each value."""
    for i in range(len(these.given)):
        these.found[i] = log(these.given[i])


@kernel
def log1p_each(these: Numbers) -> None:
    """Write ln(1 + value) for each value."""
    for i in range(len(these.given)):
        these.found[i] = log1p(these.given[i])


@kernel
def log2_each(these: Numbers) -> None:
    """Write the logarithm to base 2 of each value."""
    for i in range(len(these.given)):
        these.found[i] = log2(these.given[i])


@kernel
def normal_quantile_each(these: Numbers) -> None:
    """Write the quantile of the standard normal distribution for each value."""
    for i in range(len(these.given)):
        these.found[i] = normal_quantile(these.given[i])


@kernel
def power_each(these: Numbers) -> None:
    """Write each base to the power of its exponent."""
    for i in range(len(these.given)):
        these.found[i] = power(these.given[i], these.exponents[i])


class Points(Handle):
    """Points of a piecewise linear function, arguments and results."""

    known = array(np.float64, "points")  # ascending
    at_known = array(np.float64, "points")
    given = array(np.float64, "numbers")
    found = array(np.float64, "numbers")


@helper
def interpolated_at(known: Any, at_known: Any, begin: int, end: int, value: float) -> float:
    """Interpolate linearly between the points from ``begin`` to before ``end``; constant beyond them."""
    if value != value:
        return value  # NaN
    x = max(value, known[begin])
    if x >= known[end - 1]:
        return at_known[end - 1]
    if value < known[begin]:
        return at_known[begin]
    left, right = begin, end - 1
    while right - left > 1:  # known[left] <= x < known[right]
        middle = (left + right) // 2
        if x < known[middle]:
            right = middle
        else:
            left = middle
    width = known[right] - known[left]
    return (at_known[right] - at_known[left]) / width * (x - known[left]) + at_known[left]


@kernel
def interpolate_each(these: Points) -> None:
    """Write the interpolated values."""
    for i in range(len(these.given)):
        these.found[i] = interpolated_at(these.known, these.at_known, 0, len(these.known), these.given[i])
