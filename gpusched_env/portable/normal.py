"""The quantile of the normal distribution, the same bits on every machine; it turns uniform into normal numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from gpusched_env.portable.elementary import log

# M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37, 1988
# (PPND16): coefficients of numerators and denominators, highest power first; the last of a denominator is 1.
MIDDLE: Final = 0.425  # largest |p - 1/2| of the middle range
SQUARE: Final = 0.180625  # MIDDLE^2
MIDDLE_ABOVE: Final = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
MIDDLE_BELOW: Final = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
)  # fmt: skip
TAIL: Final = 5.0  # largest sqrt(-ln p) of the tail, from which ``TAIL_SHIFT`` is subtracted
TAIL_SHIFT: Final = 1.6
TAIL_ABOVE: Final = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
TAIL_BELOW: Final = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip
FAR_ABOVE: Final = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
FAR_BELOW: Final = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip


def _quotient(above: tuple[float, ...], below: tuple[float, ...], r: float) -> float:
    """Return the quotient of two polynomials at r."""
    numerator = denominator = 0.0
    for i in range(len(above)):
        numerator = numerator * r + above[i]
        denominator = denominator * r + below[i]
    return numerator / denominator


def normal_quantile(p: float) -> float:
    """Return the quantile of the standard normal distribution for 0 < p < 1; error about 1e-16."""
    q = p - 0.5
    if abs(q) <= MIDDLE:
        return q * _quotient(MIDDLE_ABOVE, MIDDLE_BELOW, SQUARE - q * q)
    r = math.sqrt(-log(min(p, 1.0 - p)))
    if r <= TAIL:
        value = _quotient(TAIL_ABOVE, TAIL_BELOW, r - TAIL_SHIFT)
    else:
        value = _quotient(FAR_ABOVE, FAR_BELOW, r - TAIL)
    return -value if q < 0.0 else value


FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (_quotient, normal_quantile)  # as those of elementary.py
