"""How long a synchronous step of a gang takes, which waits for its slowest worker; the same bits on every machine."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.core import arithmetic  # noqa: F401 - kernels may call the functions
from gpusched_env.core.handle import Handle, array, helper, kernel
from gpusched_env.portable.elementary import exp
from gpusched_env.portable.normal import normal_cdf

FAR: Final = 8.5  # standard deviations from which on a normal distribution is 0 or 1 to the last bit
NODES_EACH: Final = 6  # nodes of the quadrature for each standard deviation


class Gangs(Handle):
    """Gangs, their workers one after the other, and the results."""

    gang = array(np.int64, "gangs")  # number of its workers
    logs = array(np.float64, "workers")  # logarithm of the factor of each worker
    step = array(np.float64, "gangs")  # log-sigma of the factors of its steps
    found = array(np.float64, "gangs")


@helper
def _all_below(logs: Any, first: int, end: int, top: float, step: float, u: float) -> float:
    """Return the probability that no worker is slower than ``u`` standard deviations above the factor ``top``."""
    product = 1.0
    for i in range(first, end):
        z = u + (top - logs[i]) / step
        if z < FAR:
            product *= normal_cdf(z)
    return product


@kernel
def slowest_each(these: Gangs) -> None:
    """Write for each gang E[max over its workers of factor x S]; S are lognormal, of mean 1.

    With the largest factor w, Z standard normal and G the distribution of (log of the maximum - log w) / step, the
    expectation is w + w step exp(-step^2 / 2) x integral of exp(step u) (P(Z <= u) - G(u)) du. The integrand vanishes
    quickly on both sides, so the trapezoidal rule converges exponentially.
    """
    first = 0
    for row in range(len(these.gang)):
        end = first + these.gang[row]
        top, step = these.logs[first], these.step[row]
        for i in range(first, end):
            top = max(top, these.logs[i])
        total = 0.0
        if step > 0.0 and end - first > 1:
            for k in range(-int(FAR * NODES_EACH), int(FAR * NODES_EACH) + 1):
                u = k / NODES_EACH
                total += exp(step * u) * (normal_cdf(u) - _all_below(these.logs, first, end, top, step, u))
        these.found[row] = exp(top) * (1.0 + step * exp(-0.5 * step * step) * total / NODES_EACH)
        first = end
