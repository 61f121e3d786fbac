"""Columns of the observation arrays for scenarios in which jobs may share GPUs."""

from __future__ import annotations

from typing import Final

from gpusched_env.envs.observation.columns import COUNT, SHARE, TIME, Column

_XI: Final = "1 - 1/xi; 1 = the two must not share"

SUB_BATCHES: Final = (
    Column("memory", "fraction of a GPU's memory that the job needs at this sub-batch, at most 1", SHARE),
    Column("speed", "iteration time alone at the whole batch / at this sub-batch; 0 = no such sub-batch", SHARE),
)
COMPANY: Final = (
    Column("present", "1 if the slot holds a running job; otherwise the whole row is 0", SHARE),
    Column("gang_of_cluster", "gang size / GPUs of the cluster", SHARE),
    Column("held", "seconds since the gang got its GPUs", TIME),
    Column("left", "seconds left if the gang had its GPUs alone (L of Theorem 1); 0 unless clairvoyant", TIME),
    Column("memory", "fraction of a GPU's memory that the gang uses, at most 1", SHARE),
    Column("sub_steps", "gradient-accumulation sub-steps beyond the first", COUNT),
    Column("open", "its GPUs that hold fewer jobs than may share a GPU (memory is not checked) / its GPUs", SHARE),
    Column("shared", "its GPUs that other jobs hold too / its GPUs", SHARE),
    Column("slowdown", "1 - 1/xi, where xi is the slowdown by sharing on its slowest GPU", SHARE),
)
PAIRS: Final = (
    Column("joins", "1 if the waiting job can start beside the running job now, otherwise 0", SHARE),
    Column(
        "offers",
        "GPUs of the running gang with room for the waiting job, at its largest feasible sub-batch / its gang size",
        "at most 1",
    ),
    Column("slows_running", "xi of the running job beside the waiting job", _XI),
    Column("slows_waiting", "xi of the waiting job beside the running job", _XI),
    Column(
        "benefit",
        "T_seq / (T_seq + T_con) of the pair at that sub-batch: above 1/2 if sharing lowers its mean JCT (Theorem 1 "
        "of SJF-BSBF); 0 if the job cannot join, if not clairvoyant, or without `pair_benefit`",
        SHARE,
    ),
)
SEATS: Final = (
    Column("one_job", "GPUs that exactly one job holds / GPUs of the cluster", SHARE),
    Column("shared", "GPUs that several jobs hold / GPUs of the cluster", SHARE),
    Column("slowdown", "mean over the running gangs of (1 - 1/xi), where xi is the gang's slowdown by sharing", SHARE),
)
SHARING_TABLES: Final = {
    "sub_batches": SUB_BATCHES,
    "company": COMPANY,
    "partners": COMPANY,
    "pairs": PAIRS,
    "seats": SEATS,
}
