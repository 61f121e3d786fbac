"""Fit Pollux's model of the iteration time to measurements."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.throughput import Throughput, is_measurement, kinds

GAMMA: Final = (1.0, 10.0)  # bounds; 10 approximates full overlap (Pollux)
GAMMA_STARTS: Final = (1.2, 3.0)  # two starts of the descent; the better result is kept
NEGLIGIBLE: Final = 1e-5  # of the gradient time; smaller parameters become 0, because in a flat minimum they are noise
PRIOR: Final = 1.1  # parameters across machines / in one machine, if only the latter were measured (Pollux's code)
FOLDS: Final = 5


def fit_throughput(rows: np.ndarray) -> Throughput:
    """Fit the model by least squares of the logarithms of gradient time and iteration time, as in Pollux.

    Single GPUs, gangs in one machine and gangs across machines have equal total weight, whatever their numbers of rows:
    most measurements are across machines, but most jobs are not. Deviation: Pollux adds small penalties on gamma and on
    the betas, for jobs with few measurements; this fit does not.

    Parameters
    ----------
    rows : MEASUREMENT_DTYPE [R]; gradients took iteration_s - sync_s. A parameter on which no row depends is 0 (gamma:
        1). Without rows across machines, alpha_node and beta_node are 1.1 x those in one machine

    Raises
    ------
    WorkloadError : no row, or a row that :func:`is_measurement` rejects
    """
    from scipy.optimize import least_squares

    if not len(rows) or not (good := is_measurement(rows)).all():
        bad = f"measurement {rows[int(np.argmin(good))]}" if len(rows) else "no measurement"
        raise WorkloadError(f"{bad}: give times > sync times of batches > 0 on gangs with a GPU on every machine")
    gradient_s = rows["iteration_s"] - rows["sync_s"]
    told, unit = _told(rows), _units(gradient_s, rows["batch"])
    kind = kinds(rows)
    weight = np.tile(1 / np.sqrt(np.bincount(kind)[kind]), 2)
    low, high = np.zeros(7), np.full(7, np.inf)
    low[0], low[6], high[6] = NEGLIGIBLE, *GAMMA

    def model(free: np.ndarray) -> Throughput:
        values = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, GAMMA[0]])
        values[told] = free
        return Throughput(*(values * unit).tolist())

    def residuals(free: np.ndarray) -> np.ndarray:
        found = model(free)
        iteration_s = found.iteration_s(rows["gpus"], rows["machines"], rows["batch"])
        ratios = [found.gradient_s(rows["batch"]) / gradient_s, iteration_s / rows["iteration_s"]]
        return weight * np.log(np.concatenate(ratios))

    fits = []
    for gamma in GAMMA_STARTS:
        start = np.array([0.5, 0.5, 0.3, 0.01, 0.6, 0.01, gamma])[told]
        tight = dict(ftol=1e-13, xtol=1e-13, gtol=1e-13, max_nfev=300)
        fits.append(least_squares(residuals, start, jac="3-point", bounds=(low[told], high[told]), **tight))
    best = min(fits, key=lambda fit: fit.cost).x
    found = model(np.where(best < NEGLIGIBLE, 0.0, best))
    if (rows["machines"] > 1).any():
        return found
    return dataclasses.replace(found, alpha_node=PRIOR * found.alpha_local, beta_node=PRIOR * found.beta_local)


def held_out_errors(rows: np.ndarray) -> np.ndarray:
    """Cross-validate the rows across machines: relative errors of fits without rows of the same gang; float64 [H].

    The pairs (machines, gang size) across machines, in ascending order, are dealt into five folds. Each fold in turn is
    left out of the fit and predicted. The result is empty if there are fewer than two such pairs.
    """
    pairs, of_row = np.unique(rows[["machines", "gpus"]], return_inverse=True)
    spread = np.flatnonzero(pairs["machines"] > 1)
    errors = [np.empty(0)]
    for fold in range(min(FOLDS, len(spread)) if len(spread) > 1 else 0):
        out = np.isin(of_row, spread[fold::FOLDS])
        errors.append(fit_throughput(rows[~out]).relative_errors(rows[out]))
    return np.concatenate(errors)


def _told(rows: np.ndarray) -> np.ndarray:
    """Mark the parameters on which some row depends; bool [7], in the order of Throughput's fields."""
    gpus, apart = rows["gpus"], rows["machines"] > 1
    local = (gpus > 1) & ~apart
    told = [local.any(), (local & (gpus > 2)).any(), apart.any(), (apart & (gpus > 2)).any(), (gpus > 1).any()]
    return np.array([True, len(np.unique(rows["batch"])) > 1, *told])


def _units(gradient_s: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return scales that bring the parameters of any model to the order of 1; float64 [7]."""
    second, sample = float(np.median(gradient_s)), float(np.median(batch))
    return np.array([second, second / sample, second, second, second, second, 1.0])
