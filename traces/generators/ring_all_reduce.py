"""The job mix on which SJF-BCO was evaluated: 160 ring-all-reduce jobs that all arrive at once."""

from __future__ import annotations

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


# The paper has 1,000 to 6,000 iterations of 0.01 to 0.05 slots, including up to 15 % of contention and overhead.
ITERATIONS: Final = (1_000, 6_000)
SECONDS: Final = (0.01, 0.05 * (1 - 0.15))  # [s] of an iteration on one server; a slot is a second (choice)
ESTIMATE_S: Final = 0.05  # [s] of an iteration, for estimates of 50 to 300 slots
XI1, ALPHA = 0.5, 0.2  # of the contention model (choice, because the paper gives no values)
BETWEEN_GBps, INSIDE_GBps = 12.0, 120.0  # [1e9 byte/s] that the profiles assume (choice: those of the default Network)
BATCH: Final = 32  # [sample] per GPU (choice; without effect)


def ring_all_reduce_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    demand: Mapping[int, float] | None = None,
    extra: float = 0.15,
) -> Workload:
    """Draw the jobs of SJF-BCO's evaluation, each with its own profile; all arrive at time 0, in random order.

    Parameters
    ----------
    jobs : 160 in the paper; other numbers are divided among the gang sizes in proportion, by largest remainders
    demand : number of jobs of each gang size, instead of the paper's; only the proportions matter
    extra : contention and overhead together as a share of the run time; it determines the gradient sizes. The paper
        gives 0.15, but an independent implementation comes near the paper's results only with 0.45 to 0.60

    Notes
    -----
    At the assumed rates and without latency, an iteration inside one server takes the time tau that is drawn for its
    job. Between servers, the exchange takes sigma x tau with sigma = extra / (2 (1 - extra) (f - 1)), where f is the
    factor of eight contenders: p contenders count as k = xi1 p, and f = k + alpha (k - 1). So the contention of eight
    contenders costs half of ``extra``. The other half is the overhead of each server (xi2 of the paper), which belongs
    to the network and is not part of a profile. The time of the reduction (speed C of the paper) is part of
    ``compute_s``.

    References
    ----------
    Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with Communication
    Contention", MobiHoc 2022 (arXiv 2207.07817), equation 8 and section 7.
    """
    if not 0 <= extra < 1:
        raise WorkloadError(f"extra is {extra!r}: it must be a share, 0 <= extra < 1")
    gpus = rng.permutation(_gangs(jobs, demand or MIX, max_gpus))
    iterations = rng.integers(*ITERATIONS, size=jobs, endpoint=True)
    iteration_s = draws.uniform(rng, *SECONDS, jobs)
    sigma = 0.5 * extra / (1 - extra) / ((1 + ALPHA) * (XI1 * CONTENDERS - 1))
    exchange_s = np.where(gpus > 1, sigma * iteration_s, 0.0)  # exchange between servers; one GPU exchanges nothing
    rows = np.zeros(jobs, PROFILE_DTYPE)
    rows["name"] = [f"job-{number}" for number in range(jobs)]
    rows["batch"] = BATCH
    rows["gradient_bytes"] = exchange_s * BETWEEN_GBps * 1e9 * gpus / np.maximum(2 * (gpus - 1), 1)
    rows["overlap"] = 1.0  # computation and communication add up
    compute_s = iteration_s - exchange_s * BETWEEN_GBps / INSIDE_GBps
    return Workload.from_columns(
        np.zeros(jobs),
        gpus,
        iterations=iterations,
        profiles=Profiles(rows, compute_s[:, None], ("V100",)),
        profile=np.arange(jobs),
        estimate_s=ESTIMATE_S * iterations,
    )


def _gangs(jobs: int, mix: Mapping[int, float], max_gpus: int | None) -> np.ndarray:
    """Return gang sizes in the proportions of ``mix``, rounded by largest remainders; int64 [jobs], ascending."""
    sizes, cumulative = demand_table(mix, max_gpus)
    exact = jobs * np.diff(cumulative, prepend=0.0)
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = np.argsort(counts - exact, kind="stable")[: jobs - counts.sum()]
    counts[left] += 1
    gangs: np.ndarray = np.repeat(sizes, counts)
    return gangs
