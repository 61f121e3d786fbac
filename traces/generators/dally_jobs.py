"""Jobs like those of Dally's simulator (Sharma et al., arXiv 2401.16492): six models, gangs of up to 56 GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays, draws
from gpusched_env.problem.workload import Workload


@dataclass(frozen=True)
class DallyModel:
    """Statistics of the jobs of one model in the authors' job files.

    Attributes
    ----------
    all_jobs : demand [GPU] -> number of jobs, in the files with 500 jobs
    gangs : demand [GPU] -> number of jobs, in the files with 411 jobs, all of at least two GPUs
    median_s, sigma : median [s] and standard deviation of the logarithm of a log-normal distribution of the time on one
        GPU, fitted by moments to the jobs of the files with 500 jobs
    iterations : tuples (seconds of an iteration on one GPU, batch size [samples], number of such jobs among the 500)
    """

    all_jobs: dict[int, int]
    gangs: dict[int, int]
    median_s: float
    sigma: float
    iterations: tuple[tuple[float, int, int], ...]


# Counted in the job files of aakash-sharma/cluster-sim, commit 4cd660e, configuration/jobs: sense_500jobs_* (500 jobs)
# and sense_500jobs_poisson_1proc-week (411 jobs). The demands and durations in these files come from the log of Helios
# Venus.
# fmt: off
DALLY_MODELS: Final = {
    "AlexNet": DallyModel(
        {1: 27, 4: 9, 8: 13, 16: 4}, {4: 9, 8: 14, 16: 5, 40: 1}, 8_782.0, 0.128,
        ((2.88594e-4, 128, 6), (3.56793e-4, 128, 6), (5.20068e-4, 64, 5), (7.29329e-4, 64, 2), (1.22829e-3, 32, 12),
         (1.46848e-3, 32, 22)),
    ),
    "BERT": DallyModel(
        {1: 94, 2: 4, 4: 7, 8: 15, 16: 5}, {2: 26, 3: 1, 4: 33, 8: 51, 16: 11, 32: 3}, 97_930.0, 0.678,
        ((8.33952e-3, 32, 70), (1.17824e-2, 32, 55)),
    ),
    "MobileNetV3": DallyModel(
        {1: 17, 2: 2, 4: 15, 8: 52, 16: 26, 32: 10, 40: 1, 48: 1, 56: 1},
        {2: 2, 4: 15, 8: 64, 16: 28, 32: 13, 40: 1, 48: 1, 56: 1}, 92_320.0, 0.844,
        ((2.87148e-4, 128, 10), (2.98228e-4, 128, 12), (3.94099e-4, 64, 14), (4.48637e-4, 64, 1), (5.24083e-4, 64, 11),
         (7.66575e-4, 32, 39), (1.02223e-3, 32, 37), (1.11701e-3, 32, 1)),
    ),
    "ResNet18": DallyModel(
        {1: 35, 4: 3}, {4: 3}, 9_182.0, 0.114,
        ((1.75455e-4, 128, 4), (2.03921e-4, 128, 3), (2.47612e-4, 64, 4), (2.69397e-4, 64, 3), (5.66924e-4, 32, 14),
         (6.06414e-4, 32, 10)),
    ),
    "ResNet50": DallyModel(
        {1: 67, 2: 7, 4: 16, 8: 27, 16: 7, 32: 1}, {2: 13, 4: 34, 8: 59, 16: 12, 32: 7}, 84_800.0, 0.621,
        ((1.30638e-3, 128, 18), (1.41079e-3, 64, 17), (1.49103e-3, 32, 42), (2.14753e-3, 128, 13), (2.29388e-3, 64, 5),
         (2.3118e-3, 32, 30)),
    ),
    "VGG": DallyModel(
        {1: 30, 4: 2, 8: 2}, {4: 2, 8: 2}, 8_875.0, 0.123,
        ((1.34587e-4, 64, 4), (1.37734e-4, 128, 4), (1.42663e-4, 128, 4), (1.95597e-4, 64, 2), (2.81145e-4, 32, 11),
         (3.33476e-4, 32, 9)),
    ),
}
# fmt: on


def dally_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    mean_gap_s: float = 1_461.0,
    single_gpus: bool = False,
) -> Workload:
    """Draw jobs like those of the authors' job files.

    Model and gang size are drawn jointly; the run time is drawn from a distribution of the model. Work is
    ``total_iterations`` x ``time_per_iteration_s`` seconds on one GPU; a gang of g GPUs without communication takes 1/g
    of that time. Attributes: model, batch_size (samples), total_iterations, time_per_iteration_s (on one GPU). The
    profile rule "dally" reads these attributes.

    Parameters
    ----------
    max_gpus : larger gangs are left out [GPU]
    mean_gap_s : mean time between Poisson arrivals [s]; 0 = all jobs arrive at once. The default is the mean over the
        three files whose arrivals are one Poisson process over a week
    single_gpus : True = like the files with 500 jobs, more than half of which demand one GPU; False = like the files
        with 411 jobs, which all demand two GPUs or more

    Notes
    -----
    These are the differences from the authors' files in the time on one GPU (tests/traces/test_dally_profiles.py):
    quantiles from 10 to 90 % differ by at most 38 % for each model, medians by at most 28 % for each model, and the
    mean over all jobs by at most 8 %.

    Raises
    ------
    WorkloadError : a gap below 0, or no gang left
    """
    if not 0 <= mean_gap_s < math.inf:
        raise WorkloadError(f"mean_gap_s is {mean_gap_s!r}: it must be a finite number of seconds >= 0")
    kinds = [
        (name, gpus, count)
        for name, model in DALLY_MODELS.items()
        for gpus, count in (model.all_jobs if single_gpus else model.gangs).items()
        if max_gpus is None or gpus <= max_gpus
    ]
    if not kinds:
        raise WorkloadError(
            f"synthetic:dally has no gang of at most {max_gpus} GPUs; raise max_gpus, or set single_gpus"
        )
    weights = np.array([count for *_, count in kinds], float)
    drawn = rng.choice(len(kinds), size=jobs, p=weights / weights.sum())
    names = np.array([name for name, *_ in kinds])[drawn]
    gpus = np.array([gang for _, gang, _ in kinds])[drawn]
    normal, share = draws.normal(rng, jobs), rng.random(jobs)
    gaps = draws.exponential(rng, jobs) * mean_gap_s
    work_s, each_s, batch = np.empty(jobs), np.empty(jobs), np.empty(jobs, np.int64)
    for name, model in DALLY_MODELS.items():
        of = names == name
        work_s[of] = model.median_s * arrays.exp(model.sigma * normal[of])
        seconds, samples, counts = (np.array(column) for column in zip(*model.iterations, strict=True))
        chosen = np.searchsorted(np.cumsum(counts) / counts.sum(), share[of], side="right")
        each_s[of], batch[of] = seconds[chosen], samples[chosen]
    iterations = np.ceil(work_s / each_s)
    attributes = {
        "model": names,
        "batch_size": batch,
        "total_iterations": iterations,
        "time_per_iteration_s": each_s,
    }
    arrival = np.cumsum(gaps) - gaps[0]
    return Workload.from_columns(arrival, gpus, iterations * each_s / gpus, attributes=attributes)
