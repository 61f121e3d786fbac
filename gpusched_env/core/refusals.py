"""Reasons for which a decision is refused."""

from __future__ import annotations

from typing import Final

from gpusched_env.support.units import LATEST_S

# Kernels return the index of the reason; 0 = the decision was applied.
REFUSALS: Final = (
    "",
    "no such job in this scenario",
    "the job has not arrived yet",
    "the job is running",
    "the job has finished",
    "too few free GPUs",
    "the placement rule finds no place now",
    "an explicit GPU does not exist, is listed twice or is not free",
    "the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it",
    "the job is not running",
    "the gang is being checkpointed",
    "the gang started at this very instant",
    "a lease must end in the future",
    "the job cannot run on the type of one of these GPUs",
    "the job's model must not share a GPU with a model that runs on one of these",
    "one of these GPUs has too little free memory for this sub-batch, or for every sub-batch",
    "its batch cannot be worked off in so many sub-steps",
    "the job cannot run on so many GPUs",
    "the job has started before",
    "the job was refused",
    "one of these GPUs is outside the job's partition, or reserved for others",
    f"until_s of a lease is later than {LATEST_S:g} s, the latest time of the clock; inf = no lease",
    "these GPUs split the gang in another way than its min_nodes and max_nodes demand",
)
(
    APPLIED, NO_JOB, NOT_ARRIVED, IS_RUNNING, IS_FINISHED, TOO_FEW_GPUS, NO_PLACE, BAD_GPUS, BAD_GANG, NOT_RUNNING,
    IS_CHECKPOINTING, JUST_STARTED, LEASE_IN_PAST, CANNOT_RUN,
    MAY_NOT_SHARE, NO_MEMORY, BAD_SUB_STEPS, BAD_SIZE, HAS_STARTED, IS_REFUSED, IS_CLOSED,
    LEASE_TOO_LATE, SPLITS_PART,
) = range(len(REFUSALS))  # fmt: skip
