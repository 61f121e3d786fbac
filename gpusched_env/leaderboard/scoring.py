"""Scores: 0 = FIFO, 1 = the lower bound; and comparisons of two entries, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import Interval, bootstrap_mean, paired_ratio


class Scored(Protocol):
    """A run of an entry, or of an evaluation."""

    @property
    def seed(self) -> int:
        """The draw."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Columns by name."""

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """Lower bounds of some of them."""


def scores(runs: Sequence[Scored], fifo: Sequence[Scored], metric: str = "mean_jct_s") -> np.ndarray:
    """float64 [seeds]: by how much each run beats FIFO, in units of FIFO's mean distance from the lower bound.

    Parameters
    ----------
    runs, fifo : on the same seeds, in the same order
    metric : ``mean_jct_s`` or ``makespan_s``, which have bounds

    Notes
    -----
    ``(fifo_i - run_i) / mean over j of (fifo_j - bound_j)``. Their mean is 0 for FIFO and 1 for runs on the bound. A
    seed on which FIFO happens to be near the bound does not outweigh the others, and the unit is the same for all
    entries of a track.

    Raises
    ------
    GpuschedError : other seeds, or FIFO is nowhere above the bound
    """
    _same_seeds(runs, fifo)
    room = float((_values(fifo, metric) - np.array([run.bounds[metric] for run in fifo], float)).mean())
    if not room > 0:
        raise GpuschedError(f"FIFO's {metric} is the lower bound on these seeds: there is nothing to win")
    return (_values(fifo, metric) - _values(runs, metric)) / room


def score(runs: Sequence[Scored], fifo: Sequence[Scored], metric: str = "mean_jct_s") -> Interval:
    """Mean of :func:`scores`, with its 95 % bootstrap interval over seeds."""
    return bootstrap_mean(scores(runs, fifo, metric))


def compared(runs: Sequence[Scored], rival: Sequence[Scored], metric: str = "mean_jct_s") -> Interval:
    """Mean ratio of a metric to a rival's, paired by seed, with its 95 % interval: below 1 it is smaller.

    Raises
    ------
    GpuschedError : other seeds, or a value that is not positive
    """
    _same_seeds(runs, rival)
    return paired_ratio(_values(runs, metric), _values(rival, metric))


def _values(runs: Sequence[Scored], metric: str) -> np.ndarray:
    return np.array([run.metrics[metric] for run in runs], float)


def _same_seeds(runs: Sequence[Scored], others: Sequence[Scored]) -> None:
    if [run.seed for run in runs] != [other.seed for other in others]:
        raise GpuschedError("runs on different seeds cannot be compared: give the same ones, in the same order")
