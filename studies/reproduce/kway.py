"""k-way contention: a gang's rate between servers falls with the number of gangs that straddle one of its servers.

SJF-BCO (MobiHoc 2022, section 4.1) and Wang et al. use the same function f(k) = k + alpha (k-1): if k transfers share a
link, each takes f(k) times as long as alone. In the symbols of Wang et al., b = 1/B and alpha = eta/b. The model counts
gangs per server and ignores the links between servers. The package has it as kernels, in core/network/models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


def straddle_counts(gpus_on: Array) -> Array:
    """Return p_j, the number of gangs that straddle the most contended server of gang j; int64 [J].

    Gang j straddles server s if some, but not all, of its GPUs are on s: 0 < gpus_on[j, s] < size of gang j (SJF-BCO,
    eq. 6). p_j includes gang j itself, and is 0 for a gang on one server.
    """
    straddles = (gpus_on > 0) & (gpus_on < gpus_on.sum(axis=1, keepdims=True))
    return (straddles * straddles.sum(axis=0)).max(axis=1, initial=0)


# Mode -> function that computes the effective contenders k from the straddle count p >= 1 and xi in (0, 1].
CONTENDERS: Final[dict[str, Callable[[Array, float], Array]]] = {
    "raw": lambda p, xi: xi * p,  # SJF-BCO, eq. 7; if k is below 1, a gang is faster than alone
    "clamp": lambda p, xi: np.maximum(1.0, xi * p),
    "affine": lambda p, xi: 1.0 + xi * (p - 1.0),
}


def effective_contenders(straddle: Array, mode: str = "clamp", xi: float = 1.0) -> Array:
    """Return the number k of effective contenders of each gang; float64 [J]. It is 1 for a gang on one server."""
    straddle = np.asarray(straddle)
    return np.where(straddle > 0, CONTENDERS[mode](straddle, xi), 1.0)
