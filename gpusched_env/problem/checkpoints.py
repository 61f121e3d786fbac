"""When to checkpoint: Young's and Daly's intervals, and the effective training time that they leave."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.portable import arrays

Numbers = np.ndarray | float
__all__ = ["INTERVALS", "daly_s", "effective_ratio", "young_s"]


def young_s(between_s: Numbers, cost_s: Numbers) -> np.ndarray:
    """float64 [s]: Young's interval (CACM 17, 1974) for a mean time M between failures and a blocking cost w [s]."""
    interval: np.ndarray = np.sqrt(2.0 * np.asarray(cost_s, float) * np.asarray(between_s, float))
    return interval


def daly_s(between_s: Numbers, cost_s: Numbers) -> np.ndarray:
    """float64 [s]: Daly's interval (FGCS 22, 2006, equation 37); M if w >= 2 M. Intervals are times of progress."""
    between, cost = np.asarray(between_s, float), np.asarray(cost_s, float)
    ratio = np.minimum(cost / (2.0 * between), 1.0)
    interval: np.ndarray = young_s(between, cost) * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0) - cost
    return np.where(cost >= 2.0 * between, between, interval)


def effective_ratio(between_s: Numbers, cost_s: Numbers, recovery_s: Numbers, interval_s: Numbers) -> np.ndarray:
    """float64: effective training time ratio with exponential failures, also while a gang recovers for R = recovery_s.

    Daly's D / (M exp(R / M) (exp((D + w) / M) - 1)), where D is the interval.
    """
    between, interval = np.asarray(between_s, float), np.asarray(interval_s, float)
    segments = arrays.exp((interval + cost_s) / between) - 1.0
    ratio: np.ndarray = interval / (between * arrays.exp(np.asarray(recovery_s, float) / between) * segments)
    return ratio


INTERVALS: Final = {"young": young_s, "daly": daly_s}
