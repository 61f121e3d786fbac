"""Statistics of the Microsoft Philly log, October and November 2017: 68,510 jobs of all virtual clusters.

Computed from the processed log of Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads" (USENIX ATC 2019; data CC-BY-4.0).

- The processed log has fewer multi-GPU jobs than the original log: 94 % of its jobs take one GPU, against 86 % of a
  sample of 1,000 jobs of the original log.
- There are 10 run-time quantiles for each class. Class 1 has more, which were computed by subtracting the other classes
  from the quantiles of all jobs, because three points from p75 to the maximum are too few.
- 11.1 % of the gaps inside bursts are 0 s. The other gaps are quantiles of a log-normal distribution that was fitted to
  the gaps inside bursts (mean 1.45 and standard deviation 1.28 of ln(gap / s)) and cut at 60 s.
- ``keep_run_time`` is 0.60, although the fit inside bursts gives 0.50, because bursts overlap. With 0.60, two
  consecutive jobs within 10 s have similar run times (54 %) as often as in the log.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.traces.generators.calibration import Calibration, LogStatistics

# fmt: off
PHILLY: Final = Calibration(
    log="Philly, 68,510 jobs of October and November 2017",
    bursts_per_hour=9.55,
    modulation_sigma=0.0316,
    modulation_phi=0.98,
    hour_of_day=(
        1.36, 1.01, 1.2, 1.11, 0.527, 1.15, 1.83, 2.18, 1.12, 0.949, 0.876, 0.747, 0.645, 0.64, 0.493, 0.588, 0.944,
        0.689, 0.828, 0.69, 1.13, 0.952, 1.25, 1.09,
    ),
    day_of_week=(0.842, 1.01, 1.14, 1.32, 1.44, 0.693, 0.558),
    burst_size=(
        (0, 1), (0.5, 1), (0.6, 1), (0.7, 1), (0.75, 2), (0.8, 2), (0.85, 2), (0.9, 3), (0.925, 4), (0.95, 6),
        (0.97, 12), (0.98, 29), (0.99, 92), (0.995, 220), (0.998, 376), (0.999, 470), (0.9995, 570), (1, 1099),
    ),
    burst_gap=(
        (0, 0), (0.111, 0), (0.1288, 0.304), (0.1555, 0.513), (0.1999, 0.815), (0.2888, 1.43), (0.3777, 2.13),
        (0.4666, 3), (0.5555, 4.13), (0.6444, 5.67), (0.7333, 7.94), (0.8222, 11.7), (0.9111, 19.5), (0.9556, 28.6),
        (1, 60),
    ),
    keep_demand=0.84,
    keep_run_time=0.6,
    demand={
        1: 0.9353, 2: 0.02057, 4: 0.02239, 8: 0.01902, 12: 0.0001022, 16: 0.002029, 24: 8.758e-05, 32: 0.0004963,
    },
    run_time={
        "1": (
            (0, 1), (0.0022, 17), (0.05, 55), (0.1, 64), (0.1952, 87), (0.25, 194), (0.2952, 355), (0.3983, 821),
            (0.5, 1398), (0.6084, 1986), (0.7142, 2632), (0.75, 2853), (0.8187, 4689), (0.9, 8805), (0.95, 17570),
            (0.9687, 36790), (0.99, 115_900), (0.9959, 218_100), (0.9996, 879_900), (1, 2_597_000),
        ),
        "2": (
            (0, 2), (0.05, 8.4), (0.1, 11), (0.25, 15), (0.5, 20), (0.75, 100), (0.9, 101_400), (0.95, 222_400),
            (0.99, 595_000), (1, 2_583_000),
        ),
        "3-4": (
            (0, 9), (0.05, 81), (0.1, 132.6), (0.25, 651), (0.5, 16280), (0.75, 88590), (0.9, 179_800),
            (0.95, 238_300), (0.99, 716_700), (1, 2_751_000),
        ),
        "8": (
            (0, 9), (0.05, 84.2), (0.1, 190.4), (0.25, 984.5), (0.5, 21890), (0.75, 165_200), (0.9, 283_300),
            (0.95, 427_600), (0.99, 926_800), (1, 2_214_000),
        ),
        "9-16": (
            (0, 20), (0.05, 48), (0.1, 97.5), (0.25, 366.5), (0.5, 53740), (0.75, 160_300), (0.9, 259_800),
            (0.95, 348_300), (0.99, 1_272_000), (1, 1_711_000),
        ),
        "17-32": (
            (0, 265), (0.05, 325.4), (0.1, 345), (0.25, 5043), (0.5, 47940), (0.75, 55700), (0.9, 71470),
            (0.95, 80190), (0.99, 126_100), (1, 128_900),
        ),
    },
    statistics=LogStatistics(
        jobs_per_hour=46.8,
        gap_cv=2.27,
        gaps_to_10s=0.583,
        dispersion=168.0,
        same_demand=0.98,
        gpus_demanded=472.0,
        run_time=(17, 51, 62, 87, 182.2, 355, 821, 1415, 1986, 2632, 3389, 4689, 11130, 36790, 218_100, 879_900),
        class_share={"1": 0.9353, "2": 0.02057, "3-4": 0.02239, "8": 0.01902, "9-16": 0.002131, "17-32": 0.0005839},
        class_mean={"1": 7184, "2": 37330, "3-4": 72540, "8": 110_100},
    ),
)
# fmt: on
