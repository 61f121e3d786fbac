"""The Gittins index of a job of unknown size, from an empirical distribution of job sizes."""

from __future__ import annotations

import numpy as np

from gpusched_env.portable.elementary import exp
from gpusched_env.portable.normal import normal_quantile


def gittins_index(sample: np.ndarray, attained: np.ndarray, quantum: np.ndarray | float) -> np.ndarray:
    """float64 [n]: Gittins index of each job; the job with the largest index is served first.

    The index is P(S - a <= D | S > a) / E[min(S - a, D) | S > a] for a job size S, attained service a and quantum D.

    Parameters
    ----------
    sample : float64 [m], ascending, sizes of past jobs [GPU s], which are the distribution of S
    attained : float64 [n], attained service a of each job [GPU s]
    quantum : D [GPU s]; inf = max(sample) - a

    Notes
    -----
    The index of a job whose attained service exceeds the largest size in ``sample`` is 0.

    References
    ----------
    J. Gu et al., "Tiresias", NSDI 2019, section 3.2.2 (2D-Gittins).
    """
    total = np.concatenate([[0.0], np.cumsum(sample)])
    begin = np.searchsorted(sample, attained, side="right")
    reached = attained + quantum  # inf stays inf, because a + (max(sample) - a) may be rounded below max(sample)
    end = np.searchsorted(sample, reached, side="right")
    beyond = len(sample) - end
    beyond_s = np.multiply(beyond, quantum, out=np.zeros(len(attained)), where=beyond > 0)
    spent = total[end] - total[begin] - (end - begin) * attained + beyond_s
    return np.divide(end - begin, spent, out=np.zeros(len(attained)), where=spent > 0)


def published_sizes() -> np.ndarray:
    """float64 [500]: sizes of past jobs [GPU s], ascending, distributed like those that Tiresias' authors published.

    The sizes are quantiles of a log-normal distribution (mu 8.15, sigma 2.12). It was fitted to the GPU times of the
    10,000 jobs in the file simulator/yarn-gput10000.csv of the repository SymbioticLab/Tiresias.
    """
    return np.array([exp(8.15 + 2.12 * normal_quantile((i + 0.5) / 500)) for i in range(500)])
