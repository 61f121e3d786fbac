"""Give the jobs of a workload deadlines that are drawn at random."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.workload import Workload


def draw_deadlines(
    workload: Workload, rng: np.random.Generator, least: float = 0.5, most: float = 1.5, share: float = 1.0
) -> Workload:
    """Give jobs the deadline arrival + U x run time, with U uniform from ``least`` to ``most`` (ElasticFlow).

    The run time is that on the GPUs that the job requests, on the ideal placement. A job has a deadline with
    probability ``share``; the others are best effort.
    """
    check_deadlines({"least": least, "most": most, "share": share})
    duration_s = workload.jobs["duration_s"]
    if np.isnan(duration_s).any():
        raise WorkloadError(
            f"workload {workload.name!r}: its jobs give iterations, not run times; leave out the deadlines"
        )
    factors = least + (most - least) * rng.random(len(workload))
    due = rng.random(len(workload)) < share
    deadline_s = np.where(due, factors * duration_s, np.inf)
    return workload.unchecked_replace(attributes={**workload.attributes, "deadline_s": deadline_s})


def check_deadlines(parameters: Mapping[str, Any]) -> None:
    """Refuse unknown or wrong parameters of :func:`draw_deadlines`."""
    known = {
        name: item.default
        for name, item in inspect.signature(draw_deadlines).parameters.items()
        if name not in ("workload", "rng")
    }
    for name, value in parameters.items():
        if name not in known:
            raise WorkloadError(f"deadlines: no parameter {name!r}; known are {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise WorkloadError(f"deadlines: {name} is {value!r}: it must be a finite number >= 0")
    given = known | dict(parameters)
    if given["least"] > given["most"] or given["share"] > 1:
        raise WorkloadError(f"deadlines: give least <= most and share <= 1, not {given}")
