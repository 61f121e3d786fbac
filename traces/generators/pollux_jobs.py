"""Jobs that train Pollux's applications: its eight-hour workloads, and the experiment of SJF-BSBF on 16 GPUs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays, draws
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.profile_tables import load_fitted

if TYPE_CHECKING:
    from gpusched_env.traces.profile_tables.fitted import FittedTable

JOBS: Final = 160  # number of jobs per window of eight hours at relative load 1
HOUR: Final = 3600.0  # [s]

# Counted in the Philly log (Jeon et al., USENIX ATC 2019; CC-BY-4.0). Pollux publishes 62,861 of its jobs, and its
# generator uses 26,383 of these: jobs that were submitted between 2 and 10 h, ran for at least a minute and took less
# than 1,000 GPU h. Only these are counted.
HOURLY: Final = (0.1124, 0.1077, 0.06038, 0.1157, 0.1727, 0.2247, 0.1086, 0.09779)  # share of the jobs in each hour
# Classes by GPU time in the log: below 1 GPU h, below 10, below 100, and the rest. Each is (share of the jobs,
# applications, gang size [GPU] -> probability). In the classes from 10 GPU h on, Pollux draws the gangs only from jobs
# of at most 24 h.
CLASSES: Final[tuple[tuple[float, tuple[str, ...], dict[int, float]], ...]] = (
    (0.7768, ("cifar10", "ncf"), {1: 0.9838, 2: 0.002391, 4: 0.008344, 8: 0.004977, 16: 0.0005367}),
    (
        0.1706,
        ("deepspeech2", "bert"),
        {1: 0.958, 2: 0.001555, 4: 0.016, 8: 0.01911, 12: 0.0002222, 16: 0.002888, 24: 0.0004443, 32: 0.001777},
    ),
    (
        0.03559,
        ("yolov3",),
        {1: 0.4275, 2: 0.04683, 4: 0.281, 8: 0.21, 12: 0.001511, 16: 0.01662, 32: 0.0136, 64: 0.003021},
    ),
    (0.01702, ("imagenet",), {8: 0.6364, 16: 0.2727, 32: 0.09091}),
)
# Pairs (gang size [GPU], batch of the gang [samples]) with 50 to 80 % of linear speed-up, from Pollux's published
# workloads; all pairs of an application are equally probable
TUNED: Final = {
    "bert": ((6, 384), (8, 384), (12, 384), (16, 384)),
    "cifar10": ((6, 2048), (8, 2048), (12, 4096), (16, 4096)),
    "deepspeech2": ((6, 320), (8, 320), (12, 640)),
    "imagenet": ((24, 3200), (32, 6400), (48, 6400)),
    "ncf": ((1, 32768),),
    "yolov3": ((4, 64),),
}
# Of the jobs of SJF-BSBF
SMALL: Final = (1, 2, 4, 8)  # [GPU]; equally probable (choice)
LARGE: Final = (12, 16)  # [GPU]; equally probable (choice)
LARGE_SHARE: Final = 1 / 3  # share of jobs with large gangs: 10 of the paper's 30
BSBF_ITERATIONS: Final = (100, 5_000)  # uniform, bounds included (choice)

Choice = tuple[str, int, int, float]  # application, gang [GPU], batch of the gang [samples], probability


def pollux_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    relative_load: float = 1.0,
    realistic: bool = False,
    sharing: bool = False,
    mixed_types: bool = False,
) -> Workload:
    """Draw jobs that train applications on T4, as the generator of Pollux (Qiao et al., OSDI 2021) samples them.

    A window of eight hours has 160 x ``relative_load`` jobs, which arrive independently; each hour has its share of the
    jobs in the log. Window follows window until there are ``jobs`` jobs. Profiles are for T4. Attributes: model (the
    application), batch_size.

    Parameters
    ----------
    relative_load : factor on the number of jobs per window; Pollux publishes workloads with 0.5, 1, 1.5 and 2
    realistic : True = gangs of the log, with the application's initial batch on each GPU; False = gangs and batches
        that Pollux tuned for 50 to 80 % of linear speed-up
    sharing : True = profiles of the table ``bsbf``, which also describe compute and memory under gradient accumulation;
        False = profiles of the table ``pollux``
    mixed_types : True = profiles of the table ``sia``, which also has three other GPU types
    """
    if not 0 < relative_load <= 1e4:  # a window of more jobs takes long to draw, and gigabytes
        raise WorkloadError(f"relative_load is {relative_load!r}: it must be a finite number > 0, at most 10000")
    if sharing and mixed_types:
        raise WorkloadError("sharing is measured on T4 only: leave out mixed_types")
    table = load_fitted("bsbf" if sharing else "sia" if mixed_types else "pollux")
    initial = {name: application.initial_batch for name, application in table.applications.items()}
    choices = [choice for choice in _choices(realistic, initial) if max_gpus is None or choice[1] <= max_gpus]
    cumulative = np.cumsum([probability for *_, probability in choices])
    arrival = _arrivals(rng, jobs, max(1, round(JOBS * relative_load)))
    drawn = np.searchsorted(cumulative / cumulative[-1], rng.random(jobs), side="right").tolist()
    models, gangs, batches = ([choices[k][column] for k in drawn] for column in range(3))
    iterations = [table.applications[name].iterations_at(batch) for name, batch in zip(models, batches, strict=True)]
    return _training(table, arrival, models, batches, gangs, iterations)


def _choices(realistic: bool, initial_batch: dict[str, int]) -> list[Choice]:
    """Return all combinations of application, gang and batch, with their probabilities."""
    choices: list[Choice] = []
    for share, applications, gangs in CLASSES:
        for name in applications:
            each = share / len(applications)
            if realistic:
                choices += [(name, gpus, gpus * initial_batch[name], each * p) for gpus, p in gangs.items()]
            else:
                choices += [(name, *tuned, each / len(TUNED[name])) for tuned in TUNED[name]]
    return choices


def _arrivals(rng: np.random.Generator, jobs: int, window: int) -> np.ndarray:
    """Draw ``window`` independent arrivals in each window and return the first ``jobs``, ascending [s].

    Sorted uniform numbers are generated as partial sums of exponential numbers divided by their total.
    """
    cumulative = np.concatenate([[0.0], np.cumsum(HOURLY)])
    arrivals = []
    for first in range(0, jobs, window):
        count = min(window, jobs - first)
        sums = np.cumsum(draws.exponential(rng, window + 1))
        passed = sums[:count] / sums[-1] * cumulative[-1]
        hours = arrays.interpolated(passed, cumulative, np.arange(len(cumulative)))
        arrivals.append(HOUR * (len(HOURLY) * (first // window) + hours))
    return np.concatenate(arrivals)


def bsbf_jobs(
    rng: np.random.Generator, jobs: int, max_gpus: int | None = None, span_s: float = 1_200.0, batch_share: float = 0.5
) -> Workload:
    """Draw jobs like those of SJF-BSBF (Luo et al., IWQoS 2024), as far as the paper describes them.

    They train for 100 to 5,000 iterations on T4: a third on 12 or 16 GPUs, the others on 1 to 8. Applications are those
    of the table ``bsbf``, equally probable (choice). Attributes: model, batch_size (of the whole gang).

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
    iterations = rng.integers(BSBF_ITERATIONS[0], BSBF_ITERATIONS[1] + 1, size=jobs)
    arrival = np.sort(span_s * rng.random(jobs))
    return _training(table, arrival, models, batches, gangs, iterations)


def _training(
    table: FittedTable, arrival: np.ndarray, models: Any, batches: Any, gangs: Any, iterations: Any
) -> Workload:
    """Return jobs that train these applications; each argument but the table has an entry for each job."""
    profiles, profile = table.for_jobs(models, batches, gangs)
    return Workload.from_columns(
        arrival - arrival[0],
        gangs,
        iterations=iterations,
        profiles=profiles,
        profile=profile,
        attributes={"model": np.array(models), "batch_size": np.asarray(batches)},
    )
