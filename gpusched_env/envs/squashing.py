"""Times on a logarithmic scale, many at once: float32 equal, bit for bit, to what ``log1p`` gives.

A logarithm takes 10 ns, and an observation shows up to two hundred. Here several are taken at a time, by a polynomial
that compilers turn into vector instructions, to a few units in the last of 53 bits; rounded to the 24 bits of a float32
that is almost always the same. Where it might not be, in about one of a million, ``log1p`` decides.
"""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gpusched_env.envs.columns import LONGEST_S
from gpusched_env.portable.elementary import log1p
from gpusched_env.simulator.jit import helper, int64

Array = np.ndarray[Any, Any]

_LOG_LONGEST: Final = log1p(LONGEST_S / 60.0)
_TO_MINUTES: Final = 1.0 / 60.0
_TO_SHARE: Final = 1.0 / _LOG_LONGEST
_BEYOND: Final = 1e6  # minutes; more than LONGEST_S, and finite
_DOUBT: Final = 1e-13  # relative: larger than all errors of what follows together, about 1e-15
# ln(1 + f) by s = f / (2 + f): f - (f^2/2 - s (f^2/2 + R(s^2))), and ln 2 in two parts (FreeBSD msun, e_log.c)
_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_R: Final = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860510658591e-01,
)  # fmt: skip
_ROOT_HALF: Final = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2), where the range of f begins
_SMALL: Final = 1.5  # below it what 1 + y rounds away counts
LANES: Final = 8  # numbers that are taken together


@helper
def squash(seconds: float) -> float:
    """Map [0 s, 30 d] to [0, 1] by the logarithm."""
    return min(log1p(max(seconds, 0.0) / 60.0) / _LOG_LONGEST, 1.0)


def _read_as(given: Any, wanted: Any, form: Any) -> Any:
    """Make the function that reads the bits of a number as those of another."""

    def read(_: Any, number: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], form)

        return wanted(given), lower

    return intrinsic(read)


_bits: Final[Any] = _read_as(types.float64, types.int64, ir.IntType(64))
_number: Final[Any] = _read_as(types.int64, types.float64, ir.DoubleType())


@helper
def _squash_each(seconds: Array, count: int, out: Array) -> None:
    """Write float32 of :func:`squash`, one after the other."""
    for i in range(count):
        out[i] = squash(seconds[i])


@helper
def _squash_lanes(seconds: Array, first: int, out: Array) -> int:
    """Write LANES of them, and return how many may be wrong in their last bit."""
    doubtful = int64(0)
    for i in range(first, first + LANES):
        minutes = min(max(seconds[i], 0.0) * _TO_MINUTES, _BEYOND)
        above = 1.0 + minutes
        lost = minutes - (above - 1.0) if above < _SMALL else 0.0
        bits = _bits(above)
        power = (bits - _ROOT_HALF) >> 52
        f = _number(bits - (power << 52)) - 1.0
        s = f / (2.0 + f)
        z = s * s
        rest = z * (_R[0] + z * (_R[1] + z * (_R[2] + z * (_R[3] + z * (_R[4] + z * (_R[5] + z * _R[6]))))))
        half = 0.5 * f * f
        twos = float(power)
        logarithm = twos * _LN2_HIGH - ((half - (s * (half + rest) + (twos * _LN2_LOW + lost))) - f)
        share = min(logarithm * _TO_SHARE, 1.0)
        low = np.float32(share * (1.0 - _DOUBT))
        high = np.float32(share * (1.0 + _DOUBT))
        out[i] = low
        doubtful += 1 if low != high else 0
    return doubtful


@helper
def _squash_together(seconds: Array, count: int, out: Array) -> None:
    """Write the same, LANES at a time: the arrays have room for so many more."""
    doubtful = int64(0)
    for i in range(LANES):
        seconds[count + i] = 0.0
    for first in range(0, count, LANES):
        doubtful += _squash_lanes(seconds, first, out)
    if doubtful > 0:
        _squash_each(seconds, count, out)


squash_all: Final = _squash_each if numba.config.DISABLE_JIT else _squash_together  # type: ignore[attr-defined]
