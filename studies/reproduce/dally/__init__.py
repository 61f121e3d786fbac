"""Programs of the card of Dally: cells, measures, ratios over many cells, and skew beside the cost of placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.baselines.dally.state import LOW_SKEW
from gpusched_env.metrics.statistics import Interval, paired_ratio
from gpusched_env.network.dimensions import dimensions
from gpusched_env.traces.profile_tables import load_efficiency
from studies.reproduce.dally.cells import (
    AUTHORS_CELLS,
    EVERYONES,
    LARGE,
    LOADS,
    OTHER_COSTS,
    SCENARIOS,
    SUITE,
    TOPS,
    USUAL,
    AuthorsCell,
    Cell,
    by_cost,
    by_load,
)
from studies.reproduce.dally.measures import (
    PERCENTILES,
    SAMPLES_H,
    measure,
    measure_leak,
    measure_starving,
    percentile,
)

__all__ = [
    "AUTHORS_CELLS", "EVERYONES", "LARGE", "LOADS", "LOW_SKEW", "OTHER_COSTS", "PERCENTILES", "PLACES", "SAMPLES_H",
    "SCENARIOS", "SUITE", "TOPS", "USUAL", "AuthorsCell", "Cell", "by_cost", "by_load", "geometric", "measure",
    "measure_leak", "measure_starving", "models", "on_eight", "percentile", "sweep", "with_parameters",
]  # fmt: skip


def with_parameters(written: str, **more: Any) -> str:
    """Add parameters to the spec of a scheduler."""
    name, _, given = written.partition(":")
    parts = [*([given] if given else []), *(f"{key}={value}" for key, value in more.items())]
    return f"{name}:{','.join(parts)}" if parts else name


def geometric(ratios: np.ndarray) -> Interval:
    """Return the geometric mean of ratios over seeds, and its interval."""
    return paired_ratio(ratios, np.ones(len(ratios)))


@dataclass(frozen=True)
class Sweep:
    """A ratio over many cells.

    Parameters
    ----------
    mean : geometric mean over cells and seeds, with an interval over seeds
    best, worst : the cell with the smallest, and with the largest, geometric mean over seeds, and this mean
    best_run : smallest ratio of a single seed
    cells : number of cells
    """

    mean: Interval
    best: tuple[Any, Interval]
    worst: tuple[Any, Interval]
    best_run: float
    cells: int


def sweep(ratios: Mapping[Any, np.ndarray]) -> Sweep | None:
    """Summarise the ratios of seeds in each cell; None if there is no cell."""
    if not ratios:
        return None
    by_seed = np.exp(np.mean([np.log(values) for values in ratios.values()], axis=0))
    means = {cell: geometric(values) for cell, values in ratios.items()}
    best, worst = (pick(means, key=lambda cell: means[cell].mean) for pick in (min, max))
    return Sweep(
        geometric(by_seed), (best, means[best]), (worst, means[worst]),
        float(min(values.min() for values in ratios.values())), len(ratios),
    )  # fmt: skip


# Placements of a gang of eight on two slots, with four GPUs on each: (racks, machines, slots).
PLACES: Final = {"a machine": (1, 1, 2), "a rack, 4 + 4": (1, 2, 2), "two racks, 4 + 4": (2, 2, 2)}


def models() -> dict[str, float]:
    """Return the skew of each model of the authors, those of low skew first."""
    found = load_efficiency("dally").models
    return {n: found[n].skew for n in sorted(found, key=lambda name: (name.lower() not in LOW_SKEW, found[name].skew))}


def on_eight(model: str, place: str) -> float:
    """Return the efficiency of a model on eight GPUs of one of PLACES, with the authors' links."""
    return float(load_efficiency("dally").models[model].efficiency["nvswitch"][dimensions(8, *PLACES[place])])
