"""Times on a logarithmic scale, from 0 s to 30 days."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call log1p
from gpusched_env.core.handle import kernel
from gpusched_env.envs.observation.columns import LONGEST_S
from gpusched_env.portable.elementary import log1p

_LOG_LONGEST: Final = log1p(LONGEST_S / 60.0)
_DOUBT: Final = 1e-13  # relative: far beyond what any machine's logarithm is off by


@kernel
def squash_exactly(minutes: float) -> float:
    """Map [0 s, 30 d] to [0, 1], as a float32, by the portable logarithm."""
    return float(np.float32(min(log1p(minutes) / _LOG_LONGEST, 1.0)))


@kernel
def squash(seconds: float) -> float:
    """Map [0 s, 30 d] to [0, 1], as a float32, by the logarithm.

    The machine's own logarithm is several times faster. Where its last bits could change the float32, one time in a
    million, the portable one decides.
    """
    if seconds <= 0.0:
        return 0.0
    minutes = seconds / 60.0
    if minutes < 0.01:  # of which 1 + minutes loses too much
        return squash_exactly(minutes)
    share = min(math.log(1.0 + minutes) / _LOG_LONGEST, 1.0)  # portable: see above
    least, most = np.float32(share * (1.0 - _DOUBT)), np.float32(min(share * (1.0 + _DOUBT), 1.0))
    return float(least) if least == most else squash_exactly(minutes)
