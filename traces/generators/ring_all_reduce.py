"""The job mix on which SJF-BCO was evaluated: 160 ring-all-reduce jobs that all arrive at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import draws
from gpusched_env.problem.workload import PROFILE_DTYPE, Profiles, Workload
from gpusched_env.traces.generators.demand import demand_table

# Number of jobs of each gang size (Yu et al., MobiHoc 2022, section 7: scaled from the Microsoft trace)
MIX: Final = {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}
CONTENDERS: Final = 8  # number of jobs sharing a server's link at which contention costs half of ``extra`` (choice)


def ring_all_reduce_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    demand: Mapping[int, float] | None = None,
    min_iterations: int = 1_000,
    max_iterations: int = 6_000,
    min_iteration_slots: float = 0.01,
    max_iteration_slots: float = 0.05 * (1 - 0.15),
    estimate_slots: float = 0.05,
    slot_s: float = 1.0,
    extra: float = 0.15,
    xi1: float = 0.5,
    alpha: float = 0.2,
    between_GBps: float = 12.0,
    inside_GBps: float = 120.0,
    batch: int = 32,
) -> Workload:
    """Draw the jobs of SJF-BCO's evaluation, each with its own profile; 160 jobs have the gang sizes of the paper.

    Parameters
    ----------
    jobs : number of jobs, 160 in the paper; other numbers are divided among the gang sizes in the same proportions, by
        largest remainders
    max_gpus : larger gangs are left out; the others keep their proportions [GPU]
    demand : number of jobs of each gang size, instead of the paper's; only the proportions matter
    min_iterations, max_iterations : bounds of the number of iterations, a whole number that is drawn uniformly, bounds
        included (paper)
    min_iteration_slots, max_iteration_slots : bounds of the time of an iteration on one server, drawn uniformly [slot].
        The paper has 0.01 to 0.05 slots including contention and overhead, which are at most 15 %; so the default upper
        bound is 0.05 slots less 15 %
    estimate_slots : estimated time of an iteration [slot]; with the default, the estimate of a job is 50 to 300 slots,
        as in the paper
    slot_s : length of a slot [s] (choice, because the paper gives none)
    extra : contention and overhead together as a share of the run time; it determines the gradient sizes. The paper
        gives 0.15, but an independent implementation comes near the paper's results only with 0.45 to 0.60
    xi1, alpha : parameters of the contention model that determine the gradient sizes. p contenders count as k = xi1 p
        effective contenders and slow the exchange down by the factor f = k + alpha (k - 1) (choice, because the paper
        gives no values)
    between_GBps, inside_GBps : rates between servers and inside a server that the profiles assume [1e9 byte/s] (choice:
        those of the default Network)
    batch : samples per GPU (choice; without effect)

    Returns
    -------
    Workload whose jobs are given by iterations. All arrivals are 0; the order of the jobs is random and is the order of
    the trace.

    Notes
    -----
    At the assumed rates and without latency, an iteration inside one server takes the time tau that is drawn for its
    job. Between servers, the exchange takes sigma x tau with sigma = extra / (2 (1 - extra) (f - 1)), where f is the
    factor of eight contenders. So the contention of eight contenders costs half of ``extra``. The other half is the
    overhead of each server (xi2 of the paper), which belongs to the network and is not part of a profile. The time of
    the reduction (speed C of the paper) is part of ``compute_s``.

    Raises
    ------
    WorkloadError : a parameter out of range

    References
    ----------
    Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with Communication
    Contention", MobiHoc 2022 (arXiv 2207.07817), equation 8 and section 7.
    """
    _check(min_iterations, max_iterations, min_iteration_slots, max_iteration_slots, extra, xi1, alpha)
    rates = {"slot_s": slot_s, "estimate_slots": estimate_slots, "between_GBps": between_GBps, "batch": batch}
    for name, value in rates.items():
        if not 0 < value < math.inf:
            raise WorkloadError(f"{name} is {value!r}: it must be a finite number > 0")
    if not between_GBps <= inside_GBps < math.inf:
        raise WorkloadError(f"inside_GBps is {inside_GBps!r}: it must be finite and at least between_GBps")
    gpus = rng.permutation(_gangs(jobs, demand or MIX, max_gpus))
    iterations = rng.integers(int(min_iterations), int(max_iterations), size=jobs, endpoint=True)
    iteration_s = slot_s * draws.uniform(rng, min_iteration_slots, max_iteration_slots, jobs)
    sigma = 0.5 * extra / (1 - extra) / ((1 + alpha) * (xi1 * CONTENDERS - 1))
    exchange_s = np.where(gpus > 1, sigma * iteration_s, 0.0)  # exchange between servers; one GPU exchanges nothing
    rows = np.zeros(jobs, PROFILE_DTYPE)
    rows["name"] = [f"job-{number}" for number in range(jobs)]
    rows["batch"] = batch
    rows["gradient_bytes"] = exchange_s * between_GBps * 1e9 * gpus / np.maximum(2 * (gpus - 1), 1)
    rows["overlap"] = 1.0  # computation and communication add up
    compute_s = iteration_s - exchange_s * between_GBps / inside_GBps
    return Workload.from_columns(
        np.zeros(jobs),
        gpus,
        iterations=iterations,
        profiles=Profiles(rows, compute_s[:, None], ("V100",)),
        profile=np.arange(jobs),
        estimate_s=estimate_slots * slot_s * iterations,
    )


def _check(
    min_iterations: int, max_iterations: int, shortest: float, longest: float, extra: float, xi1: float, alpha: float
) -> None:
    if not 1 <= min_iterations <= max_iterations or min_iterations % 1 or max_iterations % 1:
        raise WorkloadError(f"iterations {min_iterations!r} to {max_iterations!r}: give whole numbers, 1 <= min <= max")
    if not 0 < shortest <= longest:
        raise WorkloadError(f"iteration_slots {shortest!r} to {longest!r}: give 0 < min <= max")
    if not 0 <= extra < 1:
        raise WorkloadError(f"extra is {extra!r}: it must be a share, 0 <= extra < 1")
    if not (1 / CONTENDERS < xi1 <= 1 and alpha >= 0):
        raise WorkloadError(f"xi1 {xi1!r}, alpha {alpha!r}: give 1/{CONTENDERS} < xi1 <= 1 and alpha >= 0")


def _gangs(jobs: int, mix: Mapping[int, float], max_gpus: int | None) -> np.ndarray:
    """Return gang sizes in the proportions of ``mix``, rounded by largest remainders; int64 [jobs], ascending."""
    sizes, cumulative = demand_table(mix, max_gpus)
    exact = jobs * np.diff(cumulative, prepend=0.0)
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = np.argsort(counts - exact, kind="stable")[: jobs - counts.sum()]
    counts[left] += 1
    gangs: np.ndarray = np.repeat(sizes, counts)
    return gangs
