"""k-way contention: a gang's rate between servers falls with the number of gangs that straddle one of its servers.

SJF-BCO (MobiHoc 2022, section 4.1) and Wang et al. use the same function: with b = 1/B and alpha = eta/b, sharing by k
transfers multiplies the transfer time by f(k) = k + alpha (k-1). The model looks at servers only, not at the links
between them. These functions are the reference for the compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name

Array = np.ndarray[Any, Any]


def straddle_counts(gpus_on: Array) -> Array:
    """int64 [J]: p_j, gangs that straddle the most contended server of gang j, including j; 0 on one server.

    Gang j straddles server s where 0 < gpus_on[j, s] < its size (SJF-BCO, eq. 6).

    Parameters
    ----------
    gpus_on : int [J, S], GPUs of each running gang on each server
    """
    straddles = (gpus_on > 0) & (gpus_on < gpus_on.sum(axis=1, keepdims=True))
    return (straddles * straddles.sum(axis=0)).max(axis=1, initial=0)


# Effective contenders k from the straddle count p >= 1 and xi in (0, 1].
CONTENDERS: Final[dict[str, Callable[[Array, float], Array]]] = {
    "raw": lambda p, xi: xi * p,  # SJF-BCO, eq. 7; below 1 a gang would be faster than alone
    "clamp": lambda p, xi: np.maximum(1.0, xi * p),
    "affine": lambda p, xi: 1.0 + xi * (p - 1.0),
}


def effective_contenders(straddle: Array, mode: str = "clamp", xi: float = 1.0) -> Array:
    """float64 [J]: k of each gang; 1 for a gang on one server.

    Parameters
    ----------
    straddle : int [J], see :func:`straddle_counts`
    mode : a name in CONTENDERS
    xi : share of the straddling gangs that communicate at the same time (xi_1 of SJF-BCO)

    Raises
    ------
    ScenarioError : unknown mode
    """
    if mode not in CONTENDERS:
        raise ScenarioError(f"contention.k_mode: {unknown_name('mode', mode, CONTENDERS)}")
    straddle = np.asarray(straddle)
    return np.where(straddle > 0, CONTENDERS[mode](straddle, xi), 1.0)


def sharing_degradation(contenders: Array | float, alpha: float = 0.2) -> Array | float:
    """f(k) = k + alpha (k-1): transfer time among k contenders / transfer time alone; f(1) = 1."""
    return contenders + alpha * (contenders - 1.0)


def wang_transfer_s(
    wire_bytes: Array | float, contenders: Array | float, latency_s: float, per_byte_s: float, penalty_s: float
) -> Array | float:
    """Seconds of a transfer among k contenders: a + k b M + (k-1) eta M (Wang et al.).

    Parameters
    ----------
    wire_bytes : M, bytes over one edge, 2(N-1)/N of the gradient
    latency_s, per_byte_s, penalty_s : a [s], b = 1/rate [s/byte], eta [s/byte]
    """
    return latency_s + contenders * per_byte_s * wire_bytes + (contenders - 1.0) * penalty_s * wire_bytes


def start_beside(new_bytes: float, remaining_bytes: float, per_byte_s: float, penalty_s: float) -> bool:
    """AdaDUAL: whether a transfer should start beside the only one in flight rather than wait for its end.

    Yes iff M_new < M_rem b / (2 (b + eta)). This minimises the sum of the two finish times. If M_new < M_rem, the sum
    is b M_rem + (3b + 2 eta) M_new when it starts at once, and 2b M_rem + b M_new when it waits.
    """
    return new_bytes < remaining_bytes * per_byte_s / (2.0 * (per_byte_s + penalty_s))
