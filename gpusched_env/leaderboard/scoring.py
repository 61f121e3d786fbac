"""Scores: 0 = FIFO, 1 = the lower bound; and comparisons of two entries, seed by seed."""

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
        """The draw."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Columns by name."""

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """Lower bounds of some of them."""


def score(runs: Sequence[Scored], fifo: Sequence[Scored], metric: str) -> Interval:
    """How much of the way from FIFO to the lower bound the runs go, with its 95 % bootstrap interval over seeds.

    Parameters
    ----------
    runs, fifo : on the same seeds, in the same order
    metric : that of the track, ``mean_jct_s`` or ``makespan_s``, which have bounds

    Notes
    -----
    ``sum of (fifo - run) / sum of (fifo - bound)`` over seeds: 0 for FIFO, negative for worse, 1 on the bound, which
    nobody may be able to reach. A seed on which FIFO happens to be near the bound counts little.

    Raises
    ------
    GpuschedError : other seeds, or FIFO is nowhere above the bound
    """
    _same_seeds(runs, fifo)
    first_in = _values(fifo, metric)
    bound = np.array([run.bounds[metric] for run in fifo], float)
    return bootstrap_ratio(first_in - _values(runs, metric), np.maximum(first_in - bound, 0.0))


def compared(runs: Sequence[Scored], rival: Sequence[Scored], metric: str) -> Interval:
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
