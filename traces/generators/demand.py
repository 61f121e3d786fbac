"""Distributions of gang sizes, and draws from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError

MOST_GPUS: Final = 2**31 - 1  # [GPU] largest gang that a workload can hold


def demand_of(data: object) -> dict[int, float]:
    """Check a mapping gang size -> probability, and convert its keys to int; they may be text, as in JSON."""
    try:
        if isinstance(data, Mapping):
            demand = {int(str(size)): float(share) for size, share in data.items()}
            if (
                demand
                and min(demand) >= 1
                and max(demand) <= MOST_GPUS
                and all(0 <= share < math.inf for share in demand.values())
            ):
                return demand
    except (TypeError, ValueError, OverflowError):
        pass
    raise WorkloadError(
        f"demand is {str(data)[:200]}: give gang sizes from 1 to {MOST_GPUS:,} with their probabilities, as "
        "{'1': 0.7, '8': 0.3}"
    )


def demand_table(demand: Mapping[int, float], max_gpus: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return gang sizes [GPU], ascending, and their cumulative probabilities; sizes above ``max_gpus`` are left out."""
    allowed = {size: p for size, p in demand.items() if max_gpus is None or size <= max_gpus}
    if not allowed or min(allowed) < 1 or not min(allowed.values()) >= 0 or not 0 < sum(allowed.values()) < math.inf:
        raise WorkloadError(
            f"demand {dict(demand)} with max_gpus {max_gpus}: give gang sizes >= 1, at least one of them within "
            "max_gpus, with probabilities >= 0 that are not all 0"
        )
    gpus = np.array(sorted(allowed))
    cumulative = np.cumsum([allowed[size] for size in gpus.tolist()])
    return gpus, cumulative / cumulative[-1]


def draw_demand(rng: np.random.Generator, count: int, table: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Draw ``count`` independent gang sizes by inversion; int64 [count]."""
    gpus, cumulative = table
    drawn: np.ndarray = gpus[np.searchsorted(cumulative, rng.random(count), side="right")]
    return drawn
