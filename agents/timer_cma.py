"""CMA-ES: an evolution strategy that learns the covariance of good samples, for a few dozen weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpusched_env.errors import GpuschedError


class CovarianceEvolution:
    """Minimise a noisy function of a vector by CMA-ES.

    Parameters
    ----------
    start : float64 [N], first mean
    scale : float64 [N], standard deviation of the first samples in each coordinate
    samples : samples per generation
    seed : seed of the samples

    Attributes
    ----------
    mean : float64 [N], the mean of the samples

    Raises
    ------
    GpuschedError : a scale that is not above 0, or fewer than four samples

    References
    ----------
    N. Hansen, "The CMA evolution strategy: a tutorial", arXiv 1604.00772; names and default constants are its own.
    """

    def __init__(self, start: np.ndarray, scale: np.ndarray, samples: int = 12, seed: int = 0) -> None:
        if not (np.asarray(scale) > 0).all() or samples < 4:
            raise GpuschedError("evolution: every scale must be above 0, and there must be at least 4 samples")
        self.mean, self.sigma, self._samples = np.array(start, float), 1.0, samples
        self._rng = np.random.default_rng(seed)
        size, kept = len(self.mean), samples // 2
        weights = math.log(kept + 0.5) - np.log(np.arange(1, kept + 1))
        self._weights = weights / weights.sum()
        mass = 1.0 / float((self._weights**2).sum())  # mu_eff
        self._mass = mass
        self._c_sigma = (mass + 2) / (size + mass + 5)
        self._damping = 1 + self._c_sigma + 2 * max(0.0, math.sqrt((mass - 1) / (size + 1)) - 1)
        self._c_path = (4 + mass / size) / (size + 4 + 2 * mass / size)
        self._c_one = 2 / ((size + 1.3) ** 2 + mass)
        self._c_kept = min(1 - self._c_one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
        self._length = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))  # of a standard normal vector
        self._covariance = np.diag(np.asarray(scale, float) ** 2)
        self._path, self._path_sigma = np.zeros(size), np.zeros(size)

    def step(self, score: Callable[[np.ndarray], float]) -> np.ndarray:
        """Draw one generation, move the mean to its better half, and return the scores, float64 [samples]."""
        values, axes = np.linalg.eigh(self._covariance)
        spread = np.sqrt(np.maximum(values, 1e-20))
        draws = (self._rng.standard_normal((self._samples, len(self.mean))) * spread) @ axes.T
        scores = np.array([score(self.mean + self.sigma * draw) for draw in draws])
        best = draws[np.argsort(scores, kind="stable")[: len(self._weights)]]
        move = self._weights @ best
        self.mean = self.mean + self.sigma * move
        white = axes @ ((axes.T @ move) / spread)
        rate = self._c_sigma
        self._path_sigma = (1 - rate) * self._path_sigma + math.sqrt(rate * (2 - rate) * self._mass) * white
        length = float(np.linalg.norm(self._path_sigma)) / self._length
        rate = self._c_path
        # A long path means that sigma is too small; the covariance then waits until sigma has grown.
        stalled = length > 1.4 + 2 / (len(self.mean) + 1)
        self._path = (1 - rate) * self._path + (not stalled) * math.sqrt(rate * (2 - rate) * self._mass) * move
        self._covariance = (
            (1 - self._c_one - self._c_kept) * self._covariance
            + self._c_one * np.outer(self._path, self._path)
            + self._c_kept * (best.T * self._weights) @ best
        )
        self.sigma *= math.exp(self._c_sigma / self._damping * (length - 1))
        return scores
