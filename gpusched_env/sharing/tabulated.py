"""Sharing as arrays for the simulator: options of sub-steps of each job class, their memory, and xi of each pair."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpusched_env.problem.workload import ACCUMULATION_DTYPE, Profiles, Workload
from gpusched_env.sharing.interference import model_of
from gpusched_env.sharing.rules import Sharing

GB: Final = 1e9  # [byte]


class SharingTables(NamedTuple):
    """Sharing of C job classes with K options of sub-steps on T GPU types, as arrays for the kernels.

    An option is a number of equal sub-steps in which a GPU processes its batch (gradient accumulation). A job that is
    alone on its GPUs uses option 0. Each further option halves the samples of a sub-step.
    """

    sub_steps: np.ndarray  # int64 [C, K], number of sub-steps; 0 = the class has no such option
    compute_share: np.ndarray  # float64 [C, K], compute time of a sub-step / compute time of the whole iteration
    memory: np.ndarray  # float64 [C, K, T], share of a GPU's memory; inf = the class has no such option
    interference: np.ndarray  # float64 [C, C, T], xi of the first class beside the second; inf = they must not share


def sub_step_options(batch: int, passes: int = 1) -> list[int]:
    """Return the numbers of sub-steps into which a GPU may split ``batch`` samples, ascending.

    The first is ``passes``, the number for a job that is alone on its GPUs. The others are those numbers s = ceil(B/b)
    above ``passes`` for which a sub-step has b = B, ceil(B/2), ceil(B/4), ..., 1 of the B samples (docs/sjf_bsbf.md).
    """
    steps = {-(-batch // -(-batch // (1 << k))) for k in range(max(batch - 1, 0).bit_length() + 1)}
    return [passes, *sorted(step for step in steps if step > passes)]


def accumulation_of(profiles: Profiles) -> np.ndarray:
    """Return one row per profile, ACCUMULATION_DTYPE [P]."""
    rows = np.zeros(len(profiles.rows), ACCUMULATION_DTYPE)
    rows["profile"] = np.arange(len(rows))
    rows["passes"] = 1
    rows[profiles.accumulation["profile"]] = profiles.accumulation
    return rows


def sharing_tables(
    sharing: Sharing, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]
) -> SharingTables:
    """Compute the arrays of :class:`SharingTables`.

    Parameters
    ----------
    sharing : rules of sharing
    classes : int64 [C, 2], profile row and gang size of each job class
    workload : the workload, which has the profiles
    gpu_types : names of the GPU types
    """
    profiles = workload.profiles
    told = np.isin(classes[:, 0], profiles.accumulation["profile"]).tolist()
    rows = accumulation_of(profiles)[classes[:, 0]]
    batches = profiles.rows["batch"][classes[:, 0]].tolist()
    options = [
        sub_step_options(batch, passes) if known else [passes]
        for batch, passes, known in zip(batches, rows["passes"].tolist(), told, strict=True)
    ]
    sub_steps = np.zeros((len(classes), max(map(len, options))), np.int64)
    for steps, given in zip(sub_steps, options, strict=True):
        steps[: len(given)] = given
    passes = rows["passes"][:, None]
    smaller = passes / np.maximum(sub_steps, 1)  # samples of a sub-step / samples of a pass
    compute = (rows["fixed_compute"][:, None] * (1.0 - smaller) + smaller) / passes
    memory = _memory(sharing, profiles, rows, smaller, gpu_types)
    memory[sub_steps == 0] = np.inf
    return SharingTables(sub_steps, compute, memory, sharing.source.slowdowns(classes, workload, gpu_types))


def _memory(
    sharing: Sharing, profiles: Profiles, rows: np.ndarray, smaller: np.ndarray, gpu_types: tuple[str, ...]
) -> np.ndarray:
    """Return the share of a GPU's memory that each class needs with each option; float64 [C, K, T].

    If the memory of both the job and the GPU type is known in bytes, their ratio replaces the share in the profile.
    (The share in the profile is the same for all GPU types.) The profile always determines which part of this memory
    shrinks with the samples of a sub-step.
    """
    told = rows["fixed_memory"] + rows["batch_memory"]
    shrinking = (rows["batch_memory"] / np.where(told > 0, told, 1.0))[:, None]
    names = profiles.rows["name"][rows["profile"]].tolist()
    own = profiles.rows["memory_bytes"][rows["profile"]] / GB
    needed = np.array(
        [sharing.model_memory_GB.get(model_of(name), size) for name, size in zip(names, own, strict=True)]
    )
    whole = np.repeat(told[:, None], len(gpu_types), axis=1)
    for column, gpu_type in enumerate(gpu_types):
        if gpu_type in sharing.gpu_memory_GB:
            whole[:, column] = np.where(needed > 0, needed / sharing.gpu_memory_GB[gpu_type], told)
    memory: np.ndarray = whole[:, None, :] * (1.0 - shrinking + shrinking * smaller)[:, :, None]
    return memory
