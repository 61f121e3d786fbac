"""Published shares of Acme's cluster Kalos beside those of jobs such as the generator ``llm-dev`` draws."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.portable.arrays import mean, total
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.generators.acceptance import Bound, Check
from gpusched_env.traces.generators.llm_jobs import STATES
from gpusched_env.traces.generators.synthetic import generate_workload

SOURCES: Final = (
    "the first 800 GPU jobs of Acme's Kalos (AcmeTrace, CC-BY-4.0; the generator follows these), and all 19,907 of six "
    "months (its cluster_summary.csv; *: Hu et al., NSDI 2024, read in a note; **: from memory)"
)
FIRST: Final = 800  # jobs
# Least GPUs -> jobs of the 800, and share of their GPU time
SIZES: Final = {1: (190, 0.0002), 2: (286, 0.0011), 8: (191, 0.004), 9: (19, 0.125), 64: (89, 0.121), 256: (25, 0.749)}
NAMES: Final = ("1 GPU", "2-7 GPUs", "8 GPUs", "9-63 GPUs", "64-255 GPUs", "256+ GPUs")
STATE_SHARES: Final = ((0.541, 0.313), (0.062, 0.607), (0.397, 0.080))  # of STATES: of jobs, of GPU time
CLOSE: Final = Bound("absolute", 0.05)
DRAWS, JOBS = 20, 10_000


def measure(workload: Workload) -> dict[str, float]:
    """Measure a workload whose attributes are those of ``llm-dev`` and whose jobs have run times."""
    jobs, queue = workload.jobs, workload.attributes["queue"]
    time = jobs["gpus"] * jobs["duration_s"]
    size = np.searchsorted(list(SIZES), jobs["gpus"], side="right") - 1
    found = {"mean GPUs": mean(jobs["gpus"].astype(float)), "median GPUs": float(np.median(jobs["gpus"]))}
    found["median run time [s]"] = float(np.median(jobs["duration_s"]))
    groups = {name: size == row for row, name in enumerate(NAMES)}
    groups |= {state.lower(): workload.attributes["status"] == state for state in STATES}
    groups |= {name: queue == name for name in ("pretrain", "evaluation")} | {"more than 8 GPUs": jobs["gpus"] > 8}
    for name, rows in groups.items():
        found |= {f"{name}, of jobs": mean(rows.astype(float)), f"{name}, of GPU time": total(time[rows]) / total(time)}
    return found


def measure_llm_dev(seed: int = 0, draws: int = DRAWS, jobs: int = JOBS) -> dict[str, float]:
    """Return the median of each statistic over draws of the generator ``llm-dev`` with the seeds ``seed`` + i."""
    drawn = [measure(generate_workload("llm-dev", seed + draw, jobs)) for draw in range(draws)]
    return {name: float(np.median([one[name] for one in drawn])) for name in drawn[0]}


def compare(measured: dict[str, float]) -> list[Check]:
    """Check statistics of :func:`measure` against those that are published.

    The bound of a share of the 800 jobs is twice its standard error.
    """
    checks = []

    def check(log: str, name: str, value: float, bound: Bound, marks: str = "") -> None:
        checks.append(Check(f"{log}: {name}{marks}", measured[name], value, bound))

    for name, (count, of_time) in zip(NAMES, SIZES.values(), strict=True):
        share = count / FIRST
        error = math.sqrt(share * (1.0 - share) / FIRST)
        check("first 800", f"{name}, of jobs", share, Bound("absolute", round(2.0 * error, 3)))
        check("first 800", f"{name}, of GPU time", of_time, CLOSE)
    check("first 800", "mean GPUs", 19.71, Bound("relative", 0.1))
    check("first 800", "median GPUs", 2.0, Bound("relative", 0.1))
    check("first 800", "median run time [s]", 246.5, Bound("relative", 0.15))
    for state, (of_jobs, of_time) in zip(STATES, STATE_SHARES, strict=True):
        check("Kalos", f"{state.lower()}, of jobs", of_jobs, CLOSE)
        check("Kalos", f"{state.lower()}, of GPU time", of_time, CLOSE)
    check("Kalos", "mean GPUs", 26.77, Bound("relative", 0.1))
    check("Kalos", "median GPUs", 1.0, Bound("relative", 0.1))
    check("Kalos", "pretrain, of jobs", 0.032, Bound("absolute", 0.01), "*")
    check("Kalos", "pretrain, of GPU time", 0.940, CLOSE, "*")
    check("Kalos", "evaluation, of jobs", 0.929, CLOSE, "**")
    check("Kalos", "evaluation, of GPU time", 0.008, CLOSE, "*")
    check("Kalos", "more than 8 GPUs, of jobs", 0.0, Bound("at most", 0.07), "*")
    check("Kalos", "1 GPU, of GPU time", 0.0, Bound("at most", 0.02), "*")
    check("Kalos", "256+ GPUs, of GPU time", 1.0, Bound("at least", 0.96), "*")
    return checks
