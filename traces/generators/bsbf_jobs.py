"""Jobs like those of SJF-BSBF's experiment on 16 GPUs (Luo et al., IWQoS 2024), as far as the paper describes them."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.profile_tables import load_fitted

SMALL: Final = (1, 2, 4, 8)  # [GPU]; equally probable (choice)
LARGE: Final = (12, 16)  # [GPU]; equally probable (choice)
LARGE_SHARE: Final = 1 / 3  # share of jobs with large gangs: 10 of the paper's 30
ITERATIONS: Final = (100, 5_000)  # uniform, bounds included (choice)


def bsbf_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    span_s: float = 1_200.0,
    batch_share: float = 0.5,
) -> Workload:
    """Draw jobs that train for 100 to 5,000 iterations on T4: a third on 12 or 16 GPUs, the others on 1 to 8.

    Applications are those of the table ``bsbf``, equally probable (choice). Attributes: model, batch_size (of the whole
    gang).

    Parameters
    ----------
    max_gpus : larger gangs are left out; below 12, all jobs draw from the small gangs [GPU]
    span_s : length of the interval over which arrivals are independent and uniform [s]
    batch_share : batch per GPU / largest batch that fits into its memory; the batch is rounded down, but is at least
        one sample
    """
    if not 0 <= span_s < math.inf:
        raise WorkloadError(f"span_s is {span_s!r}: it must be a finite number of seconds >= 0")
    if not 0 < batch_share <= 1:
        raise WorkloadError(f"batch_share is {batch_share!r}: it must be above 0 and at most 1")
    table = load_fitted("bsbf")
    limit = math.inf if max_gpus is None else max_gpus
    small, large = ([gang for gang in gangs if gang <= limit] for gangs in (SMALL, LARGE))
    is_large = rng.permutation(jobs) < round(LARGE_SHARE * jobs)
    gangs = np.where(is_large, rng.choice(large or small, jobs), rng.choice(small, jobs))
    names = list(table.applications)
    models = [names[k] for k in rng.integers(len(names), size=jobs).tolist()]
    fits = table.fits["T4"]
    batches = gangs * [max(1, int(batch_share * fits[name].largest_batch)) for name in models]
    iterations = rng.integers(ITERATIONS[0], ITERATIONS[1] + 1, size=jobs)
    arrival = np.sort(span_s * rng.random(jobs))
    profiles, profile = table.for_jobs(models, batches, gangs)
    return Workload.from_columns(
        arrival - arrival[0],
        gangs,
        iterations=iterations,
        profiles=profiles,
        profile=profile,
        attributes={"model": np.array(models), "batch_size": batches},
    )
