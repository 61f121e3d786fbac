"""Scores of entries, from 0 (FIFO) to 1 (the bound), and comparisons of two entries, paired by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import COLUMN_OF, Interval, bootstrap_ratio, paired_ratio

MOST: Final = 1.0  # bound of a metric of which more is better: all of them are shares


class Scored(Protocol):
    """A run of an entry, or of an evaluation."""

    @property
    def seed(self) -> int:
        """Seed of the run."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Name of a metric -> value."""

    @property
    def bounds(self) -> Mapping[str, float | None]:
        """Name of a metric -> lower bound; not all metrics have one."""


def score(runs: Sequence[Scored], fifo: Sequence[Scored], metric: str) -> Interval:
    """Return the score of an entry, with its 95 % bootstrap interval over seeds.

    It is the share of the gap between FIFO and the bound that the runs close: ``sum of (fifo - run) / sum of (fifo -
    bound)`` over all seeds, in the same order. If more is better, as for the share of deadlines met, the bound is 1. A
    score of 0 means equal to FIFO, a negative score worse than FIFO, and 1 equal to the bound, which may be impossible
    to reach. A seed on which FIFO is near the bound has little weight.

    Raises
    ------
    GpuschedError : the seeds differ, or FIFO is at the bound on every seed
    """
    _same_seeds(runs, fifo)
    first_in = _values(fifo, metric)
    gain = first_in - _values(runs, metric)
    if more_is_better(metric):
        return bootstrap_ratio(-gain, MOST - first_in)
    bound = np.array([run.bounds[metric] for run in fifo], float)
    return bootstrap_ratio(gain, np.maximum(first_in - bound, 0.0))


def more_is_better(metric: str) -> bool:
    """Whether larger values of a metric are better."""
    return COLUMN_OF[metric].better == "max"


def compared(runs: Sequence[Scored], rival: Sequence[Scored], metric: str) -> Interval:
    """Return the geometric mean over seeds of a metric / the rival's metric on the same seed, with its 95 % interval.

    A value below 1 means that the metric is smaller than the rival's.

    Raises
    ------
    GpuschedError : the seeds differ, or a value is not positive
    """
    _same_seeds(runs, rival)
    return paired_ratio(_values(runs, metric), _values(rival, metric))


def _values(runs: Sequence[Scored], metric: str) -> np.ndarray:
    return np.array([run.metrics[metric] for run in runs], float)


def _same_seeds(runs: Sequence[Scored], others: Sequence[Scored]) -> None:
    if [run.seed for run in runs] != [other.seed for other in others]:
        raise GpuschedError("runs on different seeds cannot be compared: give the same seeds, in the same order")
