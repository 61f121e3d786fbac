"""Evolution strategy for a tuner's weights: mirrored samples around a mean, weighted by rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.errors import GpuschedError

Score = Callable[[np.ndarray, int], float]  # (weights, generation) -> score to minimise
_MOMENTUM: Final = 0.8
_ROUNDING: Final = 1e-12


@dataclass
class Evolution:
    """Evolution strategy with mirrored sampling and rank weights.

    Parameters
    ----------
    sigma : standard deviation of the samples, in units of the weights
    pairs : mirrored pairs of samples per generation
    step : length of the step per generation, in units of sigma
    seed : seed of the samples

    Notes
    -----
    All samples of a generation are scored on the same runs, so that scores differ by weights only (common random
    numbers). The step is the mean of the samples weighted by rank from -1 to 1, so the scale of scores has no effect.

    References
    ----------
    T. Salimans et al., "Evolution strategies as a scalable alternative to reinforcement learning", arXiv 1703.03864.
    """

    sigma: float = 0.2
    pairs: int = 6
    step: float = 0.3
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        if not self.sigma > 0 or not self.step > 0 or self.pairs < 1:
            raise GpuschedError("evolution: sigma and step must be above 0, and pairs at least 1")

    def improve(
        self,
        start: np.ndarray,
        score: Score,
        generations: int,
        told: Callable[[int, np.ndarray, float], None] | None = None,
    ) -> np.ndarray:
        """Return the weights after a number of generations.

        Parameters
        ----------
        told : called after each generation with (generation, weights, mean score of its samples)
        """
        rng = np.random.default_rng(self.seed)
        mean = np.array(start, float)
        velocity = np.zeros_like(mean)
        for generation in range(generations):
            draws = rng.standard_normal((self.pairs, len(mean)))
            scores = np.array(
                [[score(mean + sign * self.sigma * draw, generation) for sign in (1.0, -1.0)] for draw in draws]
            )
            shares = _centred_ranks(scores)
            slope = ((shares[:, 0] - shares[:, 1])[:, None] * draws).sum(axis=0)
            length = float(np.sqrt(np.mean(slope**2)))
            if length > _ROUNDING:  # otherwise all scores are equal, and there is no direction
                velocity = _MOMENTUM * velocity - (1.0 - _MOMENTUM) * slope / length
                mean = mean + self.step * self.sigma * velocity
            if told is not None:
                told(generation, mean, float(scores.mean()))
        return mean


def _centred_ranks(scores: np.ndarray) -> np.ndarray:
    """float64, same shape: ranks from -1 (smallest) to 1; equal scores share a rank."""
    flat = scores.ravel()
    below = (flat[:, None] > flat).sum(axis=1)
    same = (flat[:, None] == flat).sum(axis=1)
    ranks = below + (same - 1) / 2.0
    return (2.0 * ranks / max(len(flat) - 1, 1) - 1.0).reshape(scores.shape)
