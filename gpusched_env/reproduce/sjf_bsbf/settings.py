"""The settings of the card's runs, and their labels."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gpusched_env.reproduce.sjf_bsbf.published import FFS, SJF, TIRESIAS
from gpusched_env.scenarios.seeds import Seeds

FIRST_SEED: Final = Seeds().report[0]
BSBF, FIFO = "SJF-BSBF", "FIFO"
VARIANTS: Final = {  # SJF-BSBF without one of its parts, or with a part of the authors' code
    "whole batches only": "sjf-bsbf:sub_batch_search=false",
    "times as measured": "sjf-bsbf:running_time=measured",
    "spread (bsbf)": "sjf-bsbf:placement=bsbf",
    "one machine (bsbfs)": "sjf-bsbf:placement=bsbfs",
    "rounds of 60 s": "sjf-bsbf:round_s=60",
}
SHARING: Final = {BSBF: "sjf-bsbf", **VARIANTS, FFS: "sjf-ffs"}
# Tiresias as in Pollux's artifact: a threshold of 16 GPU hours, rounds of 60 s, restarts of 30 s (a value of the
# scenario), and no test of skew.
EXCLUSIVE: Final = {SJF: "sjf", FIFO: "fifo", TIRESIAS: "tiresias:thresholds=57600,packlimit=inf"}
POLICIES: Final = SHARING | EXCLUSIVE
ROUND_S: Final = 60.0  # [s] rounds of Tiresias
XIS: Final = (1.0, 1.25, 1.5, 1.75, 2.0)
USUAL_XI: Final = 1.5  # of both scenarios
LOADS: Final = {80: 0.5, 160: 1.0, 240: 1.5, 320: 2.0}  # jobs in eight hours -> Pollux's relative load
PAPER_JOBS: Final = 240
SPANS_S: Final = {"30 jobs in 20 min": 1_200, "30 jobs in 2 h": 7_200}
FULL_BATCH: Final = "30 jobs, full batch"
DRAWN, POLLUX = "drawn", "Pollux's own"


class Extent(NamedTuple):
    """The extent of a full or quick reproduction."""

    jobs: tuple[int, ...]  # of the workloads on 64 GPUs
    xis: tuple[float, ...]
    seeds: int  # draws on 64 GPUs
    few_seeds: int  # draws of the 30 jobs
    files: bool  # Pollux's own workloads too, if they have been fetched


FULL: Final = Extent(tuple(LOADS), XIS, 8, 20, True)
QUICK: Final = Extent((160, 240), (1.0, 1.25, 2.0), 2, 4, False)


def of_run(workload: str, jobs: int, xi: float, policy: str) -> dict[str, Any]:
    """Labels of a run on 64 GPUs; a policy that does not share GPUs has one run for all xi."""
    return {"part": workload, "jobs": jobs, "xi": xi if policy in SHARING else 0.0, "policy": policy}


def of_few(setting: str, xi: float, policy: str) -> dict[str, Any]:
    """Labels of a run of 30 jobs on 16 GPUs."""
    return {"part": setting, "jobs": 30, "xi": xi if policy in SHARING else 0.0, "policy": policy}
