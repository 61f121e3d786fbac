"""What a log tells of the past of each job: when it arrived, started and ended, and what was free then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.metrics import StepFunction
from gpusched_env.problem.workload import Workload
from gpusched_env.twin.model import WAIT


class Recorded(NamedTuple):
    """Recorded times of the jobs; arrays of length J, in the order of the workload."""

    arrival_s: np.ndarray  # [s]
    start_s: np.ndarray  # [s]
    end_s: np.ndarray  # [s]
    gpus: np.ndarray  # [GPU]

    @classmethod
    def of(cls, workload: Workload) -> Recorded:
        """Read the recorded times."""
        if WAIT not in workload.attributes:
            raise TraceError(
                f"workload {workload.name!r}: it does not tell when jobs started: give a log that does, such as the "
                "accounting table of Slurm, or a CSV with columns of the roles arrival, start and end, with times "
                "of one kind"
            )
        wait_s = workload.attributes[WAIT].astype(float)
        if unknown := int(np.isnan(wait_s).sum()):
            raise TraceError(
                f"workload {workload.name!r}: {unknown:,} jobs have a run time, but no start: correct or remove them"
            )
        jobs = workload.jobs
        start_s = jobs["arrival_s"] + wait_s
        return cls(jobs["arrival_s"], start_s, start_s + jobs["duration_s"], jobs["gpus"].astype(np.int64))

    def held(self, times_s: Sequence[float] = (), changes: Sequence[float] = ()) -> StepFunction:
        """Return the number of GPUs that jobs held over time [GPU]; jobs that end at a time hold nothing then.

        ``times_s``, ``changes`` : of a number of GPUs that is added.
        """
        times = np.concatenate([self.start_s, self.end_s, times_s])
        return StepFunction.of_changes(times, np.concatenate([self.gpus, -self.gpus, changes]))


def used(held: StepFunction, arrival_s: np.ndarray, gpus: int) -> float:
    """Return the part of the time of this many GPUs in which jobs hold them, from the first to the last arrival, 0..1.

    This is the period of the log: after the last arrival, the queue drains. All utilisations of a twin are of it.
    """
    first_s, last_s = float(arrival_s.min()), float(arrival_s.max())
    capacity = gpus * (last_s - first_s)
    return float(held.integral(last_s) - held.integral(first_s)) / capacity if capacity else 0.0
