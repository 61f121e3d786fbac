"""Errors of predicted values against measured ones, with 95 % bootstrap intervals over groups.

Resamples are counts of how often each value was drawn, so that one formula gives a metric and its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.metrics import Interval
from gpusched_env.metrics.statistics import CONFIDENCE
from gpusched_env.reproduce.testbeds.reading import Points

RESAMPLES: Final = 1_000
LONG_WAIT_S: Final = 60.0
WHOLE_GROUPS: Final = ("JCT", "rate")  # of other quantities, values are drawn again from each group that was drawn


@dataclass(frozen=True)
class Score:
    """One metric. Errors are shares, 0.01 = 1 %, except those of rates ("MAE"), which are in the unit of the rates.

    Parameters
    ----------
    metric : the quantity, the name and the part, such as "time error median, > 256 MiB"
    interval : the metric, and its interval: NaN for fewer than two groups, and for totals
    group : "" = of all values
    """

    metric: str
    interval: Interval
    group: str = ""

    @property
    def loss(self) -> float:
        """How far the metric is from that of a perfect prediction."""
        return 1.0 - self.interval.mean if " rank" in self.metric else abs(self.interval.mean)

    def text(self, value: float | None = None, signed: bool = True) -> str:
        """Return the metric, or another value of it, in per cent, or as a number if it is a rank or an error of rates."""
        value = self.interval.mean if value is None else value
        if math.isnan(value):
            return "-"
        if " rank" in self.metric or " MAE" in self.metric:
            return f"{value:.3f}"
        has_sign = signed and " error" not in self.metric and " refused" not in self.metric
        return f"{100 * value:{'+' if has_sign else ''}.1f} %" if has_sign else f"{100 * abs(value):.1f} %"


@dataclass(frozen=True)
class Sample:
    """Values and resamples of them.

    Parameters
    ----------
    predicted, measured : float64 [n]
    counts : int64 [resamples, n], how often each value was drawn
    """

    predicted: np.ndarray
    measured: np.ndarray
    counts: np.ndarray

    def mean(self, values: np.ndarray) -> np.ndarray:
        """float64 [resamples]: means of values, float64 [n] or [resamples, n]."""
        means: np.ndarray = (self.counts * values).sum(axis=1) / self.counts.sum(axis=1)
        return means

    def quantile(self, values: np.ndarray, share: float) -> np.ndarray:
        """float64 [resamples]: quantiles as those of ``numpy.quantile``."""
        order = np.argsort(values, kind="stable")
        ends = self.counts[:, order].cumsum(axis=1)
        place = share * (ends[:, -1] - 1)
        low, high = (values[order][(ends <= at[:, None]).sum(axis=1)] for at in (np.floor(place), np.ceil(place)))
        return np.where(low == high, low, low + (place - np.floor(place)) * (high - low))

    def rank(self) -> np.ndarray:
        """float64 [resamples]: rank correlation of Spearman, ties with their mean rank."""
        ranks = []
        for values in (self.predicted, self.measured):
            at = np.unique(values, return_inverse=True)[1]
            order = np.argsort(at, kind="stable")
            tied = np.add.reduceat(self.counts[:, order], np.flatnonzero(np.diff(at[order], prepend=-1)), axis=1)
            rank = (tied.cumsum(axis=1) - (tied - 1) / 2)[:, at]
            ranks.append(rank - self.mean(rank)[:, None])
        a, b = ranks
        return self.mean(a * b) / np.sqrt(self.mean(a * a) * self.mean(b * b))

    def metrics(self, kind: str) -> dict[str, np.ndarray]:
        """Return the metrics of a kind of quantity, float64 [resamples] each."""
        p, m = self.predicted, self.measured
        error = np.abs(p / m - 1.0)
        sizes = {"error median": self.quantile(error, 0.5), "error p90": self.quantile(error, 0.9)}
        if kind == "JCT":
            signed = {f"p{100 * q:.0f}": self.quantile(p, q) / self.quantile(m, q) - 1.0 for q in (0.5, 0.99)}
            means = self.mean(p) / self.mean(m) - 1.0
            return {"mean": means, "median": signed["p50"], "p99": signed["p99"], "rank": self.rank(), **sizes}
        if kind == "rate":
            return {"MAE": self.mean(np.abs(p - m)), **sizes, "rank": self.rank()}
        if kind == "wait":
            return {
                "mean": self.mean(p) / self.mean(m) - 1.0,
                "p90": self.quantile(p, 0.9) / self.quantile(m, 0.9) - 1.0,
                "share above 60 s": self.mean(1.0 * (p > LONG_WAIT_S)) - self.mean(1.0 * (m > LONG_WAIT_S)),
            }
        return {"bias": self.quantile(p / m - 1.0, 0.5), **sizes, "error worst": self.quantile(error, 1.0)}


def score(all_points: Sequence[Points]) -> dict[str, Score]:
    """Return the scores of a row under one column, by metric; those of a group end in " of GROUP".

    Raises
    ------
    ValueError : two elements have the same quantity, or lengths differ
    """
    found: dict[str, Score] = {}
    for points in all_points:
        new = {one.metric + f" of {one.group}" * bool(one.group): one for one in _scores(points)}
        if both := sorted(set(found) & set(new)):
            raise ValueError(f"two results are named {both[0]!r}: name the part of each after a comma in its quantity")
        found |= new
    return found


def _scores(points: Points) -> list[Score]:
    name, _, part = points.quantity.partition(",")
    what = name.partition(" [")[0]
    totals = {f"{key.partition(' [')[0]}{',' * bool(part)}{part}": pair for key, pair in points.totals.items()}
    found = [Score(key, Interval(p / m - 1.0, math.nan, math.nan, 1)) for key, (p, m) in totals.items()]
    groups, predicted, measured = np.array(points.groups, str), points.predicted, points.measured
    if not len(groups) == len(predicted) == len(measured):
        raise ValueError(f"{points.quantity}: lengths differ: {len(groups)}, {len(predicted)}, {len(measured)}")
    answered = ~np.isnan(predicted)

    def all_of(rows: np.ndarray, group: str = "") -> list[Score]:
        kept, count = rows & answered, int(rows.sum())
        refused = 1.0 - float(kept.sum()) / count
        own = {"refused": Interval(refused, math.nan, math.nan, count)} if refused else {}
        if kept.any():
            own |= _intervals(Sample(predicted[kept], measured[kept], _drawn(groups[kept], what)), what)
        return [Score(f"{what} {key}{',' * bool(part)}{part}", one, group) for key, one in own.items()]

    if len(groups):
        found[:0] = all_of(np.ones(len(groups), bool))
    names = list(dict.fromkeys(groups.tolist()))
    if what not in WHOLE_GROUPS and 1 < len(names) < len(groups):
        found += [one for name in names for one in all_of(groups == name, name)]
    return found


def _intervals(sample: Sample, kind: str) -> Mapping[str, Interval]:
    """Return the metrics of the first row of counts, with intervals of the others."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a measured value may be 0, and all values may be equal
        metrics = sample.metrics(kind)
    ends = ((1.0 - CONFIDENCE) / 2, (1.0 + CONFIDENCE) / 2)
    found = {}
    for name, values in metrics.items():
        drawn = values[1:][np.isfinite(values[1:])]
        low, high = np.quantile(drawn, ends).tolist() if len(drawn) else (math.nan, math.nan)
        found[name] = Interval(float(values[0]), low, high, len(sample.measured))
    return found


def _drawn(groups: np.ndarray, what: str) -> np.ndarray:
    """int64 [1 + resamples, n]: once each value, then how often each was drawn; no resample of one value alone.

    A resample draws groups. Unless groups count as a whole, it then draws as many values as they have from each of them.
    """
    names, own, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    rng, once = np.random.default_rng(0), np.ones((1, len(groups)), np.int64)
    whole = what in WHOLE_GROUPS or len(names) == len(groups)
    if len(names if whole else groups) < 2:
        return once
    drawn = rng.integers(len(names), size=(RESAMPLES, len(names)))
    times = np.stack([np.bincount(row, minlength=len(names)) for row in drawn])
    counts = times[:, own]
    for group, size in enumerate(sizes.tolist() if not whole else ()):
        resample = np.repeat(np.arange(RESAMPLES), times[:, group] * size)
        flat = np.bincount(resample * size + rng.integers(size, size=len(resample)), minlength=RESAMPLES * size)
        counts[:, own == group] = flat.reshape(RESAMPLES, size)
    return np.concatenate([once, counts])
