"""Times that are drawn for each job: how noise of its workers slows it down, and the latency of its first start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays
from gpusched_env.portable.draws import normal
from gpusched_env.problem.workload import START_LATENCY, Workload

NOISE: Final = {"worker": 0.04196, "step": 0.05245, "jobs": 0.5048}  # of synchronous jobs of Alibaba PAI
MOST_SIGMA: Final = 1.0  # of a lognormal factor: a coefficient of variation of 131 %
# Latency of a first start by its kind: probabilities, and the quantiles [s] there.
START_LATENCIES: Final = {
    # The process stays alive: 0.7 to 4.2 s on A100 (ElasticFlow, ASPLOS 2023, figure 12b), in whole seconds.
    "warm": ((0.0, 1.0), (1.0, 4.0)),
    # A new process: least, median and most of eight models on V100, fitted to the run times of Muri (SIGCOMM 2022).
    "process": ((0.0, 0.5, 1.0), (8.3, 28.35, 61.3)),
    # A new container, without the start of its process: the first 400 jobs of Acme Kalos (NSDI 2024), nearly empty.
    "container": ((0.0, 0.1, 0.5, 0.9, 0.99, 1.0), (7.0, 8.0, 11.0, 27.1, 166.8, 306.0)),
}
# J. F. Hart et al., "Computer Approximations", 1968, function 5666: P(Z > x) exp(x^2 / 2) as a quotient of polynomials.
ABOVE: Final = (
    3.52624965998911e-2, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871, 221.213596169931,
    220.206867912376,
)  # fmt: skip
BELOW: Final = (
    8.83883476483184e-2, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674, 637.333633378831,
    793.826512519948, 440.413735824752,
)  # fmt: skip
FAR: Final = 7.0  # standard deviations at which the normal distribution ends
NODES: Final = 6  # of the quadrature for each standard deviation


def draw_noise(workload: Workload, rng: np.random.Generator, **sigmas: float) -> Workload:
    """Multiply run times by how much slower a synchronous gang is than a worker on average.

    Each GPU has a worker. In each step it is slower by a factor of its own, drawn once, times a factor of this step;
    both are lognormal, of mean 1 and log-sigmas ``worker`` and ``step``. A step lasts as long as its slowest worker.
    The factor of a job is the expectation of this maximum over many steps, given its workers' factors; that of a job
    of one GPU is its worker's. The log-sigmas of a job are multiplied by a lognormal number of mean 1 and log-sigma
    ``jobs``, and then at most MOST_SIGMA. Jobs of several sizes keep the factor of the size that they request.
    """
    check_noise(sigmas)
    of = NOISE | sigmas
    gang = workload.jobs["gpus"].astype(np.int64)
    level = arrays.exp(of["jobs"] * normal(rng, len(gang)) - 0.5 * of["jobs"] ** 2)
    workers, steps = (np.minimum(level * of[name], MOST_SIGMA) for name in ("worker", "step"))
    workers = np.repeat(workers, gang)
    logs = workers * normal(rng, len(workers)) - 0.5 * workers * workers
    first, factor = np.cumsum(gang) - gang, np.empty(len(gang))
    for size in np.unique(gang):
        rows = np.flatnonzero(gang == size)
        factor[rows] = slowest(logs[first[rows] + np.arange(size)[:, None]], steps[rows])
    work = {name: workload.jobs[name] * factor for name in ("iterations", "duration_s")}
    return workload.unchecked_columns(**work)


def slowest(logs: np.ndarray, step: np.ndarray) -> np.ndarray:
    """float64 [n]: E[max over workers of factor x S] of n gangs.

    ``logs`` [workers, n] are logarithms of the factors; S are lognormal, of mean 1 and log-sigmas ``step`` [n]. With
    the largest factor w and the distribution G of the maximum's log, in units of ``step`` above that of w, this is
    w + w step exp(-step^2 / 2) x integral of exp(step u) (P(Z <= u) - G(u)) du. The integrand vanishes fast on both
    sides, so the trapezoidal rule converges exponentially.
    """
    top, found = logs.max(axis=0), np.zeros(len(step))
    if len(logs) > 1:
        apart = (top - logs) / np.maximum(step, 1e-300)
        for u in np.arange(-FAR * NODES, FAR * NODES + 1) / NODES:
            below = np.multiply.accumulate(_normal_cdf(u + apart))[-1]
            found += arrays.exp(step * u) * (_normal_cdf(u) - below)
    return arrays.exp(top) * (1.0 + step * arrays.exp(-0.5 * step * step) * found / NODES)


def _normal_cdf(x: Any) -> Any:
    """Probability that a standard normal number is at most x, to 1e-12; the same bits on every machine."""
    z, above, below = np.minimum(np.abs(x), FAR), 0.0, 0.0
    for coefficient in ABOVE:
        above = above * z + coefficient
    for coefficient in BELOW:
        below = below * z + coefficient
    tail = np.where(z < FAR, arrays.exp(-0.5 * z * z) * above / below, 0.0)
    return np.where(np.less(x, 0.0), tail, 1.0 - tail)


def check_noise(sigmas: Mapping[str, Any]) -> None:
    """Refuse unknown or wrong parameters of :func:`draw_noise`."""
    for name, value in sigmas.items():
        if name not in NOISE:
            raise WorkloadError(f"noise: no parameter {name!r}; known are {', '.join(NOISE)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_SIGMA:
            raise WorkloadError(f"noise: {name} is {value!r}: it must be a log-sigma from 0 to {MOST_SIGMA:g}")


def draw_start_latency(workload: Workload, rng: np.random.Generator, kind: str) -> Workload:
    """Give each job the time for which it holds its GPUs at its first start before it makes progress [s]."""
    told = {**workload.attributes, START_LATENCY: latency_at(kind, rng.random(len(workload)))}
    return workload.unchecked_replace(attributes=told)


def latency_at(kind: str, probability: np.ndarray) -> np.ndarray:
    """Quantiles of a latency [s]; between those that are known, its logarithm is interpolated linearly."""
    at, seconds = map(np.array, START_LATENCIES[kind])
    return arrays.exp(arrays.interpolated(probability, at, arrays.log(seconds)))
