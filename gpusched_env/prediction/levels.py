"""Levels of run time, and what a distribution over them says about the time that a job has left."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array, helper, kernel

LEVELS: Final = 62
# [s] Begin of each level: 0, and powers of 1.25 from 4 s to a month. Products of a fixed order are the same everywhere.
STARTS_S: Final = np.array([0.0, *np.multiply.accumulate([4.0, *[1.25] * (LEVELS - 2)])])
_ENDS_S: Final = np.append(STARTS_S[1:], 1.25 * STARTS_S[-1])  # the last level has no end: as long as if it had one
MIDDLES_S: Final = (STARTS_S + _ENDS_S) / 2.0
_KERNEL: Final = (1.0, 2.0, 3.0, 2.0, 1.0)  # by which counts are smoothed over neighbouring levels
WEIGHT: Final = 8.0  # jobs for which the distribution of a wider class counts in that of a narrower one
PRIOR_WEIGHT: Final = 50.0  # jobs for which the distribution before the first end counts in that of all jobs
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


class Tables(Handle):
    """What distributions of run times over the levels say about the time that a job has left, by class and level."""

    shares = array(np.float64, "kinds", "levels")  # above 0
    mean_s = array(np.float64, "kinds", "levels")
    quantile_s = array(np.float64, "kinds", "levels")
    index_s = array(np.float64, "kinds", "levels")


@kernel
def write_tables(t: Tables, quantile: float) -> None:
    """Write mean, quantile and Gittins index of each class at the begin of each level."""
    for k in range(len(t.shares)):
        for level in range(LEVELS):
            all_later = 0.0
            for at in range(level, LEVELS):
                all_later += t.shares[k, at]
            begin_s = STARTS_S[level]
            ended = 0.0  # part of the jobs that reach the level
            served_s = 0.0
            index_s = np.inf
            quantile_s = -1.0
            for at in range(level, LEVELS):
                share = t.shares[k, at] / all_later
                ended += share
                served_s += share * (MIDDLES_S[at] - begin_s)
                to_end_s = _ENDS_S[at] - begin_s
                index_s = min(index_s, (served_s + max(1.0 - ended, 0.0) * to_end_s) / ended)
                if quantile_s < 0.0 and (ended >= quantile or at == LEVELS - 1):
                    quantile_s = to_end_s
            t.mean_s[k, level] = served_s
            t.index_s[k, level] = index_s
            t.quantile_s[k, level] = quantile_s


def tables(shares: np.ndarray, quantile: float = 0.5) -> Tables:
    """Return what float64 [C, LEVELS] distributions say; shares are above 0, times of float64 [C, LEVELS] in seconds.

    A job is served until it ends, or until the end of a level. Of all these levels, the one counts for its index for
    which the expected time of service / the probability that the job ends by then is least (J. Gittins, "Bandit
    processes and dynamic allocation indices", 1979).
    """
    found = Tables(
        shares=np.ascontiguousarray(shares),
        **{name: np.empty(shares.shape) for name in ("mean_s", "quantile_s", "index_s")},
    )
    write_tables(found, quantile)
    return found


def mean_left_s(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS]: mean time that a job has left at the begin of a level, if it reaches it [s]."""
    return tables(shares).mean_s


def quantile_left_s(shares: np.ndarray, share: float) -> np.ndarray:
    """float64 [C, LEVELS]: time to the end of the level by which ``share`` of the jobs that reach a level end [s]."""
    return tables(shares, share).quantile_s


def gittins_s(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS]: Gittins index of a job at the begin of a level [s]."""
    return tables(shares).index_s
