"""The partial allocation of Themis: a truthful auction, in which a winner returns part of its allocation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpusched_env.portable.elementary import exp, log


def partial_allocation(values: Sequence[np.ndarray], gpus: int) -> tuple[list[int], list[float]]:
    """Allocate GPUs so that the product of the bidders' values is largest, and compute the share that each may keep.

    ``values`` : for each bidder, its value V > 0 of 0, 1, 2, ... GPUs; NaN = no bid. A share is the product of the
    others' values, divided by the same product in an auction without the bidder, in floats
    (:func:`~gpusched_env.baselines.themis.partial_allocation.hold_auction` is exact). It takes O(bidders^2 x gpus x
    bids).
    """
    logs = [[(n, log(float(value))) for n, value in enumerate(bids) if value > 0] for bids in values]
    allocation, _ = _largest_product(logs, gpus)
    shares = []
    for i, won in enumerate(allocation):
        if won == 0:
            shares.append(1.0)
            continue
        others = math.fsum(dict(logs[k])[n] for k, n in enumerate(allocation) if k != i)
        _, without = _largest_product([*logs[:i], *logs[i + 1 :]], gpus)
        shares.append(exp(others - without))
    return allocation, shares


def _largest_product(logs: Sequence[Sequence[tuple[int, float]]], gpus: int) -> tuple[list[int], float]:
    """Dynamic program over bidders and remaining GPUs: allocation with the largest sum of logarithms, and that sum."""
    best = np.zeros(gpus + 1)  # largest sum of the bidders so far, by number of GPUs
    taken = []
    for bids in logs:
        sums = np.full((len(bids), gpus + 1), -np.inf)
        for row, (n, value) in zip(sums, bids, strict=True):
            row[n:] = best[: gpus + 1 - n] + value
        choice = sums.argmax(axis=0)  # ties: the fewest GPUs
        taken.append(np.array([n for n, _ in bids])[choice])
        best = sums.max(axis=0)
    allocation: list[int] = []
    left = gpus
    for choices in reversed(taken):
        allocation.insert(0, int(choices[left]))
        left -= allocation[0]
    return allocation, float(best[gpus])
