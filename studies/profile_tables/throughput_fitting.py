"""Fit Pollux's model of the iteration time to measurements."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.throughput import Throughput, is_measurement, kinds

GAMMA: Final = (1.0, 10.0)  # bounds of gamma; 10 approximates full overlap (Pollux)
GAMMA_STARTS: Final = (1.2, 3.0)  # start values of gamma; the better of the two results is kept
LEAST_SQUARES_START: Final = (0.5, 0.5, 0.3, 0.01, 0.6, 0.01)  # of the other parameters, in units of the gradient time
NEGLIGIBLE: Final = 1e-5  # share of the gradient time below which a parameter becomes 0; in a flat minimum it is noise
PRIOR: Final = 1.1  # parameters across machines / in one machine, if only one machine was measured (Pollux's code)
FOLDS: Final = 5  # number of folds of the cross-validation
TOLERANCE: Final = 0.05  # relative error from which on a robust fit counts a measurement less and less
# Start values of a robust fit, in units of the gradient time: its part that does not depend on the batch, and the time
# to synchronise. Its loss has several minima, and the lowest one is kept.
ROBUST_STARTS: Final = tuple(itertools.product((0.2, 0.5, 0.8), (0.1, 0.6)))


def fit_throughput(rows: np.ndarray, robust: bool = False) -> Throughput:
    """Fit the model by least squares of the logarithms of gradient time and iteration time, as in Pollux.

    The measurements of single GPUs, of gangs in one machine and of gangs across machines have the same total weight,
    because most measurements are across machines, but most jobs are not. A parameter on which no measurement depends
    becomes 0, or 1 for ``gamma``. Without measurements across machines, ``alpha_node`` and ``beta_node`` are 1.1 x
    ``alpha_local`` and ``beta_local``. Deviation: Pollux adds small penalties on gamma and on the betas, for jobs with
    few measurements; this fit does not.

    ``robust`` : minimise Cauchy's loss instead of the squares, so that large errors of few measurements hardly count.
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
        errors = np.log(np.concatenate(ratios))
        if robust:  # the square of what is returned is the loss
            errors = np.sign(errors) * TOLERANCE * np.sqrt(np.log1p((errors / TOLERANCE) ** 2))
        return weight * errors

    fits = []
    starts = [(a, 1 - a, s, 0.01, 1.5 * s, 0.005) for a, s in ROBUST_STARTS] if robust else [LEAST_SQUARES_START]
    for values, gamma in itertools.product(starts, GAMMA_STARTS):
        start = np.array([*values, gamma])[told]
        tight = dict(ftol=1e-13, xtol=1e-13, gtol=1e-13, max_nfev=300)
        fits.append(least_squares(residuals, start, jac="3-point", bounds=(low[told], high[told]), **tight))
    best = min(fits, key=lambda fit: fit.cost).x
    found = model(np.where(best < NEGLIGIBLE, 0.0, best))
    if (rows["machines"] > 1).any():
        return found
    return dataclasses.replace(found, alpha_node=PRIOR * found.alpha_local, beta_node=PRIOR * found.beta_local)


def held_out_errors(rows: np.ndarray, robust: bool = False) -> np.ndarray:
    """Return the relative errors of predicted iteration times across machines, by cross-validation; float64 [H].

    The pairs (machines, gang size) with more than one machine are sorted and dealt in turn into five folds. For each
    fold, a model is fitted to the measurements of all other pairs and predicts those of the fold. The result is empty
    if there are fewer than two such pairs.
    """
    pairs, of_row = np.unique(rows[["machines", "gpus"]], return_inverse=True)
    spread = np.flatnonzero(pairs["machines"] > 1)
    errors = [np.empty(0)]
    for fold in range(min(FOLDS, len(spread)) if len(spread) > 1 else 0):
        out = np.isin(of_row, spread[fold::FOLDS])
        errors.append(fit_throughput(rows[~out], robust).relative_errors(rows[out]))
    return np.concatenate(errors)


def _told(rows: np.ndarray) -> np.ndarray:
    """Return which parameters influence at least one row; bool [7], in the order of Throughput's fields."""
    gpus, apart = rows["gpus"], rows["machines"] > 1
    local = (gpus > 1) & ~apart
    told = [local.any(), (local & (gpus > 2)).any(), apart.any(), (apart & (gpus > 2)).any(), (gpus > 1).any()]
    return np.array([True, len(np.unique(rows["batch"])) > 1, *told])


def _units(gradient_s: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return factors by which the parameters are divided so that they are of the order of 1; float64 [7]."""
    second, sample = float(np.median(gradient_s)), float(np.median(batch))
    return np.array([second, second / sample, second, second, second, second, 1.0])
