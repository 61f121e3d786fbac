"""Fit models of the iteration time to measurements."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.throughput import IterationTime, Throughput
from studies.profile_tables.measurements import WIDER, RingThroughput, is_measurement, kinds

GAMMA: Final = (1.0, 10.0)  # bounds of gamma; 10 approximates full overlap (Pollux)
GAMMA_STARTS: Final = (1.2, 3.0)  # start values of gamma; the better of the two results is kept
POLLUX_START: Final = (0.5, 0.5, 0.3, 0.01, 0.6, 0.01)  # of the other parameters, in units of the gradient time
RING_START: Final = (0.5, 0.5, 0.3, 0.3, 0.001, 0.75)
NEGLIGIBLE: Final = 1e-5  # share of the gradient time below which a parameter becomes 0; in a flat minimum it is noise
PRIOR: Final = 1.1  # sync across machines / in one machine, if only one machine was measured (Pollux's code)
TOLERANCE: Final = 0.05  # relative error from which on a robust fit counts a measurement less and less
# Start values of a robust fit, in units of the gradient time: its part that does not depend on the batch, and the time
# to synchronise. Its loss has several minima, and the lowest one is kept.
ROBUST_STARTS: Final = tuple(itertools.product((0.2, 0.5, 0.8), (0.1, 0.6)))
Law = TypeVar("Law", bound=IterationTime)


def fit_throughput(rows: np.ndarray) -> RingThroughput:
    """Fit a ring by least squares of the logarithms of gradient time and iteration time.

    The measurements of single GPUs, of gangs in one machine and of gangs across machines have the same total weight,
    because most measurements are across machines, but most jobs are not. A row whose ``sync_s`` is NaN tells of its
    iteration only. A parameter on which no measurement depends becomes 0, or 1 for ``gamma``, and is ``unknown``.
    Without measurements across machines, ``network_s`` is a tenth of ``local_s``.
    """
    gpus, machines = rows["gpus"], rows["machines"]
    two, more = (machines == 2).any(), (machines > 2).any()
    near, apart = ((gpus > 1) & (machines == 1)).any(), two or more
    doubts = (not near, not apart, not more, more and not two, gpus.max(initial=0) < 3)
    names = ("local_s", "network_s", "wider", "pair", "growth")
    unknown = tuple(name for name, doubt in zip(names, doubts, strict=True) if doubt)
    middle = float(np.sqrt(WIDER[0] * WIDER[1])) if apart else WIDER[1]

    def ring(values: Sequence[float]) -> RingThroughput:
        alpha, beta, local_s, network_s, hop_s, wider, gamma = values
        both = wider if two and more else middle
        return RingThroughput(alpha, beta, local_s, network_s, hop_s, both, gamma, unknown)

    told = [near, apart, len(np.unique(gpus[machines > 2])) > 2, two and more, near or apart]
    found = _fitted(rows, ring, told, [RING_START], (WIDER, GAMMA))
    return found if apart else dataclasses.replace(found, network_s=(PRIOR - 1) * found.local_s)


def fit_pollux(rows: np.ndarray, robust: bool = False) -> Throughput:
    """Fit Pollux's model as :func:`fit_throughput` does; between the measured gangs only, as its slope is constant.

    Deviation: Pollux adds small penalties on gamma and on the betas, for jobs with few measurements; this fit does not.

    ``robust`` : minimise Cauchy's loss instead of the squares, so that large errors of few measurements hardly count.
    """
    gpus, apart = rows["gpus"], rows["machines"] > 1
    local = (gpus > 1) & ~apart
    told = [local.any(), (local & (gpus > 2)).any(), apart.any(), (apart & (gpus > 2)).any(), (gpus > 1).any()]
    starts = [(a, 1 - a, s, 0.01, 1.5 * s, 0.005) for a, s in ROBUST_STARTS] if robust else [POLLUX_START]
    found = _fitted(rows, lambda values: Throughput(*values), told, starts, (GAMMA,), robust)
    if apart.any():
        return found
    return dataclasses.replace(found, alpha_node=PRIOR * found.alpha_local, beta_node=PRIOR * found.beta_local)


def _fitted(
    rows: np.ndarray,
    make: Callable[[Sequence[float]], Law],
    told: Sequence[bool | np.bool_],
    starts: Sequence[Sequence[float]],
    bounds: Sequence[tuple[float, float]],
    robust: bool = False,
) -> Law:
    """Minimise the loss over alpha_grad, beta_grad, the parameters of synchronisation, and gamma, in this order.

    ``told`` : which parameters from the third on influence at least one row; ``starts`` : values of all but gamma, in
    units of the gradient time; ``bounds`` : of the last parameters, which are no times: the lowest ones, if not told
    """
    from scipy.optimize import least_squares

    if not len(rows) or not (good := is_measurement(rows)).all():
        bad = "no measurement"
        if len(rows):
            row = rows[int(np.argmin(good))]
            bad = f"measurement {', '.join(f'{name}={row[name]:g}' for name in rows.dtype.names or ())}"
        raise WorkloadError(f"{bad}: give times > sync times of batches > 0 on gangs with a GPU on every machine")
    known = np.isfinite(rows["sync_s"])
    if not known.any():
        raise WorkloadError("no measurement has a sync time: give those of one GPU, which are 0")
    gradient_s = (rows["iteration_s"] - rows["sync_s"])[known]
    free = np.array([True, len(np.unique(rows["batch"])) > 1, *told])
    second, sample = float(np.median(gradient_s)), float(np.median(rows["batch"][known]))
    times, (least, most) = len(free) - len(bounds), zip(*bounds, strict=True)
    unit = np.array([second, second / sample, *[second] * (times - 2), *[1.0] * len(bounds)])
    kind = kinds(rows)
    weight = 1 / np.sqrt(np.bincount(kind)[kind])
    weight = np.concatenate([weight[known], weight])
    low, high = np.array([NEGLIGIBLE, *[0.0] * (times - 1), *least]), np.array([*[np.inf] * times, *most])

    def model(chosen: np.ndarray) -> Law:
        values = np.array([*[0.0] * times, *least])
        values[free] = chosen
        return make((values * unit).tolist())

    def residuals(chosen: np.ndarray) -> np.ndarray:
        found = model(chosen)
        gradients, sync_s = found.gradient_s(rows["batch"]), found.sync_s(rows["gpus"], rows["machines"])
        longer, shorter = np.maximum(gradients, sync_s), np.minimum(gradients, sync_s)
        # NumPy's powers are faster than portable ones, and the solver is not portable either
        iteration_s = longer * (1 + (shorter / longer) ** found.gamma) ** (1 / found.gamma)
        errors = np.log(np.concatenate([gradients[known] / gradient_s, iteration_s / rows["iteration_s"]]))
        if robust:  # the square of what is returned is the loss
            errors = np.sign(errors) * TOLERANCE * np.sqrt(np.log1p((errors / TOLERANCE) ** 2))
        return np.asarray(weight * errors)

    fits = []
    for values, gamma in itertools.product(starts, GAMMA_STARTS):
        tight = dict(ftol=1e-13, xtol=1e-13, gtol=1e-13, max_nfev=300, bounds=(low[free], high[free]))
        fits.append(least_squares(residuals, np.array([*values, gamma])[free], jac="3-point", **tight))
    best = min(fits, key=lambda fit: fit.cost).x
    return model(np.where(best < NEGLIGIBLE, 0.0, best))
