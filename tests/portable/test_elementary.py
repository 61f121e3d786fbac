"""Elementary functions: errors against exact values, edge cases, and equality in kernels."""

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the functions
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.portable import arrays, elementary
from gpusched_env.portable.elementary import cos, exp, expm1, log, log1p, log2, power, sin
from gpusched_env.portable.normal import normal_quantile

INF, NAN = math.inf, math.nan
COUNT = 2_000


def numbers(low: float, high: float, seed: int, count: int = COUNT) -> list[float]:
    generator = random.Random(seed)
    return [generator.uniform(low, high) for _ in range(count)]


def near(centre: float, seed: int) -> list[float]:
    """Numbers that approach the centre down to its last bits."""
    generator = random.Random(seed)
    return [centre + generator.uniform(-0.5, 0.5) * 10 ** -generator.uniform(0, 17) for _ in range(COUNT)]


def any_size(seed: int) -> list[float]:
    return [10**exponent for exponent in numbers(-300, 300, seed)]


def units_off(function: Callable[..., float], exact: Callable[..., Any], arguments: list[tuple[float, ...]]) -> float:
    """Largest error in units in the last place of the exact value."""
    with mpmath.workprec(200):
        return max(
            float(abs(mpmath.mpf(function(*each)) - value) / math.ulp(float(value)))
            for each in arguments
            if (value := exact(*map(mpmath.mpf, each)))
        )


def singly(values: list[float]) -> list[tuple[float, ...]]:
    return [(value,) for value in values]


@pytest.mark.parametrize(
    ("function", "exact", "arguments", "most"),
    [
        (elementary.exp, mpmath.exp, singly(numbers(-700, 700, 1) + near(0.0, 2)), 0.7),
        (elementary.expm1, mpmath.expm1, singly(numbers(-40, 700, 3) + near(0.0, 4) + numbers(-1, 1, 5)), 1.1),
        (elementary.log, mpmath.log, singly(any_size(6) + near(1.0, 7)), 0.55),
        (elementary.log1p, mpmath.log1p, singly(any_size(8) + near(0.0, 9) + numbers(-0.999, 1, 10)), 0.7),
        (elementary.log2, lambda x: mpmath.log(x, 2), singly(any_size(11) + near(1.0, 12)), 0.55),
        (
            elementary.power,
            mpmath.power,
            list(zip(numbers(0.001, 1_000, 13), numbers(-50, 50, 14), strict=True))
            + list(zip(numbers(0, 1, 15), numbers(0, 8, 16), strict=True)),
            1.1,
        ),
    ],
    ids=["exp", "expm1", "log", "log1p", "log2", "power"],
)
def test_errors_stay_below_the_documented_bounds(function, exact, arguments, most):
    assert units_off(function, exact, arguments) <= most


def test_sine_and_cosine_are_exact_to_2e_16():
    for x in numbers(-20, 20, 17):
        assert abs(elementary.sin(x) - float(mpmath.sin(x))) <= 2.5e-16
        assert abs(elementary.cos(x) - float(mpmath.cos(x))) <= 2.5e-16
    assert [elementary.sin(0.0), elementary.cos(0.0)] == [0.0, 1.0]


def test_normal_quantiles_are_those_of_the_normal_distribution():
    assert normal_quantile(0.5) == 0.0
    for p in [*numbers(0, 1, 18, 60), 1e-30, 2.0**-54, 0.075, 0.925, 1 - 2.0**-53]:
        with mpmath.workprec(300):
            exact = float(mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1))
        assert normal_quantile(p) == pytest.approx(exact, rel=1e-14, abs=1e-15)


@pytest.mark.parametrize(
    ("function", "argument", "value"),
    [
        (elementary.exp, INF, INF), (elementary.exp, -INF, 0.0), (elementary.exp, 710.0, INF),
        (elementary.exp, -746.0, 0.0), (elementary.exp, -745.0, 5e-324), (elementary.exp, 0.0, 1.0),
        (elementary.expm1, INF, INF), (elementary.expm1, -INF, -1.0), (elementary.expm1, 0.0, 0.0),
        (elementary.expm1, elementary.MOST, elementary.exp(elementary.MOST)), (elementary.expm1, 710.0, INF),
        (elementary.exp, elementary.MOST, 1.7976931348622732e308),
        (elementary.log, 0.0, -INF), (elementary.log, INF, INF), (elementary.log, 1.0, 0.0),
        (elementary.log1p, -1.0, -INF), (elementary.log1p, INF, INF), (elementary.log1p, 5e-324, 5e-324),
        (elementary.log2, 0.0, -INF), (elementary.log2, INF, INF),
    ],
)  # fmt: skip
def test_edges(function, argument, value):
    assert function(argument) == value


@pytest.mark.parametrize("function", [elementary.exp, elementary.expm1, elementary.log, elementary.log1p])
def test_undefined_values_are_nan(function):
    assert math.isnan(function(NAN))
    if function in (elementary.log, elementary.log1p):
        assert math.isnan(function(-2.0))


@pytest.mark.parametrize(
    ("base", "exponent", "value"),
    [
        (0.0, 2.0, 0.0), (0.0, -1.0, INF), (0.0, 0.0, 1.0), (NAN, 0.0, 1.0), (1.0, NAN, 1.0), (0.3, 1.0, 0.3),
        (16.0, 0.5, 4.0), (10.0, 3.0, 1000.0), (0.5, INF, 0.0), (2.0, INF, INF), (2.0, -INF, 0.0),
        (INF, -1.0, 0.0), (INF, 0.5, INF), (1e300, 2.0, INF), (1e-300, 2.0, 0.0), (7.5, 0.0, 1.0),
        (2.0, 1024.0, INF), (4.0, 512.0, INF), (2.0, 1023.0, 2.0**1023),
    ],
)  # fmt: skip
def test_edges_of_powers(base, exponent, value):
    assert elementary.power(base, exponent) == value


def test_negative_bases_have_no_power():
    assert math.isnan(elementary.power(-2.0, 0.5))
    assert math.isnan(elementary.power(NAN, 2.0))
    assert math.isnan(elementary.power(INF, NAN))


def test_angles_that_are_too_large_have_no_sine():
    for x in (INF, NAN, 1e9):
        assert math.isnan(elementary.sin(x))
        assert math.isnan(elementary.cos(x))


def test_logarithms_of_powers_of_two_are_whole():
    assert [elementary.log2(2.0**k) for k in range(-1_074, 1_024)] == list(range(-1_074, 1_024))


class Values(Handle):
    values = array(np.float64, "values")
    found = array(np.float64, "values", "functions")


@kernel
def _in_a_kernel(these: Values) -> None:
    for i in range(len(these.values)):
        x = these.values[i]
        these.found[i, 0] = exp(x)
        these.found[i, 1] = expm1(x)
        these.found[i, 2] = log(abs(x))
        these.found[i, 3] = log1p(abs(x))
        these.found[i, 4] = log2(abs(x))
        these.found[i, 5] = sin(x)
        these.found[i, 6] = cos(x)
        these.found[i, 7] = power(abs(x), 1.7)


def test_kernels_and_plain_python_agree_to_the_last_bit():
    edges = [0.0, -0.0, 1.0, -1.0, 709.78, 710.0, -746.0, 1e-320, 1e308, INF, -INF, NAN]
    values = np.array(numbers(-30, 30, 19) + near(0.0, 20) + edges)
    out = np.empty((len(values), 8))
    _in_a_kernel(Values(values=values, found=out))
    plain = [
        (
            elementary.exp(x), elementary.expm1(x), elementary.log(abs(x)), elementary.log1p(abs(x)),
            elementary.log2(abs(x)), elementary.sin(x), elementary.cos(x), elementary.power(abs(x), 1.7),
        )
        for x in values.tolist()
    ]  # fmt: skip
    assert out.tobytes() == np.array(plain).tobytes()


def test_arrays_and_scalars_give_equal_values():
    values = np.array(numbers(0.001, 0.999, 21)).reshape(-1, 2)
    for name in ("exp", "log", "log1p", "log2"):
        function = getattr(elementary, name)
        expected = [[function(x) for x in row] for row in values.tolist()]
        assert (getattr(arrays, name)(values) == expected).all()
        assert (getattr(arrays, name)(values[::2, 1]) == np.array(expected)[::2, 1]).all()  # not contiguous
    assert (arrays.normal_quantile(values) == [[normal_quantile(x) for x in row] for row in values.tolist()]).all()
    assert arrays.exp(1.0).shape == ()
    assert arrays.exp([]).shape == (0,)
    assert arrays.power(2.0, np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[2.0, 4.0], [8.0, 16.0]]
