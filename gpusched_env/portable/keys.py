"""Sort keys of policies, rounded to 30 bits, about a billionth of their size, so that a rule decides near ties.

A quotient such as 1.0000000000000002 must not differ from 1 in the order because of how it was computed. Each policy
names the rule for equal keys; if it names none, the lower row wins: earlier arrival, then the scenario's tie order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

SPREAD: Final = 2.0**23 + 1.0  # leaves 30 of 53 bits: about 1e-9 of the number
LARGEST: Final = 1e300  # below it the product with SPREAD is finite


def rounded_key(key: float) -> float:
    """Round a key to 30 significant bits; one of 1e300 or more stays as it is."""
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
