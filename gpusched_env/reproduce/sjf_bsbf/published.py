"""Known results of SJF-BSBF: the claims of the abstract, and results of another prototype of the reconstruction.

We do not know the rest of the paper's evaluation. The prototype was written independently of this package from the same
description. It is event-driven and has one xi for all pairs. Its results are reductions of the mean JCT relative to a
rival.
"""

from __future__ import annotations

from typing import Final, NamedTuple

AGAINST_PREEMPTIVE: Final = (0.27, 0.33)  # reduction of the average JCT against preemptive schedulers (abstract)
AGAINST_FFS: Final = 0.17  # largest reduction against SJF-FFS on large traces (abstract)

SJF, FFS, TIRESIAS = "SJF", "SJF-FFS", "Tiresias"


class Cell(NamedTuple):
    """One result of the prototype on 64 GPUs: means over eight of Pollux's workloads."""

    jobs: int
    xi: float
    rival: str
    reduction: float  # fraction by which the mean JCT of SJF-BSBF is lower than the rival's; < 0 = it is higher


PROTOTYPE: Final = tuple(
    Cell(jobs, xi, rival, percent / 100)
    for jobs, xi, *row in (
        (160, 1.0, 23.7, -2.6, -5.5),
        (160, 1.25, 18.0, 11.7, -13.3),
        (160, 2.0, 2.5, 32.6, -34.8),
        (240, 1.0, 22.4, -1.6, -2.5),
        (240, 1.25, 11.7, 12.6, -16.7),
        (240, 1.5, -1.3, 2.9, -33.9),
        (240, 2.0, -4.8, 25.5, -38.5),
    )
    for rival, percent in zip((SJF, FFS, TIRESIAS), row, strict=True)
)
# Lowest and highest over xi and both spans of arrivals, 16 GPUs, 30 jobs at half of the largest batch, 20 seeds.
PROTOTYPE_30: Final = {TIRESIAS: (0.35, 0.56), SJF: (0.04, 0.36), FFS: (-0.006, 0.36)}
FULL_BATCH_30: Final = 0.29  # reduction against Tiresias if every job fills the memory, so that only the order helps
FIFO_OVER_TIRESIAS: Final = (5.9, 6.4)  # ratio of the mean JCTs on 64 GPUs
