"""Times that are drawn for each job: how noise of its workers slows it down, and the latency of its first start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.portable import arrays
from gpusched_env.portable.draws import normal
from gpusched_env.problem.workload import START_LATENCY, Workload
from gpusched_env.support.units import LATEST_S

MOST_SIGMA: Final = 1.0  # of a lognormal factor: a coefficient of variation of 131 %
Quantiles: TypeAlias = Sequence[Sequence[float]]

# Latency of a start by its kind: pairs of a probability and the quantile [s].
START_LATENCIES: Final[dict[str, Quantiles]] = {
    # The process stays alive, and its group of workers changes: 0.7 to 4.2 s on 8 A100 nodes (ElasticFlow, ASPLOS
    # 2023, figure 12b), in whole seconds.
    "warm": ((0.0, 1.0), (1.0, 4.0)),
    # A new process: median, least and most of eight models on 64 V100 (Muri, SIGCOMM 2022), fitted to its run times.
    "process": ((0.0, 8.3), (0.5, 28.35), (1.0, 61.3)),
    # A new container: the first 400 jobs of Acme Kalos (NSDI 2024), 302 nodes of 8 A100, nearly empty. Without the
    # start of the process, which is part of the run times of that log.
    "container": ((0.0, 7.0), (0.1, 8.0), (0.5, 11.0), (0.9, 27.1), (0.99, 166.8), (1.0, 306.0)),
}


def draw_noise(
    workload: Workload, rng: np.random.Generator, worker: float = 0.04196, step: float = 0.05245, jobs: float = 0.5048
) -> Workload:
    """Multiply run times by how much slower a synchronous gang is than a worker on average.

    Each GPU has a worker. In each step it is slower by a factor of its own, drawn once, times a factor of this step;
    both are lognormal, of mean 1 and log-sigmas ``worker`` and ``step``. A step lasts as long as its slowest worker.
    The factor of a job is the expectation of this maximum over many steps, given its workers' factors. That of a job
    of one GPU is its worker's, 1 on average. Jobs of several sizes keep the factor of the one that they request.

    Some jobs are noisier than others: the log-sigmas of a job are multiplied by a lognormal number of mean 1 and
    log-sigma ``jobs``, and then at most MOST_SIGMA. The defaults are those of synchronous jobs of Alibaba PAI.

    Raises
    ------
    WorkloadError : a log-sigma is not a number from 0 to MOST_SIGMA
    """
    check_noise({"worker": worker, "step": step, "jobs": jobs})
    gang = workload.jobs["gpus"].astype(np.int64)
    level = arrays.exp(jobs * normal(rng, len(gang)) - 0.5 * jobs * jobs)
    workers, steps = (np.minimum(level * sigma, MOST_SIGMA) for sigma in (worker, step))
    workers = np.repeat(workers, gang)
    logs = workers * normal(rng, len(workers)) - 0.5 * workers * workers
    factor = slowest_workers(gang, logs, steps)
    work = {name: workload.jobs[name] * factor for name in ("iterations", "duration_s")}
    return workload.unchecked_columns(**work)


def slowest_workers(gang: np.ndarray, logs: np.ndarray, step: np.ndarray) -> np.ndarray:
    """float64 [J]: mean time of a synchronous step of each gang; that of a worker of factor 1 is 1.

    Parameters
    ----------
    gang : int64 [J], numbers of workers
    logs : float64 [sum of gang], logarithms of the factors of the workers, gang by gang
    step : float64 [J], log-sigmas of the factors of steps
    """
    from gpusched_env.portable.slowest import Gangs, slowest_each

    found = np.empty(len(gang))
    slowest_each(Gangs(gang=gang, logs=logs, step=step, found=found))
    return found


def expected_slowest(workers: int, sigma: np.ndarray) -> np.ndarray:
    """float64 [n]: E[max] of as many independent lognormal times, of mean 1 and log-sigmas ``sigma`` [n]."""
    return slowest_workers(np.full(len(sigma), workers), np.zeros(workers * len(sigma)), np.asarray(sigma, float))


def check_noise(parameters: Mapping[str, Any]) -> None:
    """Refuse unknown or wrong parameters of :func:`draw_noise`."""
    for name, value in parameters.items():
        if name not in ("worker", "step", "jobs"):
            raise WorkloadError(f"noise: no parameter {name!r}; known are worker, step, jobs")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_SIGMA:
            raise WorkloadError(f"noise: {name} is {value!r}: it must be a log-sigma from 0 to {MOST_SIGMA:g}")


def draw_start_latency(workload: Workload, rng: np.random.Generator, latency: Mapping[str, Any]) -> Workload:
    """Give each job the time for which it holds its GPUs at its first start before it makes progress [s].

    ``latency`` is ``{"kind": KIND}``, one of START_LATENCIES, or ``{"quantiles": [[probability, seconds], ...]}``. It
    adds to ``semantics.start_s``.
    """
    drawn_s = latency_at(checked_latency(latency), rng.random(len(workload)))
    return workload.unchecked_replace(attributes={**workload.attributes, START_LATENCY: drawn_s})


def latency_at(quantiles: Quantiles, probability: np.ndarray) -> np.ndarray:
    """Quantiles of a latency [s]; between those that are known, its logarithm is interpolated linearly."""
    at, seconds = np.array(quantiles, float).T.copy()
    return arrays.exp(arrays.interpolated(probability, at, arrays.log(seconds)))


def checked_latency(latency: Mapping[str, Any]) -> Quantiles:
    """Return the quantiles of a distribution that is given as for :func:`draw_start_latency`.

    Raises
    ------
    WorkloadError : unknown kind, or no pairs of ascending probabilities from 0 to 1 and of seconds that do not descend
    """
    match latency:
        case {"kind": str(kind), **others} if not others:
            if kind not in START_LATENCIES:
                raise WorkloadError(f"start_latency: {unknown_name('kind', kind, START_LATENCIES)}")
            return START_LATENCIES[kind]
        case {"quantiles": list() | tuple() as pairs, **others} if not others and _rise(pairs):
            return pairs
    raise WorkloadError(
        f"start_latency is {dict(latency)}: give a kind ({', '.join(START_LATENCIES)}), or quantiles, pairs of a "
        "probability and seconds > 0 that ascend, from probability 0 to 1, such as [[0, 7], [0.5, 11], [1, 306]]"
    )


def _rise(pairs: Sequence[Any]) -> bool:
    """Whether these are pairs of numbers that :func:`latency_at` can interpolate."""
    try:
        at, seconds = np.array(pairs, float).T
    except (TypeError, ValueError):
        return False
    ends = len(at) > 1 and (at[0], at[-1]) == (0.0, 1.0) and seconds[0] > 0 and seconds[-1] <= LATEST_S
    return bool(ends and (np.diff(at) > 0).all() and (np.diff(seconds) >= 0).all())
