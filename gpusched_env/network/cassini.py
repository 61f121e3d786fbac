"""Time shifts after CASSINI: delay gangs that share a link, so that one computes while the other sends.

A gang's demand on a link is periodic: an array float64 [P] of rates [byte/s] over one iteration, one value for each
point of a grid in time. Shifts count grid points. The score and the walk over the cluster are those of Rajasekaran et
al., NSDI 2024; the search for the best shifts is ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

GRID_S: Final = 1e-3  # [s] iteration times are rounded to it, or their common multiple explodes
LONGEST: Final = 10_000  # [grid points] a longer common multiple is cut here: 10 s of the default grid


def burst(iteration_s: float, busy_s: float, rate_Bps: float, grid_s: float = GRID_S) -> Array:
    """float64 [P]: a gang that sends at ``rate_Bps`` for the first ``busy_s`` of each iteration; P >= 1."""
    demand = np.zeros(max(1, round(iteration_s / grid_s)))
    demand[: round(busy_s / grid_s)] = rate_Bps
    return demand


def _points(demands: Sequence[Array]) -> int:
    """Count the grid points of the common period, at most LONGEST."""
    return min(math.lcm(*map(len, demands)), LONGEST)


def _shifted(demand: Array, shift: int, points: int) -> Array:
    """float64 [points]: the demand over the common period, ``shift`` grid points later."""
    return demand[(np.arange(points) - shift) % len(demand)]


def _score(total: Array, capacity_Bps: float) -> float:
    return float(1.0 - np.maximum(0.0, total - capacity_Bps).mean() / capacity_Bps)


def compatibility(demands: Sequence[Array], shifts: Sequence[int], capacity_Bps: float) -> float:
    """1 - mean excess demand / capacity over the common period: 1 if the link always has room, may be negative."""
    points = _points(demands)
    shifted = [_shifted(demand, shift, points) for demand, shift in zip(demands, shifts, strict=True)]
    return _score(np.sum(shifted, axis=0), capacity_Bps)


def best_shifts(demands: Sequence[Array], capacity_Bps: float) -> tuple[list[int], float]:
    """Shifts 0 <= D_j < P_j of the gangs on one link, and their compatibility.

    The first gang stays. Each other one takes its best shift given the rest, the smallest on ties, in turn until no
    gang gains: the optimum for two gangs, a local one for more. A turn costs P_j times the common period.
    """
    points = _points(demands)
    shifts = [0] * len(demands)
    best = compatibility(demands, shifts, capacity_Bps)
    improved = True
    while improved:
        improved = False
        for j in range(1, len(demands)):
            others = sum(
                (_shifted(demands[i], shifts[i], points) for i in range(len(demands)) if i != j), np.zeros(points)
            )
            scores = [
                _score(others + _shifted(demands[j], shift, points), capacity_Bps) for shift in range(len(demands[j]))
            ]
            shift = int(np.argmax(scores))
            if scores[shift] > best:
                shifts[j], best, improved = shift, scores[shift], True
    return shifts, best


def cluster_shifts(links: Sequence[Mapping[int, int]], periods: Sequence[int]) -> list[int] | None:
    """One shift for each gang, such that the gangs of every link keep their shifts relative to each other.

    Walks the graph of gangs and links from the first gang of each part: t_k = (t_j - w_jl + w_kl) mod P_k.

    Parameters
    ----------
    links : for each link the best shift w of each gang on it; links with the same gangs count as one, give them once
    periods : P, grid points of an iteration of each gang

    Returns
    -------
    int [J], or None where the graph has a loop, so that no unique assignment exists; CASSINI avoids such placements
    """
    shifts: dict[int, int] = {}
    for first in range(len(periods)):
        if first in shifts:
            continue
        shifts[first] = 0
        ahead = [(first, -1)]
        while ahead:
            gang, via = ahead.pop()
            for link, shift_on in enumerate(links):
                if link == via or gang not in shift_on:
                    continue
                for other in shift_on:
                    if other == gang:
                        continue
                    if other in shifts:
                        return None
                    shifts[other] = (shifts[gang] - shift_on[gang] + shift_on[other]) % periods[other]
                    ahead.append((other, link))
    return [shifts[gang] for gang in range(len(periods))]
