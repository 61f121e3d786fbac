"""Errors of predicted values against measured ones, with 95 % bootstrap intervals over groups.

A resample is how often each value was drawn, so that one formula gives a metric and its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.metrics import Interval
from gpusched_env.metrics.statistics import CONFIDENCE
from studies.reproduce.testbeds.reading import Points

RESAMPLES: Final = 1_000
LONG_WAIT_S: Final = 60.0
WHOLE_GROUPS: Final = ("JCT", "rate")  # of other quantities, values are drawn again in each group that was drawn


@dataclass(frozen=True)
class Score:
    """A metric of all values, or of a group, and its interval; NaN = it has none.

    Errors are shares, 0.01 = 1 %, except the mean absolute error of rates ("MAE"), which is in their unit.
    """

    metric: str  # with the quantity and its part: "time error median, to 64 KiB"
    kind: str  # "error median"
    value: Interval
    group: str = ""

    @property
    def loss(self) -> float:
        """How far the metric is from that of a perfect prediction."""
        return 1.0 - self.value.mean if self.kind == "rank" else abs(self.value.mean)

    def text(self, value: float | None = None) -> str:
        """Return the metric, or an end of its interval, in per cent unless it is a rank or a mean absolute error."""
        value = self.value.mean if value is None else value
        if math.isnan(value):
            return "-"
        if self.kind in ("rank", "MAE"):
            return f"{value:.3f}"
        return f"{100 * value:.1f} %" if self.kind.startswith(("error", "refused")) else f"{100 * value:+.1f} %"


@dataclass(frozen=True)
class Sample:
    """Predicted and measured values, float64 [n], and how often resamples drew each, int64 [resamples, n]."""

    predicted: np.ndarray
    measured: np.ndarray
    counts: np.ndarray

    def mean(self, values: np.ndarray) -> np.ndarray:
        """float64 [resamples]: means of values, float64 [n] or [resamples, n]."""
        means: np.ndarray = (self.counts * values).sum(axis=1) / self.counts.sum(axis=1)
        return means

    def quantiles(self, values: np.ndarray, *shares: float) -> list[np.ndarray]:
        """Return quantiles as those of ``numpy.quantile``, float64 [resamples] for each share."""
        order = np.argsort(values, kind="stable")
        ascending, ends = values[order], self.counts[:, order].cumsum(axis=1, dtype=np.int32)
        found = []
        for place in (share * (ends[:, -1] - 1) for share in shares):
            low, high = (ascending[(ends <= at[:, None]).sum(axis=1)] for at in (np.floor(place), np.ceil(place)))
            found.append(np.where(low == high, low, low + (place - np.floor(place)) * (high - low)))
        return found

    def rank(self) -> np.ndarray:
        """float64 [resamples]: rank correlation of Spearman; ties have their mean rank."""
        ranks = []
        for values in (self.predicted, self.measured):
            at = np.unique(values, return_inverse=True)[1]
            order = np.argsort(at, kind="stable")
            tied = np.add.reduceat(self.counts[:, order], np.flatnonzero(np.diff(at[order], prepend=-1)), axis=1)
            rank = (tied.cumsum(axis=1) - (tied - 1) / 2)[:, at]
            ranks.append(rank - self.mean(rank)[:, None])
        a, b = ranks
        return self.mean(a * b) / np.sqrt(self.mean(a * a) * self.mean(b * b))

    def metrics(self, what: str) -> dict[str, np.ndarray]:
        """Return the metrics of a quantity, float64 [resamples] each."""
        p, m = self.predicted, self.measured
        if what in ("JCT", "wait"):
            shares = (0.5, 0.9, 0.99)
            of_both = zip(self.quantiles(p, *shares), self.quantiles(m, *shares), strict=True)
            median, p90, p99 = (of_p / of_m - 1.0 for of_p, of_m in of_both)
            mean = self.mean(p) / self.mean(m) - 1.0
        if what == "wait":
            long = self.mean(1.0 * (p > LONG_WAIT_S)) - self.mean(1.0 * (m > LONG_WAIT_S))
            return {"mean": mean, "p90": p90, "share above 60 s": long}
        of_all = self.quantiles(np.abs(p / m - 1.0), 0.5, 0.9)
        errors = dict(zip(("error median", "error p90"), of_all, strict=True))
        if what == "JCT":
            return {"mean": mean, "median": median, "p99": p99, "rank": self.rank(), **errors}
        if what == "rate":
            return {"MAE": self.mean(np.abs(p - m)), **errors, "rank": self.rank()}
        worst = np.abs(p / m - 1.0).max(keepdims=True)  # resamples say nothing of the worst value
        return {"bias": self.quantiles(p / m - 1.0, 0.5)[0], **errors, "error worst": worst}


def score(results: Sequence[Points]) -> dict[str, Score]:
    """Return the scores of a row under one column, by name; names of metrics of groups end in " of GROUP".

    Raises
    ------
    ValueError : two results have the same quantity, or lengths differ
    """
    found: dict[str, Score] = {}
    for points in results:
        if not len(points.groups) == len(points.predicted) == len(points.measured):
            raise ValueError(f"{points.quantity}: groups, predicted and measured values differ in number")
        for one in _scores(points):
            name = one.metric + f" of {one.group}" * bool(one.group)
            if name in found:
                raise ValueError(f"two results give {name!r}: name a part after a comma in each quantity")
            found[name] = one
    return found


def _scores(points: Points) -> list[Score]:
    quantity, comma, part = points.quantity.partition(",")
    what, groups = quantity.partition(" [")[0], np.array(points.groups, str)
    answered, found = ~np.isnan(points.predicted), []
    names = list(dict.fromkeys(groups.tolist()))
    inside = names if what not in WHOLE_GROUPS and 1 < len(names) < len(groups) else []
    for group in ["", *inside] if names else []:
        rows = groups == group if group else np.ones(len(groups), bool)
        kept, count = rows & answered, int(rows.sum())
        own = {"refused": _interval(1.0 - kept[rows].mean(keepdims=True), count)} if not answered[rows].all() else {}
        if kept.any():
            sample = Sample(points.predicted[kept], points.measured[kept], _drawn(groups[kept], what))
            with np.errstate(divide="ignore", invalid="ignore"):  # a measured value may be 0, and all may be equal
                own |= {name: _interval(values, count) for name, values in sample.metrics(what).items()}
        found += [Score(f"{what} {name}{comma}{part}", name, one, group) for name, one in own.items()]
    for name, (predicted, measured) in points.totals.items():
        total = _interval(np.array([predicted / measured - 1.0]), 1)
        found.append(Score(f"{name.partition(' [')[0]}{comma}{part}", "total", total))
    return found


def _interval(values: np.ndarray, count: int) -> Interval:
    """Return the first value, with an interval of the others."""
    drawn = values[1:][np.isfinite(values[1:])]
    ends = ((1.0 - CONFIDENCE) / 2, (1.0 + CONFIDENCE) / 2)
    low, high = np.quantile(drawn, ends).tolist() if len(drawn) else (math.nan, math.nan)
    return Interval(float(values[0]), low, high, count)


def _drawn(groups: np.ndarray, what: str) -> np.ndarray:
    """int64 [1 + resamples, n]: each value once, then how often each was drawn; nothing is drawn of a single group.

    A resample draws groups. Unless groups count as a whole, it then draws in each as many values as the group has.
    """
    names, own, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    rng, once = np.random.default_rng(0), np.ones((1, len(groups)), np.int64)
    whole = what in WHOLE_GROUPS or len(names) == len(groups)
    if len(names if whole else groups) < 2:
        return once
    drawn = rng.integers(len(names), size=(RESAMPLES, len(names)))
    times = np.stack([np.bincount(row, minlength=len(names)) for row in drawn])
    counts = times[:, own]
    for group, size in enumerate([] if whole else sizes.tolist()):
        resample = np.repeat(np.arange(RESAMPLES), times[:, group] * size)
        flat = np.bincount(resample * size + rng.integers(size, size=len(resample)), minlength=RESAMPLES * size)
        counts[:, own == group] = flat.reshape(RESAMPLES, size)
    return np.concatenate([once, counts])
