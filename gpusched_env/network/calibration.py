"""Fit the ring model to measured iteration times of one model on one cluster, and test the fit on larger gangs.

T = (T_c^p + T_n^p)^(1/p) with T_n = b 2(N-1)/N + a 2(N-1); b [s] is bytes over rate, a [s] the latency of a step, both
for gangs inside one node and for gangs on several. Fit each model by itself, at one batch per GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.performance import overlapped

Array = np.ndarray[Any, Any]

LARGEST_S: Final = 10.0  # [s] bound of a and b
OVERLAP_BOUNDS: Final = (-6.0, 2.2)  # of z in p = 1 + exp(z)
LARGEST_OVERLAP: Final = 10.0
STARTS: Final = (-2.0, 0.0, 1.0)  # of z: the cost has several minima


@dataclass(frozen=True)
class RingFit:
    """Parameters of one model on one cluster; NaN where no measurement tells them.

    Parameters
    ----------
    compute_s : T_c, measured on one GPU [s]
    bytes_s : b inside a node and over nodes [s]
    step_s : a inside a node and over nodes [s]
    overlap : p, in [1, 10]
    """

    compute_s: float
    bytes_s: tuple[float, float]
    step_s: tuple[float, float]
    overlap: float

    def iteration_s(self, gpus: Array, nodes: Array) -> Array:
        """float64 [R]: seconds of an iteration on ``gpus`` GPUs of ``nodes`` nodes."""
        between = (nodes > 1).astype(int)
        steps = 2.0 * (gpus - 1)
        communication_s = np.take(self.bytes_s, between) * steps / gpus + np.take(self.step_s, between) * steps
        communication_s = np.where(gpus > 1, communication_s, 0.0)
        return overlapped(np.asarray(self.compute_s), communication_s, np.asarray(self.overlap))

    def check_line_rate(self, gradient_bytes: float, server_Bps: float) -> None:
        """Refuse a fit whose bytes move faster between nodes than the ports allow.

        Raises
        ------
        GpuschedError : the measurements are in other units, of other precision, or of another batch; never clip them
        """
        if self.bytes_s[1] * server_Bps < gradient_bytes:
            raise GpuschedError(
                f"calibration: {gradient_bytes:g} bytes in {self.bytes_s[1]:.3g} s is more than the {server_Bps:g} "
                "byte/s between nodes: check the units of the times, the precision of the gradient and that all rows "
                "have one batch per GPU"
            )


@dataclass(frozen=True)
class HeldOut:
    """How a fit to small gangs predicts larger ones: absolute error relative to the measured time.

    Parameters
    ----------
    fit : fitted to gangs of at most ``largest_fitted`` GPUs
    rows : measurements held out
    median_error, p90_error : of the rows held out
    """

    fit: RingFit
    largest_fitted: int
    rows: int
    median_error: float
    p90_error: float


def fit_ring(gpus: Array, nodes: Array, iteration_s: Array, compute_s: float) -> RingFit:
    """Least squares on the logarithm of the iteration time, the best of several starts.

    Parameters
    ----------
    gpus, nodes : int [R], GPUs of the gang and nodes that it spans; rows of one GPU are left out
    iteration_s : float64 [R], measured [s]
    compute_s : iteration time of one GPU at the same batch per GPU [s]

    Raises
    ------
    GpuschedError : no gang of two GPUs or more, or a time that is not positive
    """
    from scipy.optimize import least_squares

    gangs = np.asarray(gpus) > 1
    gpus, nodes, iteration_s = (np.asarray(column)[gangs] for column in (gpus, nodes, iteration_s))
    if not gangs.any() or not (iteration_s > 0.0).all() or not compute_s > 0.0:
        raise GpuschedError("calibration: give iteration times above 0, on one GPU and of at least one larger gang")
    measured = [bool((nodes == 1).any()), bool((nodes > 1).any())]

    def as_fit(x: Array) -> RingFit:
        overlap = min(1.0 + float(np.exp(x[4])), LARGEST_OVERLAP)
        return RingFit(compute_s, (float(x[0]), float(x[1])), (float(x[2]), float(x[3])), overlap)

    def residuals(x: Array) -> Array:
        return np.log(as_fit(x).iteration_s(gpus, nodes)) - np.log(iteration_s)

    guess_s = min(float(np.median(iteration_s)) / 2.0, LARGEST_S / 2.0)
    bounds = ([0.0] * 4 + [OVERLAP_BOUNDS[0]], [LARGEST_S] * 4 + [OVERLAP_BOUNDS[1]])
    exact = {"x_scale": "jac", "xtol": 1e-12, "ftol": 1e-12}
    fits = [least_squares(residuals, [guess_s, guess_s, 1e-4, 1e-4, z], bounds=bounds, **exact) for z in STARTS]
    best = min(fits, key=lambda found: found.cost).x
    best[:4] = np.where(measured * 2, best[:4], np.nan)
    return as_fit(best)


def held_out(gpus: Array, nodes: Array, iteration_s: Array, compute_s: float, largest_fitted: int) -> HeldOut:
    """Fit gangs of at most ``largest_fitted`` GPUs and predict the larger ones; see :func:`fit_ring`.

    Never choose a model by its error on the rows that it was fitted to.

    Raises
    ------
    GpuschedError : nothing to fit, nothing held out, or a larger gang of a kind (one node, several) never fitted
    """
    gpus, nodes, iteration_s = map(np.asarray, (gpus, nodes, iteration_s))
    small = gpus <= largest_fitted
    fit = fit_ring(gpus[small], nodes[small], iteration_s[small], compute_s)
    error = np.abs(fit.iteration_s(gpus[~small], nodes[~small]) / iteration_s[~small] - 1.0)
    if not len(error) or np.isnan(error).any():
        raise GpuschedError(
            f"calibration: gangs above {largest_fitted} GPUs cannot be predicted from the smaller ones: hold out at "
            "least one row, and fit gangs on one node and on several if both are held out"
        )
    return HeldOut(fit, largest_fitted, len(error), float(np.median(error)), float(np.quantile(error, 0.9)))
