"""Statistics of the Alibaba PAI log of 2020: a sample of 60,105 finished GPU tasks.

Computed from the log of Weng et al., "MLaaS in the Wild: Workload Analysis and Scheduling in Large-Scale Heterogeneous
GPU Clusters" (NSDI 2022; data CC-BY-4.0).

- The sample has 8.2 % of the tasks. With ``rate_scale=12.2``, bursts are as frequent as in the whole cluster of 6,742
  GPUs, but their sizes are still those of the sample.
- The arrival is the start of the task. The gang is the number of instances x the GPUs of an instance, where a share of
  a GPU is rounded up to one GPU. Run times are cut at 172,800 s (48 h).
- The origin of the clock is unknown, so the hours of the day are relative. The days of the week come from four weeks of
  the sample. They are numbered so that the two days with the fewest tasks are Saturday and Sunday; this is inferred.
- The demands of the rarest 1.7 % of the tasks, and the gaps inside bursts, come from the 27,119 tasks of the first 32
  days only.
- There are 10 run-time quantiles for each class. Class 1 has more, which were computed by subtracting the other classes
  from the quantiles of all tasks.
- ``keep_demand`` and ``keep_run_time`` are 0.71 and 0.54, although the fit inside bursts gives 0.55 and 0.34, because
  bursts overlap. With 0.71 and 0.54, two consecutive tasks within 10 s have the same demand (82 %) and similar run
  times (37 %) as often as in the log.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.traces.generators.calibration import Calibration, LogStatistics

# fmt: off
PAI: Final = Calibration(
    log="Alibaba PAI 2020, a sample of 60,105 GPU tasks",
    bursts_per_hour=16.62,
    modulation_sigma=0.0316,
    modulation_phi=0.98,
    hour_of_day=(
        0.63, 0.828, 0.917, 0.968, 1.21, 0.931, 0.841, 1.18, 1.29, 1.06, 1, 1.01, 1.11, 1.04, 1.14, 1.14, 0.952, 0.933,
        0.872, 0.686, 0.704, 1.49, 1.09, 0.985,
    ),
    day_of_week=(1.15, 1.15, 0.961, 1.09, 1.03, 0.797, 0.827),
    burst_size=(
        (0, 1), (0.5, 1), (0.6, 2), (0.7, 2), (0.75, 3), (0.8, 3), (0.85, 4), (0.9, 5), (0.925, 5), (0.95, 7),
        (0.97, 8), (0.98, 10), (0.99, 14), (0.995, 19), (0.998, 27), (0.999, 32), (0.9995, 33), (1, 104),
    ),
    burst_gap=(
        (0, 0), (0.0819, 0), (0.1, 1), (0.15, 1), (0.2, 2), (0.25, 4), (0.3, 5), (0.4, 10), (0.5, 15), (0.6, 22),
        (0.7, 30), (0.75, 34), (0.8, 39), (0.9, 49), (0.95, 54), (1, 60),
    ),
    keep_demand=0.71,
    keep_run_time=0.54,
    demand={
        1: 0.7701, 2: 0.03078, 3: 0.01504, 4: 0.01413, 5: 0.01709, 6: 0.00228, 7: 0.000683, 8: 0.01196, 9: 0.000403,
        10: 0.04015, 11: 0.000288, 12: 0.008019, 15: 0.004226, 16: 0.009234, 18: 0.000414, 20: 0.0213, 24: 0.000259,
        25: 0.006306, 27: 0.000465, 28: 0.00124, 29: 0.000362, 30: 0.009284, 32: 0.00181, 35: 0.000291, 36: 0.000712,
        40: 0.007021, 50: 0.01437, 60: 0.00243, 64: 0.00188, 70: 0.000201, 80: 0.00191, 100: 0.003727, 140: 0.000401,
        150: 0.000334, 200: 0.000635, 400: 0.000234,
    },
    run_time={
        "1": (
            (0, 5), (0.0114, 19), (0.05, 25), (0.1, 35), (0.2355, 83), (0.286, 128), (0.3336, 195), (0.44, 325),
            (0.5, 467), (0.5399, 618), (0.6358, 1185), (0.7274, 2491), (0.75, 3186), (0.8185, 5235), (0.9, 10790),
            (0.95, 20170), (0.99, 58460), (0.9936, 65450), (1, 172_800),
        ),
        "2": (
            (0, 6), (0.05, 39), (0.1, 49), (0.25, 85), (0.5, 280), (0.75, 1710), (0.9, 9315), (0.95, 23370),
            (0.99, 98550), (1, 172_800),
        ),
        "3-4": (
            (0, 15), (0.05, 65), (0.1, 104.2), (0.25, 354), (0.5, 888), (0.75, 3415), (0.9, 15180), (0.95, 37120),
            (0.99, 99600), (1, 172_800),
        ),
        "5-7": (
            (0, 27), (0.05, 58.2), (0.1, 75), (0.25, 146), (0.5, 1010), (0.75, 5537), (0.9, 13430), (0.95, 22510),
            (0.99, 66150), (1, 172_800),
        ),
        "8": (
            (0, 30), (0.05, 78.8), (0.1, 108), (0.25, 254), (0.5, 2019), (0.75, 9090), (0.9, 38770), (0.95, 87660),
            (0.99, 172_800), (1, 172_800),
        ),
        "9-16": (
            (0, 29), (0.05, 103), (0.1, 161), (0.25, 331), (0.5, 1294), (0.75, 4521), (0.9, 16340), (0.95, 27990),
            (0.99, 73070), (1, 172_800),
        ),
        "17-32": (
            (0, 32), (0.05, 111), (0.1, 170), (0.25, 634), (0.5, 2674), (0.75, 7172), (0.9, 17710), (0.95, 30140),
            (0.99, 79910), (1, 172_800),
        ),
        "33-64": (
            (0, 18), (0.05, 78), (0.1, 192.4), (0.25, 616), (0.5, 2030), (0.75, 6790), (0.9, 18120), (0.95, 35050),
            (0.99, 78660), (1, 172_800),
        ),
        ">64": (
            (0, 38), (0.05, 151.9), (0.1, 406.8), (0.25, 1563), (0.5, 6337), (0.75, 19760), (0.9, 47650), (0.95, 64610),
            (0.99, 134_000), (1, 172_800),
        ),
    },
    statistics=LogStatistics(
        jobs_per_hour=39.33,
        gap_cv=2.44,
        gaps_to_10s=0.259,
        dispersion=8.9,
        same_demand=0.817,
        gpus_demanded=450.1,
        run_time=(19, 29, 41, 83, 128, 195, 325, 618, 1185, 2491, 3652, 5235, 12190, 22590, 65450, 172_800),
        class_share={
            "1": 0.7701, "2": 0.03078, "3-4": 0.02917, "5-7": 0.02005, "8": 0.01196, "9-16": 0.06232, "17-32": 0.04144,
            "33-64": 0.0267, ">64": 0.007437,
        },
        class_mean={
            "1": 4413, "2": 5125, "3-4": 6337, "5-7": 5408, "8": 14460, "9-16": 5968, "17-32": 7641, "33-64": 7319,
        },
    ),
)
# fmt: on
