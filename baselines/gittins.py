"""The Gittins index of a job of unknown size, from an empirical distribution of job sizes."""

from __future__ import annotations

import numpy as np

from gpusched_env.portable.elementary import exp
from gpusched_env.portable.normal import normal_quantile


def gittins_index(sample: np.ndarray, attained: np.ndarray, quantum: np.ndarray | float) -> np.ndarray:
    """float64 [n]: P(S - a <= D | S > a) / E[min(S - a, D) | S > a]; the job with the largest index is served first.

    Parameters
    ----------
    sample : float64 [s], sizes of past jobs, ascending [GPU s]
    attained : float64 [n], attained service a of each job [GPU s]
    quantum : D [GPU s]; inf means max(sample) - a

    Notes
    -----
    A job that has attained more than the largest size in the sample has index 0.

    References
    ----------
    J. Gu et al., "Tiresias", NSDI 2019, section 3.2.2 (2D-Gittins).
    """
    total = np.concatenate([[0.0], np.cumsum(sample)])
    begin = np.searchsorted(sample, attained, side="right")
    reached = attained + quantum  # inf stays inf: a + (max(sample) - a) may round below max(sample)
    end = np.searchsorted(sample, reached, side="right")
    beyond = len(sample) - end
    beyond_s = np.multiply(beyond, quantum, out=np.zeros(len(attained)), where=beyond > 0)
    spent = total[end] - total[begin] - (end - begin) * attained + beyond_s
    return np.divide(end - begin, spent, out=np.zeros(len(attained)), where=spent > 0)


def published_sizes() -> np.ndarray:
    """float64 [500]: sizes of past jobs [GPU s], ascending, distributed like those that Tiresias' authors published.

    They are quantiles of the log-normal distribution (mu 8.15, sigma 2.12) fitted to the GPU times of 10,000 jobs in
    SymbioticLab/Tiresias, simulator/yarn-gput10000.csv.
    """
    return np.array([exp(8.15 + 2.12 * normal_quantile((i + 0.5) / 500)) for i in range(500)])
