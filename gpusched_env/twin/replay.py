"""Replays of a log by a twin."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.metrics import job_times
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.twin.model import Twin


def replayed_starts(twin: Twin, workload: Workload) -> np.ndarray:
    """float64 [J] [s]: first start of each job of a log under the twin's policy; NaN = no pool can run the job."""
    start_s = np.full(len(workload), np.nan)
    for problem in twin.problems(workload):
        log = simulate(problem.instance, make_scheduler(problem.spec))
        start_s[problem.rows] = job_times(problem.instance, log)["first_start_s"]
    return start_s
