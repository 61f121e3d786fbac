"""Sort keys of policies, rounded to 30 significant bits (a relative precision of about 1e-9).

Rounding makes nearly equal keys equal. For example, a quotient of 1.0000000000000002 that differs from 1 only by
rounding errors must not change the order. Each policy defines the order of jobs with equal keys; if it does not, the
lower row comes first, which is the tie order of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

SPREAD: Final = 2.0**23 + 1.0  # leaves 30 of 53 bits: about 1e-9 of the number
LARGEST: Final = 1e300  # below it the product with SPREAD is finite


def rounded_key(key: float) -> float:
    """Round a key to 30 significant bits; a key of 1e300 or more is returned unchanged."""
    if not abs(key) < LARGEST:
        return key
    spread = SPREAD * key
    return spread - (spread - key)


def rounded_keys(keys: np.ndarray) -> np.ndarray:
    """float64: keys rounded as :func:`rounded_key` does."""
    rounds = np.abs(keys) < LARGEST
    spread = SPREAD * np.where(rounds, keys, 0.0)
    return np.where(rounds, spread - (spread - keys), keys)


FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (rounded_key,)  # as those of elementary.py
