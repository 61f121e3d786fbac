"""What policies order by: keys that differ by less than a billionth of themselves are equal, and a rule decides.

A quotient such as 1.0000000000000002 must not come before 1 because of how it was computed. The rule for equal keys is
the one that each policy names; where it names none, the earlier row wins: arrival, then the scenario's tie order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

SPREAD: Final = 2.0**23 + 1.0  # leaves 30 of 53 bits: about 1e-9 of the number

Key = TypeVar("Key", float, np.ndarray)


def rounded_key(key: Key) -> Key:
    """Round a key, or an array of them, to 30 significant bits; infinite ones are for :func:`rounded_keys`."""
    spread = SPREAD * key
    return spread - (spread - key)


def rounded_keys(keys: np.ndarray) -> np.ndarray:
    """float64: keys rounded to 30 significant bits; infinities stay."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(keys), rounded_key(keys), keys)


FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (rounded_key,)  # as those of elementary.py
