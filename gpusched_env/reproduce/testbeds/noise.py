"""Noise of ten workers of Alibaba PAI (row N1): how much slower than the mean the slowest worker of a step is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.portable.arrays import normal_quantile
from gpusched_env.reproduce.testbeds.reading import Columns, Measured, Points
from gpusched_env.traces.noise import expected_slowest

COVS: Final = "pai_worker_cov_by_job"
STEPS: Final = "pai_steps_"  # and the number of a job, 1 to 3
QUANTITY: Final = "time [mean step of a worker]"
WORKERS: Final = 10
# Median of the coefficient of variation (divisor n) of ten normal numbers of sigma 1: sqrt(median of chi^2_9 / 10).
MEDIAN_COV: Final = 0.91343
# Share of noise between workers: log-sigma 0.04 of 0.05, as between and within the workers of the jobs with steps. The
# file of coefficients cannot tell it: their expectation depends only on the sum of squares.
BETWEEN: Final = 0.8
# Largest median coefficient of variation of a job that counts as synchronous, of both splits; jobs above it are
# asynchronous or have workers of several kinds. Chosen before any fit.
SYNCHRONOUS: Final = 0.2


def calibrate(measured: Measured) -> dict[str, Any]:
    """Fit the noise to the synchronous jobs of ``calibrate``: mean of its log-sigma, and how much it differs."""
    covs = measured.calibration(COVS, ["median_cov"], lambda told: told["split"] == "calibrate")["median_cov"]
    sigmas = covs[covs <= SYNCHRONOUS] / MEDIAN_COV
    step = sigmas.mean() / np.sqrt(1 + BETWEEN**2)
    found = {"worker": BETWEEN * step, "step": step, "jobs": np.log(sigmas).std()}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict the slowest of ten workers for the synchronous jobs of the split ``test``: for each, and by rank.

    The file has coefficients of variation, so what was measured is E[max] of lognormal times with such a coefficient.
    The floor is the error of this step on the jobs whose times of all workers are published.
    """
    if column == "rules":
        return []
    if column == "floor":
        return [_link(measured)]
    covs = measured.test(COVS, ["job", "median_cov"], lambda told: told["split"] == "test")
    at = np.argsort(covs["median_cov"], kind="stable")
    at = at[covs["median_cov"][at] <= SYNCHRONOUS]
    jobs, found = covs["job"][at].tolist(), slowest_of(covs["median_cov"][at])
    sigma, spread = 0.0, 0.0
    if column == "calibrated":
        sigma, spread = np.hypot(constants["worker"], constants["step"]), constants["jobs"]
    ranks = (np.arange(len(at)) + 0.5) / len(at)
    levels = np.exp(spread * normal_quantile(ranks) - 0.5 * spread**2)
    alike = np.full(len(at), expected_slowest(WORKERS, sigma * levels).mean())
    by_rank = Points(f"{QUANTITY}, jobs by rank", jobs, expected_slowest(WORKERS, sigma * levels), found)
    totals = {"mean over jobs": (float(alike[0]), float(found.mean()))}
    return [Points(QUANTITY, jobs, alike, found, totals), by_rank]


def slowest_of(cov: np.ndarray) -> np.ndarray:
    """float64 [n]: mean over steps of the slowest of ten workers / their mean, of such median coefficients [n]."""
    return expected_slowest(WORKERS, cov / MEDIAN_COV)


def _link(measured: Measured) -> Points:
    """Predict the mean of the slowest worker from the median coefficient of variation, where both are known."""
    predicted, found = [], []
    for number in (1, 2, 3):
        steps = measured.test(f"{STEPS}{number}", ["time", "batch_time_norm"], _all)
        times = _complete(steps)
        mean = times.mean(axis=1)
        predicted.append(np.median(times.std(axis=1) / mean))
        found.append(float((times.max(axis=1) / mean).mean()))
    return Points(QUANTITY, ["job 1", "job 2", "job 3"], slowest_of(np.array(predicted)), np.array(found))


def _all(told: Columns) -> np.ndarray:
    return np.ones(len(next(iter(told.values()))), bool)


def _complete(steps: Columns) -> np.ndarray:
    """float64 [steps, WORKERS]: times of the steps of which all workers told theirs."""
    order = np.argsort(steps["time"], kind="stable")
    step, counts = np.unique(steps["time"], return_counts=True)
    whole = np.isin(steps["time"][order], step[counts == WORKERS])
    return steps["batch_time_norm"][order][whole].reshape(-1, WORKERS)
