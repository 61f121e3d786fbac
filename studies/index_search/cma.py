"""CMA-ES of the package cmaes: an evolution strategy that learns the covariance of good samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.errors import GpuschedError


def cma_es(start: np.ndarray, sigma: float, samples: int, seed: int, separable: bool = False) -> Any:
    """Return a ``cmaes.CMA``, which is asked for samples and told their scores.

    Parameters
    ----------
    start : float64 [N], first mean
    sigma : standard deviation of the first samples
    samples : samples of a generation
    seed : seed of the samples
    separable : keep the covariance diagonal: faster, and without LAPACK, whose results differ between machines

    Raises
    ------
    GpuschedError : the package cmaes is not installed

    References
    ----------
    N. Hansen, "The CMA evolution strategy: a tutorial", arXiv 1604.00772; R. Ros, N. Hansen, "A simple modification in
    CMA-ES achieving linear time and space complexity", PPSN 2008.
    """
    try:
        from cmaes import CMA, SepCMA
    except ImportError as error:
        raise GpuschedError('the search needs cmaes: pip install "gpusched-env[tuning]"') from error
    kind = SepCMA if separable else CMA
    return kind(mean=start.copy(), sigma=sigma, population_size=samples, seed=seed)
