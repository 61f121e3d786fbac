"""Jobs like those of Dally's simulator (Sharma et al., arXiv 2401.16492): six models, gangs of up to 56 GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays, draws
from gpusched_env.problem.workload import Workload


@dataclass(frozen=True)
class DallyModel:
    """Statistics of the jobs of one model in the authors' job files, by demand [GPU].

    ``all_jobs`` is of the files with 500 jobs, ``gangs`` of those with 411 jobs. The time on one GPU is log-normal,
    fitted by moments. ``iterations`` are (seconds of an iteration on one GPU, batch size [samples], number of jobs).
    """

    all_jobs: dict[int, int]
    gangs: dict[int, int]
    median_s: float
    sigma: float
    iterations: tuple[tuple[float, int, int], ...]


# Counted in the job files of aakash-sharma/cluster-sim, commit 4cd660e, configuration/jobs: sense_500jobs_* (500 jobs)
# and sense_500jobs_poisson_1proc-week (411 jobs). The demands and durations in these files come from the log of Helios
# Venus.
DALLY_MODELS: Final = msgspec.json.decode(
    (Path(__file__).parent / "calibrations" / "dally-models.json").read_bytes(), type=dict[str, DallyModel]
)


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
    attributes = {"model": names, "batch_size": batch, "total_iterations": iterations, "time_per_iteration_s": each_s}
    arrival = np.cumsum(gaps) - gaps[0]
    return Workload.from_columns(arrival, gpus, iterations * each_s / gpus, attributes=attributes)
