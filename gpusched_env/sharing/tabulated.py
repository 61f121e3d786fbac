"""Sharing as arrays for the simulator: sub-step options of each job class, their memory, and xi of pairs of classes."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gpusched_env.sharing.interference import model_of
from gpusched_env.sharing.rules import Sharing
from gpusched_env.workload import ACCUMULATION_DTYPE, Profiles, Workload

GB: Final = 1e9  # [byte]


class SharingTables(NamedTuple):
    """Arrays for the kernels; C job classes, K options, T GPU types.

    With an option, each GPU processes its batch in ``sub_steps`` equal sub-batches (gradient accumulation). Option 0 is
    the one that a job uses alone; each later option halves the sub-batch.
    """

    sub_steps: np.ndarray  # int64 [C, K]: gradient-accumulation sub-steps; 0 = no such option
    compute_share: np.ndarray  # float64 [C, K]: compute time of one sub-step / of the whole iteration
    memory: np.ndarray  # float64 [C, K, T]: share of a GPU's memory; inf = no such option
    interference: np.ndarray  # float64 [C, C, T]: xi of the first class beside the second; inf = they must not share


def sub_step_options(batch: int, passes: int = 1) -> list[int]:
    """Numbers of sub-steps into which a GPU may split ``batch`` samples, ascending, ``passes`` first.

    Sub-batches of b = B, ceil(B/2), ceil(B/4), ..., 1 samples take s = ceil(B/b) sub-steps (docs/sjf_bsbf.md).
    """
    steps = {-(-batch // -(-batch // (1 << k))) for k in range(max(batch - 1, 0).bit_length() + 1)}
    return [passes, *sorted(step for step in steps if step > passes)]


def accumulation_of(profiles: Profiles) -> np.ndarray:
    """ACCUMULATION_DTYPE [P]: one row per profile; a profile without accumulation data has one pass and no memory."""
    rows = np.zeros(len(profiles.rows), ACCUMULATION_DTYPE)
    rows["profile"] = np.arange(len(rows))
    rows["passes"] = 1
    rows[profiles.accumulation["profile"]] = profiles.accumulation
    return rows


def sharing_tables(
    sharing: Sharing, classes: np.ndarray, workload: Workload, gpu_types: tuple[str, ...]
) -> SharingTables:
    """Tabulate sharing by job class; ``classes`` is int64 [C, 2], profile row and gang size."""
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
    smaller = passes / np.maximum(sub_steps, 1)  # samples of a sub-step / those of a pass
    compute = (rows["fixed_compute"][:, None] * (1.0 - smaller) + smaller) / passes
    memory = _memory(sharing, profiles, rows, smaller, gpu_types)
    memory[sub_steps == 0] = np.inf
    return SharingTables(sub_steps, compute, memory, sharing.source.slowdowns(classes, workload, gpu_types))


def _memory(
    sharing: Sharing, profiles: Profiles, rows: np.ndarray, smaller: np.ndarray, gpu_types: tuple[str, ...]
) -> np.ndarray:
    """float64 [C, K, T]: share of a GPU's memory.

    If bytes are known for both job and GPU type, they replace the profile's share, which is the same for all GPU types.
    The fraction that shrinks with the sub-batch is always the profile's.

    Parameters
    ----------
    rows : ACCUMULATION_DTYPE [C]
    smaller : float64 [C, K], samples of a sub-step / samples of a pass of the job alone
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
