"""Times on a logarithmic scale, from 0 s to 30 days."""

from __future__ import annotations

from typing import Final

from gpusched_env.core import arithmetic as arithmetic  # kernels may call log1p
from gpusched_env.core.handle import kernel
from gpusched_env.envs.columns import LONGEST_S
from gpusched_env.portable.elementary import log1p

_LOG_LONGEST: Final = log1p(LONGEST_S / 60.0)


@kernel
def squash(seconds: float) -> float:
    """Map [0 s, 30 d] to [0, 1] by the logarithm."""
    return min(log1p(max(seconds, 0.0) / 60.0) / _LOG_LONGEST, 1.0)
