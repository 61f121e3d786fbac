"""Loops that apply an elementary function to every number of an array, compiled when first called."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.portable.elementary import exp, log, log1p, log2, power
from gpusched_env.portable.normal import normal_quantile
from gpusched_env.simulator.jit import kernel

Array = np.ndarray[Any, Any]


@kernel
def exp_each(values: Array, out: Array) -> None:
    """Write e to the power of each value."""
    for i in range(len(values)):
        out[i] = exp(values[i])


@kernel
def log_each(values: Array, out: Array) -> None:
    """Write the natural logarithms."""
    for i in range(len(values)):
        out[i] = log(values[i])


@kernel
def log1p_each(values: Array, out: Array) -> None:
    """Write the logarithms of 1 + value."""
    for i in range(len(values)):
        out[i] = log1p(values[i])


@kernel
def log2_each(values: Array, out: Array) -> None:
    """Write the logarithms to base 2."""
    for i in range(len(values)):
        out[i] = log2(values[i])


@kernel
def normal_quantile_each(values: Array, out: Array) -> None:
    """Write the normal quantiles."""
    for i in range(len(values)):
        out[i] = normal_quantile(values[i])


@kernel
def power_each(bases: Array, exponents: Array, out: Array) -> None:
    """Write each base to the power of its exponent."""
    for i in range(len(bases)):
        out[i] = power(bases[i], exponents[i])
