"""Noise of ten workers of Alibaba PAI (row N1): how much slower than the mean the slowest worker of a step is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.portable.arrays import normal_quantile
from gpusched_env.traces.noise import slowest
from studies.reproduce.testbeds.reading import Measured, Points

COVS: Final = "pai_worker_cov_by_job"
QUANTITY: Final = "time [mean step of a worker]"
WORKERS: Final = 10
# Median of the coefficient of variation (divisor n) of ten normal numbers of sigma 1: sqrt(median of chi^2_9 / 10).
MEDIAN_COV: Final = 0.91339
# Log-sigma of workers / that of steps, as in the jobs whose steps are published. The coefficients cannot tell it: what
# they say depends only on the sum of squares.
BETWEEN: Final = 0.8
# Largest median coefficient of a job that counts as synchronous, in both splits; jobs above it are asynchronous or have
# workers of several kinds. Chosen before any fit.
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
    if column in ("rules", "floor"):
        return [] if column == "rules" else [_link(measured)]
    table = measured.test(COVS, ["job", "median_cov"], lambda told: told["split"] == "test")
    at = np.argsort(table["median_cov"], kind="stable")
    at = at[table["median_cov"][at] <= SYNCHRONOUS]
    jobs, found = table["job"][at].tolist(), of_ten(table["median_cov"][at] / MEDIAN_COV)
    levels = np.zeros(len(at))
    if column == "calibrated":
        sigma, spread = np.hypot(constants["worker"], constants["step"]), constants["jobs"]
        ranks = (np.arange(len(at)) + 0.5) / len(at)
        levels = sigma * np.exp(spread * normal_quantile(ranks) - 0.5 * spread**2)
    by_rank = of_ten(levels)
    alike = np.full(len(at), by_rank.mean())
    totals = {"mean over jobs": (float(alike[0]), float(found.mean()))}
    return [Points(QUANTITY, jobs, alike, found, totals), Points(f"{QUANTITY}, by rank", jobs, by_rank, found)]


def of_ten(sigma: np.ndarray) -> np.ndarray:
    """float64 [n]: E[max] of ten lognormal times of mean 1 and these log-sigmas [n]."""
    return slowest(np.zeros((WORKERS, len(sigma))), sigma)


def _link(measured: Measured) -> Points:
    """Predict the mean of the slowest worker from the median coefficient of variation, where both are known."""
    covs, found, jobs = [], [], (1, 2, 3)
    for job in jobs:
        columns = ["worker", "time", "batch_time_norm"]
        worker, step, seconds = measured.test(f"pai_steps_{job}", columns, lambda told: told["worker"] >= 0).values()
        times = np.full((int(step.max()) + 1, WORKERS), np.nan)
        times[step.astype(int), worker.astype(int)] = seconds
        times = times[~np.isnan(times).any(axis=1)]  # the steps of which all workers told theirs
        covs.append(np.median(times.std(axis=1) / times.mean(axis=1)))
        found.append((times.max(axis=1) / times.mean(axis=1)).mean())
    return Points(QUANTITY, [f"job {job}" for job in jobs], of_ten(np.array(covs) / MEDIAN_COV), np.array(found))
