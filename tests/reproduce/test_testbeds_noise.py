"""Rows of noise and start-up: their constants are those of the product, and what they predict follows from them."""

from __future__ import annotations

import csv
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from gpusched_env.problem.instance import PREEMPTION_COSTS
from gpusched_env.traces.noise import NOISE, START_LATENCIES
from studies.reproduce.testbeds import noise, start_up
from studies.reproduce.testbeds.playing import measured_of
from studies.reproduce.testbeds.reading import SHIPPED, Measured, UnplayableError


@pytest.fixture
def measured() -> Measured:
    return measured_of()[1]


@pytest.fixture
def constants(measured: Measured) -> dict[str, Any]:
    found = {family.__name__.split(".")[-1]: family.calibrate(measured) for family in (noise, start_up)}
    measured.frozen = True
    return found


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((SHIPPED / name).read_text().splitlines()))


def test_the_product_has_the_calibrated_constants(constants: dict[str, Any]) -> None:
    assert constants["noise"] == NOISE
    assert tuple(constants["start_up"]["container_s"]) == START_LATENCIES["container"][1]
    new_s, container_s = constants["start_up"]["process_s"], START_LATENCIES["container"][1][2]
    assert PREEMPTION_COSTS["process"] == (0.0, new_s)
    assert PREEMPTION_COSTS["container"] == pytest.approx((0.0, new_s + container_s))
    muri = [float(row["start_s"]) for row in rows("muri_startup_by_model.csv") if row["model"] != "all"]
    assert START_LATENCIES["process"][1] == pytest.approx((min(muri), np.median(muri), max(muri)))


def test_coefficients_of_variation_are_those_of_ten_normal_numbers() -> None:
    assert pytest.approx(math.sqrt(chi2.ppf(0.5, 9) / 10), abs=5e-6) == noise.MEDIAN_COV


def test_both_splits_keep_synchronous_jobs_by_the_same_rule(constants: dict[str, Any], measured: Measured) -> None:
    kept = [row for row in rows("pai_worker_cov_by_job.csv") if float(row["median_cov"]) <= noise.SYNCHRONOUS]
    sigmas = [float(row["median_cov"]) / noise.MEDIAN_COV for row in kept if row["split"] == "calibrate"]
    assert math.hypot(NOISE["worker"], NOISE["step"]) == pytest.approx(np.mean(sigmas), rel=2e-4)
    points, by_rank = noise.play("N1", "calibrated", constants["noise"], measured)
    assert sorted(points.groups) == sorted(row["job"] for row in kept if row["split"] == "test")
    assert np.unique(points.predicted).size == 1  # nothing tells which job is noisier
    assert by_rank.predicted.mean() == pytest.approx(points.predicted[0])
    assert (np.diff(by_rank.measured) >= 0).all()
    predicted, found = points.totals["mean over jobs"]
    assert abs(predicted / found - 1.0) <= 0.03


def test_a_coefficient_tells_the_slowest_of_ten_workers_within_three_per_cent(measured: Measured) -> None:
    measured.frozen = True
    try:
        link = noise.play("N1", "floor", {}, measured)[0]
    except UnplayableError as error:
        pytest.skip(str(error))
    assert np.abs(link.predicted / link.measured - 1.0).max() <= 0.03
    assert link.measured == pytest.approx([1.11, 1.13, 1.11], abs=0.0075)


def test_costs_of_switches(constants: dict[str, Any], measured: Measured) -> None:
    own = constants["start_up"]
    for column, seconds in {"as is": 60.0, "rules": 8.0, "calibrated": 29.8}.items():
        (points,) = start_up.play("U1", column, own, measured)
        assert set(points.predicted) == {seconds}
        flow = np.array(points.groups) == "ElasticFlow A100"
        assert flow.sum() == 25
        assert (points.measured[flow].min(), points.measured[flow].max()) == (pytest.approx(0.69), pytest.approx(4.239))
    (floor,) = start_up.play("U1", "floor", own, measured)
    assert dict(zip(floor.groups, zip(floor.predicted, floor.measured, strict=True), strict=True))["vit"] == (
        105.0,
        4.2,
    )


def test_the_nearly_empty_cluster_has_no_queue_and_latencies_are_those_of_the_first_half(
    constants: dict[str, Any], measured: Measured
) -> None:
    (as_is,) = start_up.play("Q1", "as is", constants["start_up"], measured)
    assert (as_is.predicted == 0.0).all()
    (points,) = start_up.play("Q1", "calibrated", constants["start_up"], measured)
    first = [float(row["latency_s"]) for row in rows("kalos_start_latency.csv")[:400]]
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(points.predicted, quantile) == pytest.approx(np.quantile(first, quantile), rel=0.02)
    assert points.measured.tolist() == [float(row["latency_s"]) for row in rows("kalos_start_latency.csv")[400:]]


@pytest.mark.parametrize(
    ("row", "missing"), [("Q2", "virtual cluster.*columns vc and start_time"), ("Q3", "no log of load")]
)
def test_rows_that_cannot_be_played_say_what_is_missing(row: str, missing: str) -> None:
    with pytest.raises(UnplayableError, match=missing):
        start_up.play(row, "as is", {}, measured_of()[1])
