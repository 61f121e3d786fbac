"""The columns of the observation arrays that are there where jobs may share GPUs."""

from __future__ import annotations

from typing import Final

from gpusched_env.envs.observation.columns import COUNT, SHARE, TIME, Column

_XI: Final = "1 - 1/xi; 1 = they must not share"

SUB_BATCHES: Final = (
    Column("memory", "part of a GPU's memory that the job takes at this sub-batch, at most 1", SHARE),
    Column(
        "speed", "iteration time at the whole batch / at this sub-batch, alone; 0 = it has no such sub-batch", SHARE
    ),
)
COMPANY: Final = (
    Column("present", "1 if the slot holds a running job, else the whole row is 0", SHARE),
    Column("gang_of_cluster", "gang size / GPUs of the cluster", SHARE),
    Column("held", "seconds since it got its GPUs", TIME),
    Column("left", "seconds left, were its GPUs its own (L of Theorem 1); 0 unless clairvoyant", TIME),
    Column("memory", "part of a GPU's memory that it takes, at most 1", SHARE),
    Column("sub_steps", "gradient-accumulation sub-steps beyond the first", COUNT),
    Column("open", "its GPUs that take one more job, as far as seats go / its GPUs", SHARE),
    Column("shared", "its GPUs that others hold too / its GPUs", SHARE),
    Column("slowdown", "1 - 1/xi beside its company, xi = its slowdown on its slowest GPU", SHARE),
)
PAIRS: Final = (
    Column("joins", "1 if the waiting job can start beside the running one now, else 0", SHARE),
    Column(
        "offers", "GPUs of the running gang with room at the largest sub-batch of a feasible start / gang", "at most 1"
    ),
    Column("slows_running", "xi of the running job beside the waiting one", _XI),
    Column("slows_waiting", "xi of the waiting job beside the running one", _XI),
    Column(
        "benefit",
        "T_seq / (T_seq + T_con) of the pair at that sub-batch: above 1/2 if its mean JCT gains (Theorem 1 of "
        "SJF-BSBF); 0 if it cannot join, unless clairvoyant, or without `pair_benefit`",
        SHARE,
    ),
)
SEATS: Final = (
    Column("one_job", "GPUs that exactly one job holds / GPUs of the cluster", SHARE),
    Column("shared", "GPUs that several jobs hold / GPUs of the cluster", SHARE),
    Column("slowdown", "mean of 1 - 1/xi over the running gangs, each beside its company", SHARE),
)
SHARING_TABLES: Final = {
    "sub_batches": SUB_BATCHES,
    "company": COMPANY,
    "partners": COMPANY,
    "pairs": PAIRS,
    "seats": SEATS,
}
