"""Times on a logarithmic scale, from 0 s to 30 days."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call log1p
from gpusched_env.core.handle import kernel
from gpusched_env.envs.observation.column import LONGEST_S
from gpusched_env.portable.elementary import log1p

_LOG_LONGEST: Final = log1p(LONGEST_S / 60.0)
_DOUBT: Final = 1e-13  # relative error bound, far above the error of any C library's logarithm


@kernel
def scaled_time_exactly(minutes: float) -> float:
    """Map [0 s, 30 d] to [0, 1] logarithmically, as a float32, by the portable logarithm."""
    return float(np.float32(min(log1p(minutes) / _LOG_LONGEST, 1.0)))


@kernel
def scaled_time(seconds: float) -> float:
    """Map [0 s, 30 d] to [0, 1] logarithmically, as a float32.

    The C library's logarithm is several times faster than the portable one. Where its last bits could change the
    float32, about once in a million calls, the portable logarithm decides.
    """
    if seconds <= 0.0:
        return 0.0
    minutes = seconds / 60.0
    if minutes < 0.01:  # 1 + minutes would lose too many digits
        return scaled_time_exactly(minutes)
    share = min(math.log(1.0 + minutes) / _LOG_LONGEST, 1.0)  # the portable logarithm corrects this below
    least, most = np.float32(share * (1.0 - _DOUBT)), np.float32(min(share * (1.0 + _DOUBT), 1.0))
    return float(least) if least == most else scaled_time_exactly(minutes)
