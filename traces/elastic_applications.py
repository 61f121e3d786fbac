"""Elastic jobs that train the applications of Pollux: sizes, and the speed of each size from the fitted models."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from gpusched_env.cluster import MACHINE, RACK
from gpusched_env.errors import WorkloadError
from gpusched_env.portable.arrays import total
from gpusched_env.sizes import Sizes
from gpusched_env.traces.profile_tables import FittedTable, load_fitted
from gpusched_env.traces.profile_tables.goodput import Limits, best_batches
from gpusched_env.workload import MEASURED_DTYPE, Profiles, Workload

GPU_TYPE: Final = "T4"
MOST_GPUS: Final = 64  # [GPU] largest gang (petuum/adaptdl, branch osdi21-artifact, simulator/simulator.py)
# Smallest batch of a pass on one GPU [samples], from simulator/applications.py of the same repository (Apache-2.0)
LEAST_BATCH: Final = {"bert": 4, "cifar10": 32, "deepspeech2": 10, "imagenet": 20, "ncf": 32, "yolov3": 4}
ONE_GPU: Final = ("ncf",)  # applications that the same code trains on one GPU only


def limits_of(application: str, gpu_type: str = GPU_TYPE) -> Limits:
    """Return the batches that an application may use on a GPU type.

    Raises
    ------
    WorkloadError : the application is not one of Pollux's
    """
    table = _table(gpu_type)
    if application not in LEAST_BATCH:
        known = ", ".join(LEAST_BATCH)
        raise WorkloadError(f"model {application!r}: elastic speeds are known for {known} only; use the rule 'amdahl'")
    trained = table.applications[application]
    most = table.fits[gpu_type][application].largest_batch
    return Limits(trained.initial_batch, max(trained.iterations), LEAST_BATCH[application], most)


def adaptive_jobs(workload: Workload) -> Workload:
    """Let every job run on 1 to 64 GPUs with the batch that makes its goodput largest there (Pollux).

    The workload must name the application of each job (attribute ``model``), as those of Pollux do. The work of a job
    is the number of iterations at the initial batch of its application, whatever its own batch is. The speeds are those
    of the GPU types of the workload's profiles: T4, or also those of Sia.

    Notes
    -----
    An iteration at batch M is worth iterations(M0) / iterations(M) iterations at the initial batch M0. Both were
    measured in complete trainings, in each tenth of the training. At each size, a job has the best batch in each tenth.
    Deviation: the speed of a job at a size is the mean over its training, weighted by progress, so its run time on
    constant GPUs is exact, but it does not speed up as the training goes on, as Pollux's jobs do.

    Raises
    ------
    WorkloadError : a job without a known application, or one that requests a size that its application does not have
    """
    models = _models(workload)
    names = sorted(set(models))
    types = workload.profiles.gpu_types
    table = _table(*types)
    measured, options = [], []
    for row, name in enumerate(names):
        speeds = [_adaptive_speeds(name, gpu_type) for gpu_type in types]
        gangs = {gpus for speed in speeds for gpus, *_ in speed}
        for column, speed in enumerate(speeds):
            measured += [(row, column, gpus, tier, own_s, seconds - own_s) for gpus, tier, own_s, seconds in speed]
            lost = gangs - {gpus for gpus, *_ in speed}
            measured += [(row, column, gpus, MACHINE, np.inf, 0.0) for gpus in sorted(lost)]
        options.append([(gpus, row) for gpus in sorted(gangs)])
    plain = [
        dict(
            name=f"{name} (adaptive batch)",
            batch=limits_of(name).least,
            gradient_bytes=table.applications[name].gradient_bytes,
            memory_bytes=0.0,
            skew=table.applications[name].skew,
            overlap=1.0,
            compute_s=[_adaptive_speeds(name, gpu_type)[0][2] for gpu_type in types],
        )
        for name in names
    ]
    base = Profiles.from_rows(plain, types)
    profiles = Profiles(base.rows, base.compute_s, base.gpu_types, np.array(measured, MEASURED_DTYPE))
    group = np.array([names.index(model) for model in models], np.int32)
    work = {name: table.applications[name].iterations_at(limits_of(name).initial) for name in names}
    return _rebuilt(workload, group, profiles, Sizes.of_groups(group, options), [work[model] for model in models])


def fixed_batch_jobs(workload: Workload) -> Workload:
    """Let every job run on 1 to 64 GPUs with the batch that it requests for the whole gang (Optimus).

    The workload must name the application and the batch of each job (attributes ``model`` and ``batch_size``). The work
    of a job stays as it is.

    Raises
    ------
    WorkloadError : a job without a known application or batch, or one that requests a size at which a GPU would have
        too few samples
    """
    if "batch_size" not in workload.attributes:
        raise WorkloadError(f"workload {workload.name!r} has no attribute 'batch_size'; use a workload of Pollux")
    batches = [int(batch) for batch in workload.attributes["batch_size"]]
    jobs = list(zip(_models(workload), batches, strict=True))
    kinds = sorted(set(jobs))
    each = [(name, batch, gpus) for name, batch in kinds for gpus in _sizes(name, batch)]
    profiles, rows = load_fitted("pollux").for_jobs(
        [name for name, _, _ in each], [batch for _, batch, _ in each], [gpus for _, _, gpus in each], (GPU_TYPE,)
    )
    options: list[list[tuple[int, int]]] = [[] for _ in kinds]
    for (name, batch, gpus), row in zip(each, rows.tolist(), strict=True):
        options[kinds.index((name, batch))].append((gpus, row))
    group = np.array([kinds.index(job) for job in jobs], np.int32)
    row_of = [dict(options[g]).get(gpus, 0) for g, gpus in zip(group, workload.jobs["gpus"].tolist(), strict=True)]
    work = workload.jobs["iterations"].tolist()
    return _rebuilt(workload, np.array(row_of, np.int32), profiles, Sizes.of_groups(group, options), work)


def _table(*gpu_types: str) -> FittedTable:
    """Return the table that has all of these GPU types."""
    return load_fitted("pollux" if gpu_types == (GPU_TYPE,) else "sia")


def _models(workload: Workload) -> list[str]:
    if "model" not in workload.attributes:
        raise WorkloadError(f"workload {workload.name!r} names no models (no attribute 'model'); use the rule 'amdahl'")
    models = [str(model) for model in workload.attributes["model"]]
    for model in set(models):
        limits_of(model)
    return models


@cache
def _adaptive_speeds(application: str, gpu_type: str = GPU_TYPE) -> list[tuple[int, int, float, float]]:
    """Return a tuple (GPUs, tier, compute [s], total [s]) per iteration at the initial batch, of each size and tier."""
    table = _table(gpu_type)
    trained, fit = table.applications[application], table.fits[gpu_type][application]
    limits = limits_of(application, gpu_type)
    shares, worths = trained.worths()
    found = []
    for gpus in _sizes(application, limits.largest):
        for tier, machines in ((MACHINE, 1), (RACK, 2))[: 1 if gpus == 1 else None]:
            choices = best_batches(fit.throughput, gpus, machines, limits, worths)
            if choices:
                compute_s = total(shares * np.array([choice.compute_s for choice in choices]))
                seconds = total(shares * np.array([choice.seconds for choice in choices]))
                found.append((gpus, tier, compute_s, seconds))
    return found


def _sizes(application: str, batch: int) -> range:
    """Return the sizes at which every GPU can have its smallest batch, up to MOST_GPUS."""
    most = 1 if application in ONE_GPU else min(MOST_GPUS, max(batch // LEAST_BATCH[application], 1))
    return range(1, most + 1)


def _rebuilt(workload: Workload, profile: np.ndarray, profiles: Profiles, sizes: Sizes, work: list[float]) -> Workload:
    """Return the workload with other profiles, sizes and work; checked."""
    jobs = workload.jobs.copy()
    jobs["profile"], jobs["iterations"], jobs["duration_s"] = profile, work, np.nan
    return Workload(jobs, profiles, workload.name, workload.source, workload.attributes, sizes)
