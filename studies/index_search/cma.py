"""CMA-ES of the package cmaes: an evolution strategy that learns the covariance of good samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.errors import GpuschedError


def cma_es(start: np.ndarray, scale: np.ndarray | float, samples: int, seed: int) -> Any:
    """Return a ``cmaes.CMA``, which is asked for samples and told their scores.

    Parameters
    ----------
    start : float64 [N], first mean
    scale : standard deviation of the first samples, one number or float64 [N]
    samples : samples of a generation
    seed : seed of the samples

    Raises
    ------
    GpuschedError : the package cmaes is not installed

    References
    ----------
    N. Hansen, "The CMA evolution strategy: a tutorial", arXiv 1604.00772.
    """
    try:
        from cmaes import CMA
    except ImportError as error:
        raise GpuschedError('the search needs cmaes: pip install "gpusched-env[tuning]"') from error
    if isinstance(scale, float):
        return CMA(mean=start, sigma=scale, population_size=samples, seed=seed)
    return CMA(mean=start, sigma=1.0, cov=np.diag(scale**2), population_size=samples, seed=seed)
