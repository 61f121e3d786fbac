"""Elementary functions with the same bits on every machine.

The functions use only ``+ - * /`` and exact splits (``frexp``, ``ldexp``). They raise no errors; a number outside the
domain gives NaN.

``tests/portable/test_elementary.py`` compares the functions with exact values. The largest errors are:

- ``log`` and ``log2``: 0.55 units in the last place;
- ``exp`` and ``log1p``: 0.7 units in the last place;
- ``expm1`` and ``power``: 1.1 units in the last place;
- ``sin`` and ``cos``: 2e-16.

The reduction to a small range and the polynomials of ``exp``, ``log``, ``sin`` and ``cos`` are those documented in
FreeBSD's msun (``e_exp.c``, ``e_log.c``, ``k_sin.c``, ``k_cos.c``; from Sun's fdlibm). Logarithms carry their rounding
error in a second double, so that ``power`` is accurate. ``core/arithmetic.py`` makes FUNCTIONS callable from kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

LN2_HIGH: Final = 6.93147180369123816490e-01  # its last 21 bits are 0: products with an exponent are exact
LN2_LOW: Final = 1.90821492927058770002e-10
PER_LN2: Final = 1.44269504088896338700  # 1 / ln 2
PER_LN2_LOW: Final = 2.03552737409310331e-17  # the rounding error of PER_LN2
MOST: Final = 709.782712893383973096  # exp of more overflows
LEAST: Final = -745.133219101941108420  # exp of less is 0
ROOT_HALF: Final = 0.70710678118654752440
SPLITTER: Final = 134217729.0  # 2^27 + 1 splits a double into halves of 26 bits (Veltkamp)
PER_HALF_PI: Final = 6.36619772367581382433e-01  # 2 / pi
HALF_PI_HIGH: Final = 1.57079632673412561417e00  # its last 20 bits are 0
HALF_PI_LOW: Final = 6.07710050650619224932e-11
FAR: Final = 1e3


def _product_error(a: float, b: float, product: float) -> float:
    """Return a b - ``product``, the rounding error of the product (Dekker, 1971)."""
    a_high = SPLITTER * a - (SPLITTER * a - a)
    b_high = SPLITTER * b - (SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _log_parts(mantissa: float) -> tuple[float, float]:
    """Return the logarithm of a number from sqrt(1/2) to sqrt(2), as a double and its rounding error."""
    f = mantissa - 1.0
    below = 2.0 + f
    s = f / below
    product = s * below
    s_low = (((f - product) - _product_error(s, below, product)) - s * (f - (below - 2.0))) / below
    z = s * s
    # ln(1 + f) = 2 s + s R(s^2), s = f / (2 + f)
    r = 1.531383769920937332e-01 + z * 1.479819860510658591e-01
    r = 2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * r)
    r = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * r)))
    return 2.0 * s, 2.0 * s_low + s * r


def _split(x: float) -> tuple[float, int]:
    """Split a positive number into a mantissa from sqrt(1/2) to sqrt(2) and an exponent of 2."""
    mantissa, power = math.frexp(x)
    if mantissa < ROOT_HALF:
        return 2.0 * mantissa, power - 1
    return mantissa, power


def _log(x: float) -> tuple[float, float]:
    """Return the logarithm of a positive number, as a double and its rounding error."""
    mantissa, power = _split(x)
    high, low = _log_parts(mantissa)
    twos = power * LN2_HIGH
    total = twos + high
    low += (high - (total - twos)) + power * LN2_LOW
    rounded = total + low
    return rounded, low - (rounded - total)


def _exp(x: float, more: float) -> tuple[float, float, int]:
    """Return exp(x + more) as (high + low) 2^power, where ``more`` is at most a rounding error of x."""
    power = math.floor(x * PER_LN2 + 0.5)
    high = x - power * LN2_HIGH
    low = power * LN2_LOW - more
    r = high - low
    t = r * r
    c = 6.61375632143793436117e-05 + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08)
    c = r - t * (1.66666666666666019037e-01 + t * (-2.77777777770155933842e-03 + t * c))
    above = 1.0 + high
    return above, (high - (above - 1.0)) - (low - r * c / (2.0 - c)), int(power)


def _scaled(mantissa: float, power: int) -> float:
    """Return mantissa x 2^power; inf if the product is too large (``math.ldexp`` would raise an error)."""
    if power > 1_000:
        return math.ldexp(mantissa, power - 100) * 2.0**100
    return math.ldexp(mantissa, power)


def exp(x: float) -> float:
    """Return e to the power of x."""
    if not x <= MOST:
        return x * math.inf  # inf, or NaN
    if x < LEAST:
        return 0.0
    high, low, power = _exp(x, 0.0)
    return _scaled(high + low, power)


def expm1(x: float) -> float:
    """Return exp(x) - 1, accurate for small x as well."""
    if x < -40.0:
        return -1.0
    if not x < 100.0:
        return exp(x)  # 1 is less than the rounding error of exp(x)
    if abs(x) < 1e-9:
        return x + 0.5 * x * x
    high, low, power = _exp(x, 0.0)
    return (math.ldexp(high, power) - 1.0) + math.ldexp(low, power)


def log(x: float) -> float:
    """Return the natural logarithm; -inf for 0."""
    if x == 0.0:
        return -math.inf
    if not 0.0 < x < math.inf:
        return x if x > 0.0 else math.nan
    return _log(x)[0]


def log1p(x: float) -> float:
    """Return ln(1 + x), accurate for small x as well; -inf for -1."""
    if x == -1.0:
        return -math.inf
    if not -1.0 < x < math.inf:
        return x if x > 0.0 else math.nan
    total = 1.0 + x
    back = total - 1.0
    lost = (1.0 - (total - back)) + (x - back)
    high, low = _log(total)
    return high + (low + lost / total)


def log2(x: float) -> float:
    """Return the logarithm to base 2, exact for powers of two; -inf for 0."""
    if x == 0.0:
        return -math.inf
    if not 0.0 < x < math.inf:
        return x if x > 0.0 else math.nan
    mantissa, power = _split(x)
    high, low = _log_parts(mantissa)
    share = high * PER_LN2
    rest = _product_error(high, PER_LN2, share) + high * PER_LN2_LOW + low * PER_LN2
    total = power + share
    return total + ((share - (total - power)) + rest)


def power(x: float, y: float) -> float:
    """Return x to the power of y for x >= 0; x to the power of 1 is x, and anything to the power of 0 is 1."""
    if y == 0.0 or x == 1.0:
        return 1.0
    if y == 1.0:
        return x
    if math.isnan(y):
        return math.nan
    if not x > 0.0:
        if x == 0.0:
            return 0.0 if y > 0.0 else y * -math.inf  # inf, or NaN
        return math.nan
    if x == math.inf or abs(y) == math.inf:
        return math.inf if (x > 1.0) == (y > 0.0) else 0.0
    high, low = _log(x)
    product = y * high
    if not product <= MOST:
        return product * math.inf
    if product < LEAST:
        return 0.0
    above, below, twos = _exp(product, _product_error(y, high, product) + y * low)
    return _scaled(above + below, twos)


def _sine(r: float) -> float:
    """Return the sine of an angle of at most pi / 4."""
    z = r * r
    p = 2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
    p = -1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * p))
    return r + r * z * p


def _cosine(r: float) -> float:
    """Return the cosine of an angle of at most pi / 4."""
    z = r * r
    p = -2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
    p = 4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * (2.48015872894767294178e-05 + z * p))
    return 1.0 - (0.5 * z - z * z * p)


def _turned(x: float, quarters: int) -> float:
    """Return the sine of x + quarters x pi / 2; NaN beyond FAR."""
    if not abs(x) <= FAR:
        return math.nan
    nearest = math.floor(x * PER_HALF_PI + 0.5)
    r = (x - nearest * HALF_PI_HIGH) - nearest * HALF_PI_LOW
    quarter = (nearest + quarters) % 4
    value = _cosine(r) if quarter % 2 else _sine(r)
    return -value if quarter >= 2 else value


def sin(x: float) -> float:
    """Return the sine of an angle in radians; NaN beyond FAR, where the reduction is not exact."""
    return _turned(x, 0)


def cos(x: float) -> float:
    """Return the cosine of an angle in radians; NaN beyond FAR, where the reduction is not exact."""
    return _turned(x, 1)


# The functions that kernels may call, and the functions that these call.
FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    _product_error, _log_parts, _split, _log, _exp, _scaled, exp, expm1, log, log1p, log2, power, _sine, _cosine,
    _turned, sin, cos,
)  # fmt: skip
