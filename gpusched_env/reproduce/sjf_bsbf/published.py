"""What is known of SJF-BSBF's results: the abstract's claims, and figures of another prototype of the reconstruction.

Everything else of the evaluation is unknown to us. The prototype (event-driven, one xi for all pairs) was written
apart from this package, from the same description; its figures are reductions of the mean JCT against a rival.
"""

from __future__ import annotations

from typing import Final, NamedTuple

AGAINST_PREEMPTIVE: Final = (0.27, 0.33)  # lower average JCT than state-of-the-art preemptive schedulers (abstract)
AGAINST_FFS: Final = 0.17  # up to so much better than SJF-FFS, large traces (abstract)

SJF, FFS, TIRESIAS = "SJF", "SJF-FFS", "Tiresias"


class Cell(NamedTuple):
    """One figure of the prototype on 64 GPUs: means over eight of Pollux's workloads."""

    jobs: int
    xi: float
    rival: str
    reduction: float  # share by which SJF-BSBF's mean JCT is lower; < 0 = it is higher


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
FULL_BATCH_30: Final = 0.29  # against Tiresias where every job fills the memory: from order alone
FIFO_OVER_TIRESIAS: Final = (5.9, 6.4)  # mean JCT on 64 GPUs
