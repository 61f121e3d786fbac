"""Scores of entries, comparisons of two entries, paired by seed, and ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import COLUMN_OF, Interval, bootstrap_ratio, paired_ratio
from gpusched_env.portable import arrays

if TYPE_CHECKING:
    from gpusched_env.leaderboard.tracks import Track

MOST: Final = 1.0  # bound of a metric of which more is better: all of them are shares
ALIKE: Final = 1.02  # on a track with a reference, entries whose ratio is at most this share a rank


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


def score_on(track: Track, runs: Sequence[Scored], base: Sequence[Scored]) -> Interval:
    """Return the score of an entry on a track: :func:`compared` with the reference, or without one :func:`score`.

    ``base`` : the runs of ``track.base``.
    """
    return compared(runs, base, track.metric) if track.reference else score(runs, base, track.metric)


def ranked(entries: Mapping[str, Sequence[Scored]], track: Track) -> dict[str, int]:
    """Return key -> rank of entries that are ranked together, best first; equal ones stay in their order.

    Without a reference, the rank by the mean of the metric; equal means have the same rank. With a reference, entries
    are sorted by the geometric mean of the metric. The best entry has rank 1; each entry shares the rank of the entry
    before it unless it is :func:`worse` than the first entry of that rank. Then its rank is 1 + the number of entries
    before it. Entries whose metric is undefined on a seed share the last rank.
    """
    sign = -1.0 if more_is_better(track.metric) else 1.0
    scale = arrays.log if track.reference else np.asarray
    found = {key: _values(runs, track.metric) for key, runs in entries.items()}
    means = {key: math.inf if np.isnan(x).any() else sign * arrays.mean(scale(x)) for key, x in found.items()}
    ranks: dict[str, int] = {}
    first = ""  # of the rank
    for number, key in enumerate(sorted(entries, key=means.__getitem__), 1):
        differs = not first or means[key] > means[first]
        if first and track.reference and math.isfinite(means[key]):
            differs = worse(entries[key], entries[first], track.metric)
        ranks[key] = number if differs else ranks[first]
        first = key if differs else first
    return ranks


class _Reached(NamedTuple):
    seed: int
    metrics: Mapping[str, float | None]
    bounds: Mapping[str, float | None]


def at_bound(runs: Sequence[Scored], metric: str) -> list[Scored]:
    """Return runs that reach the bound; they have the metrics that have bounds, and the given one."""
    most = {metric: MOST} if more_is_better(metric) else {}
    return [_Reached(run.seed, {**run.bounds, **most}, run.bounds) for run in runs]


def worse(runs: Sequence[Scored], rival: Sequence[Scored], metric: str) -> bool:
    """Whether an entry differs from a better one: the paired interval excludes 1, and the ratio is above ALIKE."""
    ratio = compared(rival, runs, metric) if more_is_better(metric) else compared(runs, rival, metric)
    return ratio.low > 1.0 and ratio.mean > ALIKE


def score(runs: Sequence[Scored], fifo: Sequence[Scored], metric: str) -> Interval:
    """Return the score of an entry, with its 95 % bootstrap interval over seeds.

    It is the share of the gap between FIFO and the bound that the runs close: ``sum of (fifo - run) / sum of (fifo -
    bound)`` over all seeds, in the same order. If more is better, as for the share of deadlines met, the bound is 1. A
    score of 0 means equal to FIFO, a negative score worse than FIFO, and 1 equal to the bound, which may be impossible
    to reach. A seed on which FIFO is near the bound has little weight.
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
    """
    _same_seeds(runs, rival)
    return paired_ratio(_values(runs, metric), _values(rival, metric))


def _values(runs: Sequence[Scored], metric: str) -> np.ndarray:
    return np.array([run.metrics[metric] for run in runs], float)


def _same_seeds(runs: Sequence[Scored], others: Sequence[Scored]) -> None:
    if [run.seed for run in runs] != [other.seed for other in others]:
        raise GpuschedError("runs on different seeds cannot be compared: give the same seeds, in the same order")
