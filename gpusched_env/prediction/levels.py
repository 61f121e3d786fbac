"""Levels of run time, and what a distribution over them says about the time that a job has left."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import helper

LEVELS: Final = 62
# [s] Begin of each level: 0, and powers of 1.25 from 4 s to a month. Products of a fixed order are the same everywhere.
STARTS_S: Final = np.array([0.0, *np.multiply.accumulate([4.0, *[1.25] * (LEVELS - 2)])])
_ENDS_S: Final = np.append(STARTS_S[1:], 1.25 * STARTS_S[-1])  # the last level has no end: as long as if it had one
_MIDDLES_S: Final = (STARTS_S + _ENDS_S) / 2.0
_KERNEL: Final = (1.0, 2.0, 3.0, 2.0, 1.0)  # by which counts are smoothed over neighbouring levels
TOLERANCE_S: Final = 1e-6  # [s] for rounding errors of run times


def levels_of(seconds: np.ndarray) -> np.ndarray:
    """int64: the level of each run time [s]."""
    return np.searchsorted(STARTS_S - TOLERANCE_S, seconds, side="right") - 1


@helper
def level_at(seconds: float) -> int:
    """Return the level of a run time [s], as :func:`levels_of` does."""
    low = 0
    high = LEVELS - 1
    while low < high:
        middle = (low + high + 1) // 2
        if STARTS_S[middle] - TOLERANCE_S <= seconds:
            low = middle
        else:
            high = middle - 1
    return low


def counts_of(levels: np.ndarray, classes: np.ndarray, number: int) -> np.ndarray:
    """float64 [``number``, LEVELS]: smoothed numbers of jobs of each class by level."""
    counts = np.bincount(classes * LEVELS + levels, minlength=number * LEVELS).reshape(number, LEVELS)
    padded = np.pad(counts.astype(float), ((0, 0), (2, 2)))
    smooth = np.zeros((number, LEVELS))
    for shift, weight in enumerate(_KERNEL):
        smooth = smooth + weight / 9.0 * padded[:, shift : shift + LEVELS]
    return smooth


def normalised(weights: np.ndarray) -> np.ndarray:
    """Return float64 [..., LEVELS] divided by its sum over the levels."""
    return weights / np.cumsum(weights, axis=-1)[..., -1:]


def _left_s(level: int) -> np.ndarray:
    """Time from the begin of a level to the middle of each later level, and to that of its own [s]."""
    return _MIDDLES_S[level:] - STARTS_S[level]


def mean_left_s(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS]: mean time that a job has left at the begin of a level, if it reaches it [s].

    ``shares`` : float64 [C, LEVELS], above 0, distribution of run times of each class over the levels
    """
    left_s = np.empty_like(shares)
    for level in range(LEVELS):
        later = normalised(shares[:, level:])
        left_s[:, level] = np.cumsum(later * _left_s(level), axis=-1)[:, -1]
    return left_s


def quantile_left_s(shares: np.ndarray, share: float) -> np.ndarray:
    """float64 [C, LEVELS]: time to the end of the level by which ``share`` of the jobs that reach a level end [s]."""
    left_s = np.empty_like(shares)
    for level in range(LEVELS):
        ended = np.cumsum(normalised(shares[:, level:]), axis=-1)
        last = np.minimum((ended < share).sum(axis=-1), LEVELS - level - 1)
        left_s[:, level] = _ENDS_S[level + last] - STARTS_S[level]
    return left_s


def gittins_s(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS]: least expected time per completion of a job at the begin of a level [s], its Gittins index.

    The job is served until it ends, or until the end of a level. Of all these levels, the one counts for which the
    expected time of service / the probability that the job ends by then is least (J. Gittins, "Bandit processes and
    dynamic allocation indices", 1979). Parameters as for :func:`mean_left_s`.
    """
    index_s = np.empty_like(shares)
    for level in range(LEVELS):
        later = normalised(shares[:, level:])
        ends = np.cumsum(later, axis=-1)
        served_s = np.cumsum(later * _left_s(level), axis=-1)
        served_s = served_s + np.maximum(1.0 - ends, 0.0) * (_ENDS_S[level:] - STARTS_S[level])
        index_s[:, level] = (served_s / ends).min(axis=-1)
    return index_s
