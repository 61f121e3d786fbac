"""Utilities and prices of Hadar: the value of a job, given its end time, and the price of a GPU in a round."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpusched_env.portable import arrays

# A job as input and output of FIND_ALLOC.
ASKING_DTYPE: Final = np.dtype(
    [
        ("remaining", "<f8"),  # iterations left
        ("worth", "<f8"),  # utility = worth / max(end - since_s, 1 s)
        ("since_s", "<f8"),  # [s]
        ("least_rate", "<f8"),  # [1/s] slower placements on several nodes are refused
        ("payoff", "<f8"),  # out: payoff of its grant; 0 = nothing granted
        ("rate", "<f8"),  # out: [1/s] rate of its grant
        ("row", "<i4"),  # of the view
        ("job_class", "<i4"),  # row of the rates
        ("gpus", "<i4"),  # [GPU] gang size
        ("tier", "<i4"),  # tightest tier that can hold the gang
    ]
)
UTILITIES: Final = {
    "effective_throughput_normalised": "normalised",
    "effective_throughput_raw": "raw",
    "inverse_remaining": "remaining",
}
LEAST_S: Final = 1.0  # [s] lower limit of the denominator of a utility, for a job that has just arrived
LEAST_RATIO: Final = 1_000.0  # of the upper to the lower bound; so the first GPUs of a node cost almost nothing


class Paces(NamedTuple):
    """float64 [Q]: remaining run times of jobs on the fastest and on the slowest GPU type that can run them [s]."""

    fastest_s: np.ndarray
    slowest_s: np.ndarray


class PriceRange(NamedTuple):
    """Price of a GPU for a round on an empty node, and on a full node; the latter is never paid."""

    lowest: float
    highest: float


def set_utility(
    jobs: np.ndarray, utility: str, iterations: np.ndarray, arrival_s: np.ndarray, fastest: np.ndarray, now_s: float
) -> None:
    """Fill ``worth`` and ``since_s``: effective throughput, raw or by the fastest type's rate, or 1 / (end - now)."""
    if utility == "inverse_remaining":
        jobs["worth"], jobs["since_s"] = 1.0, now_s
        return
    jobs["worth"] = iterations if utility == "effective_throughput_raw" else iterations / fastest
    jobs["since_s"] = arrival_s


def utility_at(jobs: np.ndarray, end_s: np.ndarray | float) -> np.ndarray:
    """float64 [Q]: utility of the jobs (ASKING_DTYPE) if they ended at ``end_s``."""
    value: np.ndarray = jobs["worth"] / np.maximum(end_s - jobs["since_s"], LEAST_S)
    return value


def price_range(jobs: np.ndarray, paces: Paces, gpus: int, now_s: float, round_s: float) -> PriceRange:
    """Compute the bounds of the prices in a round from the jobs in the system.

    Notes
    -----
    The horizon is the sum of the present time, all work divided by all GPUs, and the run time of the longest job on its
    slowest type. Both bounds are proportional to the utility, so the unit of the utility has no effect.
    """
    gang = jobs["gpus"]
    horizon_s = now_s + arrays.total(gang * paces.fastest_s) / gpus + float(paces.slowest_s.max())
    highest = float((utility_at(jobs, now_s + paces.fastest_s) / gang).max())
    rounds = np.maximum(np.ceil(paces.slowest_s / round_s), 1.0)
    lowest = float((utility_at(jobs, horizon_s) / (rounds * gang)).min()) / 4.0
    return PriceRange(min(lowest, highest / LEAST_RATIO), highest)


def price_table(prices: PriceRange, capacity: np.ndarray) -> np.ndarray:
    """float64 [N, c + 1]: price of a GPU of each node when 0, 1, ..., ``capacity`` of the node's GPUs are granted.

    Price = lowest x (highest / lowest)^(granted / capacity), as in OASiS (INFOCOM 2018).
    """
    granted = np.arange(int(capacity.max()) + 1)[None, :]
    if prices.lowest <= 0.0:  # utilities below the smallest float: all prices are 0
        return np.zeros((len(capacity), granted.shape[1]))
    share = np.minimum(granted / capacity[:, None], 1.0)
    table: np.ndarray = prices.lowest * arrays.power(prices.highest / prices.lowest, share)
    return table
