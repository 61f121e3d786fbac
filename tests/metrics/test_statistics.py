"""Intervals over seeds, and the documentation of columns."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import (
    COLUMNS,
    bootstrap_mean,
    columns_markdown,
    mean_interval,
    paired_difference,
    paired_ratio,
)


def test_known_interval() -> None:
    """Five values: t(0.975, 4) = 2.776445; standard error sqrt(2.5 / 5)."""
    interval = mean_interval([1, 2, 3, 4, 5])
    assert interval.mean == 3
    assert interval.half_width == pytest.approx(2.7764451052 * math.sqrt(0.5))
    assert (interval.low + interval.high) / 2 == pytest.approx(3)


def test_one_value_has_no_interval() -> None:
    interval = mean_interval([7.0])
    assert (interval.mean, interval.count) == (7.0, 1)
    assert math.isnan(interval.low)
    assert math.isnan(interval.half_width)
    assert math.isnan(mean_interval([]).mean)
    assert math.isnan(mean_interval([1.0, math.nan]).mean)


def test_the_interval_covers_the_mean_at_its_nominal_rate() -> None:
    samples = np.random.default_rng(0).normal(10.0, 3.0, (2000, 4))
    covered = [interval.low <= 10.0 <= interval.high for interval in map(mean_interval, samples)]
    assert 0.935 < np.mean(covered) < 0.965


def test_pairing_removes_the_variance_that_seeds_share() -> None:
    rng = np.random.default_rng(1)
    seeds = rng.lognormal(8.0, 1.0, 6)
    better, worse = seeds, seeds * 1.1 * rng.normal(1.0, 0.001, 6)
    ratio = paired_ratio(worse, better)
    assert ratio.low > 1.09
    assert ratio.high < 1.11
    assert paired_difference(worse, better).mean == pytest.approx((worse - better).mean())
    assert mean_interval(worse).low < mean_interval(better).high  # unpaired, the intervals overlap


def test_pairs_must_match() -> None:
    with pytest.raises(GpuschedError, match="same seeds"):
        paired_difference([1, 2], [1, 2, 3])
    with pytest.raises(GpuschedError, match="positive"):
        paired_ratio([1, 0], [1, 2])
    with pytest.raises(GpuschedError, match="finite"):
        paired_ratio([1, math.inf], [1, math.inf])


def test_ratios_that_overflow_have_a_mean() -> None:
    ratio = paired_ratio([1e200, 1e-200, 2.0], [1e-200, 1e200, 2.0])
    assert (ratio.mean, ratio.low, ratio.high) == (pytest.approx(1.0), 0.0, math.inf)


def test_every_column_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert columns_markdown() in page, "docs/metrics.md differs from COLUMNS: paste columns_markdown() into it"
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(column.unit == "s" for column in COLUMNS if column.name.endswith("_s"))


def test_a_bootstrap_interval_of_normal_values_is_close_to_students() -> None:
    values = np.random.default_rng(0).normal(10.0, 2.0, 200)
    boot, student = bootstrap_mean(values), mean_interval(values)
    assert boot.mean == student.mean
    assert boot.low == pytest.approx(student.low, abs=0.03)
    assert boot.high == pytest.approx(student.high, abs=0.03)
    assert bootstrap_mean(values) == boot


def test_a_bootstrap_interval_covers_the_mean_of_skewed_values() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(300):
        interval = bootstrap_mean(rng.exponential(1.0, 60))
        hits += interval.low <= 1.0 <= interval.high
    assert 0.88 <= hits / 300 <= 0.98  # below 95 % because of the skew


def test_a_bootstrap_interval_of_equal_values_is_a_point_and_of_one_value_nan() -> None:
    point = bootstrap_mean([2.0, 2.0, 2.0])
    assert (point.low, point.mean, point.high) == (2.0, 2.0, 2.0)
    one = bootstrap_mean([2.0])
    assert (one.mean, one.count) == (2.0, 1)
    assert math.isnan(one.low)
