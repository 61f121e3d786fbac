"""Elementary functions, sums and keys that kernels call by the names by which Python does."""

from __future__ import annotations

from gpusched_env.core.handle import plain
from gpusched_env.portable import elementary, keys, normal

for _function in (*elementary.FUNCTIONS, *normal.FUNCTIONS, *keys.FUNCTIONS):
    plain(_function)
