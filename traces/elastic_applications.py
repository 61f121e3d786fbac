"""Elastic jobs that train the applications of Pollux: sizes, and the speed of each size from the fitted models."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.portable.arrays import total
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.sizes import Sizes
from gpusched_env.problem.workload import MEASURED_DTYPE, Profiles, Workload
from gpusched_env.traces.profile_tables import FittedTable, load_fitted, load_steps
from gpusched_env.traces.profile_tables.application import Application
from gpusched_env.traces.profile_tables.goodput import Limits, Timing, best_batches, kept_batch
from gpusched_env.traces.profile_tables.steps import placement_of

GPU_TYPE: Final = "T4"
SPEEDS: Final = ("fitted", "robust", "measured")
STEPS: Final = "pollux-steps"  # table of the measured speeds
MOST_GPUS: Final = 64  # [GPU] largest gang (petuum/adaptdl, branch osdi21-artifact, simulator/simulator.py)
# Smallest batch of a pass on one GPU [samples], from simulator/applications.py of the same repository (Apache-2.0)
LEAST_BATCH: Final = {"bert": 4, "cifar10": 32, "deepspeech2": 10, "imagenet": 20, "ncf": 32, "yolov3": 4}
ONE_GPU: Final = ("ncf",)  # applications that the same code trains on one GPU only
Job = tuple[
    str, int, int
]  # application, batch of the whole gang, and a size that the job has beside those of this batch
Kind = tuple[str, float | None]  # application, and samples on each GPU; None = those of the largest goodput


def limits_of(application: str, gpu_type: str = GPU_TYPE) -> Limits:
    """Return the batches that an application may use on a GPU type."""
    table = _table(gpu_type)
    if application not in LEAST_BATCH:
        known = ", ".join(LEAST_BATCH)
        raise WorkloadError(f"model {application!r}: elastic speeds are known for {known} only; use the rule 'amdahl'")
    trained = table.applications[application]
    most = table.fits[gpu_type][application].largest_batch
    return Limits(trained.initial_batch, max(trained.iterations), LEAST_BATCH[application], most)


def adaptive_jobs(workload: Workload, speeds: str = "fitted", slowdowns: Mapping[str, float] | None = None) -> Workload:
    """Let every job run on 1 to 64 GPUs with the batch that makes its goodput largest there (Pollux).

    The workload must name the application of each job (attribute ``model``), as those of Pollux do. The work of a job
    is the number of iterations at the initial batch of its application, whatever its own batch is. The speeds are those
    of the GPU types of the workload's profiles: T4, or also those of Sia. Jobs of ONE_GPU request one GPU, whatever the
    workload says, because Pollux ignores what jobs request and trains these applications on one GPU.

    Parameters
    ----------
    speeds : "fitted" = the fitted model gives the time of a step, and the iteration counts of the trainings its worth;
        "robust" = the same, with the robust fits of Sia's GPU types; "measured" = measured step times and gradients
        give both, as in the simulator of Pollux. There, a model that a job fits while it runs chooses the batch; here,
        the measurements do. They are of T4 only. In a part of the training in which some of its GPUs would slow a gang
        down, they idle
    slowdowns : application -> factor > 0 by which all its times are longer, as in the calibration of Sia's simulator;
        1 for applications that it does not name

    Notes
    -----
    An iteration at batch M is worth iterations(M0) / iterations(M) iterations at the initial batch M0. Both were
    measured in complete trainings, in each tenth of the training. At each size, a job has the best batch in each tenth.
    Deviation: the speed of a job at a size is the mean over its training, weighted by progress, so its run time on
    constant GPUs is exact, but it does not speed up as the training goes on, as Pollux's jobs do. At measured speeds,
    GPUs that slow a gang down in a part of the training idle there, because Pollux's jobs grow when it pays: the first
    tenth of the training of YOLOv3 takes longer on 32 GPUs than on one, and two fifths of the whole training.
    """
    return _worth_jobs(workload, speeds, [(model, None) for model in _models(workload)], slowdowns or {})


def scaled_batch_jobs(workload: Workload, speeds: str = "fitted") -> Workload:
    """Let every job run on 1 to 64 GPUs with the batch on each GPU that it requests (weak scaling).

    The batch of the whole gang is in proportion to its GPUs. A job has the sizes at which this batch is between the
    initial and the largest one of its application. The rest is as for :func:`adaptive_jobs`, except that no GPUs idle
    at measured speeds.
    """
    asked = np.where(np.isin(_models(workload), ONE_GPU), 1, workload.jobs["gpus"])
    shares = _batches(workload) / asked
    return _worth_jobs(workload, speeds, list(zip(_models(workload), shares.tolist(), strict=True)))


def _worth_jobs(
    workload: Workload, speeds: str, jobs: list[Kind], slowdowns: Mapping[str, float] = MappingProxyType({})
) -> Workload:
    """Give jobs the sizes and speeds of their kinds; the work is counted in iterations at the initial batch."""
    kinds, types = sorted(set(jobs), key=str), workload.profiles.gpu_types
    if workload.profiles.is_unit and not set(types) <= load_fitted("sia").fits.keys():
        types = (GPU_TYPE,)  # jobs of unknown models have one profile, whose GPU type means nothing
    if speeds == "measured" and types != (GPU_TYPE,):
        raise WorkloadError(f"speeds 'measured' are of {GPU_TYPE} only, not of {', '.join(types)}; use 'fitted'")
    trained = _applications(speeds, *types)
    measured, options, plain = [], [], []
    for row, (name, share) in enumerate(kinds):
        slow = slowdowns.get(name, 1.0)
        on_types = [
            [(gpus, tier, slow * own_s, slow * seconds) for gpus, tier, own_s, seconds in times]
            for times in (_adaptive_speeds(name, speeds, gpu_type, share) for gpu_type in types)
        ]
        gangs = {gpus for times in on_types for gpus, *_ in times}
        if not gangs:
            raise WorkloadError(f"model {name!r}: no gang may have {share:g} samples on each GPU; change the batch")
        for column, times in enumerate(on_types):
            measured += [(row, column, gpus, tier, own_s, seconds - own_s) for gpus, tier, own_s, seconds in times]
            lost = gangs - {gpus for gpus, *_ in times}
            measured += [(row, column, gpus, MACHINE, np.inf, 0.0) for gpus in sorted(lost)]
        options.append([(gpus, row) for gpus in sorted(gangs)])
        plain.append(
            dict(
                name=f"{name} (adaptive batch)" if share is None else f"{name} ({share:g} samples on each GPU)",
                batch=limits_of(name).least,
                gradient_bytes=trained[name].gradient_bytes,
                memory_bytes=0.0,
                skew=trained[name].skew,
                overlap=1.0,
                compute_s=[times[0][2] if times else np.inf for times in on_types],
            )
        )
    base = Profiles.from_rows(plain, types)
    profiles = Profiles(base.rows, base.compute_s, base.gpu_types, np.array(measured, MEASURED_DTYPE))
    group = np.array([kinds.index(job) for job in jobs], np.int32)
    work = [trained[model].iterations_at(limits_of(model).initial) for model, _ in jobs]
    gpus = np.where(np.isin([model for model, _ in jobs], ONE_GPU), 1, workload.jobs["gpus"])
    return _rebuilt(workload, group, profiles, Sizes.of_groups(group, options), work, gpus)


def fixed_batch_jobs(workload: Workload, speeds: str = "fitted") -> Workload:
    """Let every job run on 1 to 64 GPUs with the batch that it requests for the whole gang (Optimus).

    The workload must name the application and the batch of each job (attributes ``model`` and ``batch_size``). Jobs of
    ONE_GPU run on one GPU, or on the GPUs that they request, so that rigid schedulers (Tiresias) can play them.
    ``speeds`` are those of :func:`adaptive_jobs`; measured ones are of whole samples on each GPU.
    """
    batches = _batches(workload).tolist()
    gpus = workload.jobs["gpus"].tolist()
    asked = [count if model in ONE_GPU else 1 for model, count in zip(_models(workload), gpus, strict=True)]
    jobs = list(zip(_models(workload), batches, asked, strict=True))
    kinds = sorted(set(jobs))
    if speeds == "measured":
        return _measured_fixed(workload, jobs, kinds)
    _applications(speeds, GPU_TYPE)
    each = [(kind, size) for kind, job in enumerate(kinds) for size in _sizes_with(*job)]
    profiles, rows = load_fitted("pollux").for_jobs(
        [kinds[kind][0] for kind, _ in each],
        [kinds[kind][1] for kind, _ in each],
        [size for _, size in each],
        (GPU_TYPE,),
    )
    options: list[list[tuple[int, int]]] = [[] for _ in kinds]
    for (kind, size), row in zip(each, rows.tolist(), strict=True):
        options[kind].append((size, row))
    group = np.array([kinds.index(job) for job in jobs], np.int32)
    row_of = [dict(options[g]).get(count, 0) for g, count in zip(group, gpus, strict=True)]
    work = workload.jobs["iterations"].tolist()
    return _rebuilt(workload, np.array(row_of, np.int32), profiles, Sizes.of_groups(group, options), work)


def _table(*gpu_types: str, speeds: str = "fitted") -> FittedTable:
    """Return the table that has all of these GPU types."""
    of_sia = "sia-robust" if speeds == "robust" else "sia"
    return load_fitted("pollux" if gpu_types == (GPU_TYPE,) else of_sia)


def _models(workload: Workload) -> list[str]:
    if "model" not in workload.attributes:
        raise WorkloadError(f"workload {workload.name!r} names no models (no attribute 'model'); use the rule 'amdahl'")
    models = [str(model) for model in workload.attributes["model"]]
    for model in set(models):
        limits_of(model)
    return models


def _batches(workload: Workload) -> np.ndarray:
    """int64: the batch that each job requests for the whole gang [samples]."""
    if "batch_size" not in workload.attributes:
        raise WorkloadError(f"workload {workload.name!r} has no attribute 'batch_size'; use a workload of Pollux")
    return np.array([int(batch) for batch in workload.attributes["batch_size"]])


def _applications(speeds: str, *gpu_types: str) -> Mapping[str, Application]:
    """Return the applications with the iterations that they need at each batch."""
    if speeds not in SPEEDS:
        raise WorkloadError(unknown_name("speeds of elastic jobs", speeds, SPEEDS))
    return load_steps(STEPS).applications if speeds == "measured" else _table(*gpu_types).applications


def _measured_fixed(workload: Workload, jobs: list[Job], kinds: list[Job]) -> Workload:
    """Let every job run with its batch at measured speeds; ``kinds`` are the distinct ``jobs``."""
    table = load_steps(STEPS)
    plain, measured, options, work = [], [], [], []
    for row, (name, batch, asked) in enumerate(kinds):
        trained = table.applications[name]
        count = _iterations_at(trained, batch)
        if not count:
            raise WorkloadError(f"model {name!r}: no training with a batch of {batch} samples; it is out of range")
        work.append(count)
        times = [
            (row, 0, gpus, tier, *found)
            for gpus in _sizes_with(name, batch, asked)
            for tier, machines in _tiers(gpus)
            if (found := _fixed_step(name, batch, gpus, machines))
        ]
        if not times:
            raise WorkloadError(f"model {name!r}: no measured step with a batch of {batch} samples on any gang")
        options.append([(gpus, row) for gpus in sorted({each[2] for each in times})])
        measured += times
        plain.append(
            dict(
                name=f"{name} (batch {batch}{f', {asked} GPUs' if asked > 1 else ''})",
                batch=batch,
                gradient_bytes=trained.gradient_bytes,
                memory_bytes=0.0,
                skew=trained.skew,
                overlap=1.0,
                compute_s=times[0][4],
            )
        )
    base = Profiles.from_rows(plain, (GPU_TYPE,))
    profiles = Profiles(base.rows, base.compute_s, base.gpu_types, np.array(measured, MEASURED_DTYPE))
    group = np.array([kinds.index(job) for job in jobs], np.int32)
    return _rebuilt(workload, group, profiles, Sizes.of_groups(group, options), [work[number] for number in group])


def _iterations_at(trained: Application, batch: int) -> float:
    """Return the iterations to completion at a batch; 0 = it is outside the trained ones."""
    known = sorted(trained.iterations)
    if not known[0] <= batch <= known[-1]:
        return 0.0
    shares, worths = trained.worths()
    initial = trained.iterations[known[0]]
    return initial * total(shares / np.array([float(worth(np.array([float(batch)]))[0]) for worth in worths]))


def _fixed_step(application: str, batch: int, gpus: int, machines: int) -> tuple[float, float] | None:
    """Return the compute and the synchronisation time of an iteration [s]; None = it was not measured.

    As in the authors' code, a gang of one GPU takes at least two passes above the initial batch.
    """
    limits = limits_of(application)
    share = -(-batch // gpus)
    passes = max(-(-share // limits.most), 2 if gpus == 1 and batch > limits.initial else 1)
    samples = min(-(-share // passes), limits.largest // (gpus * passes))
    step = load_steps(STEPS).seconds(application, gpus, machines, samples)
    return None if step is None else (passes * step[0], step[1])


def _tiers(gpus: int) -> tuple[tuple[int, int], ...]:
    """Return the tiers of a gang, each with the number of machines for which its times are known."""
    return ((MACHINE, 1), (RACK, 2))[: 1 if gpus == 1 else None]


@cache
def _adaptive_speeds(
    application: str, speeds: str, gpu_type: str, share: float | None = None
) -> list[tuple[int, int, float, float]]:
    """Return a tuple (GPUs, tier, compute [s], total [s]) per iteration at the initial batch, of each size and tier."""
    found: list[tuple[int, int, float, float]] = []
    for gpus in _sizes(application, limits_of(application, gpu_type).largest):
        for tier, machines in _tiers(gpus):
            times = _adaptive_times(application, speeds, gpu_type, gpus, machines, share)
            if times is not None:
                found.append((gpus, tier, *times))
            elif speeds == "measured" and share is None and tier == MACHINE and found:
                found.append((gpus, tier, *_extrapolated(application, gpus)))
    return found


def _extrapolated(application: str, gpus: int) -> tuple[float, float]:
    """Return the times of a gang that is larger than each measured machine, if it were in one machine.

    No such machine is in the cluster, but the fair share of Pollux is such a gang. Its times are those of the fitted
    model, in the ratio that measured and fitted times have on the largest measured gang in one machine.
    """
    largest = max(size for machines, size in load_steps(STEPS).steps[application] if machines == 1)
    known = _adaptive_times(application, "measured", GPU_TYPE, largest, 1)
    modelled = _adaptive_times(application, "fitted", GPU_TYPE, largest, 1)
    wanted = _adaptive_times(application, "fitted", GPU_TYPE, gpus, 1)
    assert known is not None
    assert modelled is not None
    assert wanted is not None
    return known[0] / modelled[0] * wanted[0], known[1] / modelled[1] * wanted[1]


def _adaptive_times(
    application: str, speeds: str, gpu_type: str, gpus: int, machines: int, share: float | None = None
) -> tuple[float, float] | None:
    """Return the compute and the total time of a gang per iteration at the initial batch [s]; None = no batch fits."""
    shares, _ = _applications(speeds, gpu_type)[application].worths()
    times = (
        _fastest_parts(application, gpus, machines)
        if speeds == "measured" and share is None
        else _part_times(application, speeds, gpu_type, gpus, machines, share)
    )
    return None if times is None else (total(shares * times[:, 0]), total(shares * times[:, 1]))


@cache
def _fastest_parts(application: str, gpus: int, machines: int) -> np.ndarray | None:
    """Return :func:`_part_times` at measured speeds, of the fastest gang among the GPUs of a gang in each part."""
    times = _part_times(application, "measured", GPU_TYPE, gpus, machines)
    if times is None or gpus == 1:
        return times
    fewer = [(gpus - 1, machines)] if gpus > machines else []
    if machines > 1:
        fewer.append((max(placement_of(gpus, machines)), 1))
    for size, on in fewer:
        other = _fastest_parts(application, size, on)
        if other is not None:
            times = np.where(other[:, 1:] < times[:, 1:], other, times)
    return times


@cache
def _part_times(
    application: str, speeds: str, gpu_type: str, gpus: int, machines: int, share: float | None = None
) -> np.ndarray | None:
    """Return the compute and the total time of a gang per iteration at the initial batch [s]; None = no batch fits."""
    _, worths = _applications(speeds, gpu_type)[application].worths()
    timing: Timing = _table(gpu_type, speeds=speeds).fits[gpu_type][application].throughput
    if speeds == "measured":
        timing = load_steps(STEPS).timing(application, gpus, machines)
    limits = limits_of(application, gpu_type)
    choices = (
        best_batches(timing, gpus, machines, limits, worths)
        if share is None
        else kept_batch(timing, gpus, machines, limits, share, worths)
    )
    return np.array([(choice.compute_s, choice.seconds) for choice in choices]) if choices else None


def _sizes(application: str, batch: int) -> range:
    """Return the sizes at which every GPU can have its smallest batch, up to MOST_GPUS."""
    most = 1 if application in ONE_GPU else min(MOST_GPUS, max(batch // LEAST_BATCH[application], 1))
    return range(1, most + 1)


def _sizes_with(application: str, batch: int, asked: int) -> list[int]:
    """Return :func:`_sizes` and the requested size, if every GPU can have its smallest batch there."""
    known = list(_sizes(application, batch))
    return sorted({*known, asked}) if asked * LEAST_BATCH[application] <= batch else known


def _rebuilt(
    workload: Workload,
    profile: np.ndarray,
    profiles: Profiles,
    sizes: Sizes,
    work: list[float],
    gpus: np.ndarray | None = None,
) -> Workload:
    """Return the workload with other profiles, sizes, work and, unless None, requested GPUs; checked."""
    jobs = workload.jobs.copy()
    jobs["profile"], jobs["iterations"], jobs["duration_s"] = profile, work, np.nan
    if gpus is not None:
        jobs["gpus"] = gpus
    return Workload(jobs, profiles, workload.name, workload.source, workload.attributes, sizes)
