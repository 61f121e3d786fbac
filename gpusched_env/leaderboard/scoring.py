"""Scores (0 = FIFO, 1 = the lower bound), and comparisons of two entries, paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import Interval, bootstrap_ratio, paired_ratio


class Scored(Protocol):
    """A run of an entry, or of an evaluation."""

    @property
    def seed(self) -> int:
        """Seed of the run."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Metrics by column name."""

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """Lower bounds on some of the metrics."""


def score(runs: Sequence[Scored], fifo: Sequence[Scored], metric: str) -> Interval:
    """Share of the gap between FIFO and the lower bound that the runs close, with 95 % bootstrap interval over seeds.

    Parameters
    ----------
    runs, fifo : runs on the same seeds, in the same order
    metric : metric of the track, ``mean_jct_s`` or ``makespan_s``, which have bounds

    Notes
    -----
    ``sum of (fifo - run) / sum of (fifo - bound)`` over seeds: 0 = as FIFO, negative = worse than FIFO, 1 = at the
    bound, which may be out of reach. A seed on which FIFO is near the bound has little weight.

    Raises
    ------
    GpuschedError : different seeds, or FIFO is above the bound on no seed
    """
    _same_seeds(runs, fifo)
    first_in = _values(fifo, metric)
    bound = np.array([run.bounds[metric] for run in fifo], float)
    return bootstrap_ratio(first_in - _values(runs, metric), np.maximum(first_in - bound, 0.0))


def compared(runs: Sequence[Scored], rival: Sequence[Scored], metric: str) -> Interval:
    """Geometric mean of a metric / the rival's, paired by seed, with 95 % interval; below 1 = smaller than the rival's.

    Raises
    ------
    GpuschedError : different seeds, or a value that is not positive
    """
    _same_seeds(runs, rival)
    return paired_ratio(_values(runs, metric), _values(rival, metric))


def _values(runs: Sequence[Scored], metric: str) -> np.ndarray:
    return np.array([run.metrics[metric] for run in runs], float)


def _same_seeds(runs: Sequence[Scored], others: Sequence[Scored]) -> None:
    if [run.seed for run in runs] != [other.seed for other in others]:
        raise GpuschedError("runs on different seeds cannot be compared: give the same seeds, in the same order")
