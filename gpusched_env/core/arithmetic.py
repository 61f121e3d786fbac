"""Make the functions of gpusched_env.portable callable from kernels, under the names that they have in Python."""

from __future__ import annotations

from gpusched_env.core.handle import plain
from gpusched_env.portable import elementary, keys, normal

for _function in (*elementary.FUNCTIONS, *normal.FUNCTIONS, *keys.FUNCTIONS):
    plain(_function)
