"""Mean JCT [h] that the authors' repository stores: stanford-futuredata/gavel, commit c4fa400, MIT.

The values are outputs of notebooks/figures/evaluation/continuous_jobs.ipynb: one-GPU jobs of seed 0 and rounds of
360 s. The mean is over the jobs 4,000 to 4,999.
"""

from __future__ import annotations

from typing import Final

# Arrival rates [jobs/h]. Each policy has values for the first few of these rates.
RATES: Final = (0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0, 4.4, 4.8, 5.2, 5.6, 6.0)
MEAN_JCT_H: Final[dict[str, tuple[float, ...]]] = {
    "fifo": (
        17.58, 17.64, 17.70, 17.71, 18.32, 18.63, 18.62, 22.21, 24.25, 25.38, 44.28, 99.19, 151.67,
    ),
    "fifo_perf": (
        15.31, 15.38, 15.42, 15.43, 15.45, 15.52, 15.68, 15.95, 16.39, 17.08, 18.19, 22.24, 56.69, 104.12, 150.04,
    ),
    "fifo_packed": (
        15.31, 15.38, 15.42, 15.43, 15.45, 15.52, 15.68, 15.95, 16.39, 17.08, 18.18, 21.14, 38.11, 83.40, 127.10,
    ),
    "max_min_fairness": (
        23.26, 23.33, 23.51, 23.57, 23.47, 23.43, 23.59, 23.59, 23.57, 23.49, 23.81, 35.79, 63.78, 95.99,
    ),
    "gandiva": (
        17.58, 17.64, 17.68, 17.66, 17.61, 17.62, 17.69, 17.83, 18.14, 18.88, 25.65, 30.46, 34.32, 42.54,
    ),
    "allox": (
        17.58, 17.64, 17.67, 17.45, 16.93, 16.49, 16.37, 16.43, 16.62, 17.13, 18.54, 20.92, 21.96, 25.32,
    ),
    "max_min_fairness_perf": (
        17.58, 17.64, 17.67, 17.48, 16.95, 16.39, 16.04, 16.08, 16.38, 16.82, 17.48, 18.97, 22.02, 28.96, 41.23,
    ),
    "max_min_fairness_packed": (
        18.42, 19.26, 19.69, 19.39, 18.26, 16.92, 16.26, 16.18, 16.50, 16.96, 17.78, 18.67, 19.14, 19.64, 20.42,
    ),
    "finish_time_fairness": (
        23.26, 23.33, 23.51, 23.58, 23.47, 23.38, 23.51, 23.58, 23.50, 23.43, 23.75, 34.93, 64.46, 85.54, 109.14,
    ),
    "finish_time_fairness_perf": (
        17.58, 17.64, 17.67, 17.51, 17.07, 16.58, 16.41, 16.57, 16.99, 17.57, 18.62, 20.43, 23.38, 30.47, 43.05,
    ),
}  # fmt: skip
LEAST_JCT_H: Final = 15.341519  # [h] if each of these jobs ran at once on its fastest type, at the published rates
V100_JCT_H: Final = 17.414646  # [h] if each ran at once on V100


def published(policy: str, rate: float) -> float | None:
    """Return the stored value [h]; None = there is none."""
    at = RATES.index(rate)
    values = MEAN_JCT_H[policy]
    return values[at] if at < len(values) else None
