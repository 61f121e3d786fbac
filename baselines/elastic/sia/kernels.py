"""The exact solution of Sia's integer program, compiled: a table over jobs and free GPUs."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel


class Table(Handle):
    """The input of the table and its result.

    A state is a number of free GPUs of each kind of node, as one mixed-radix number: the sum of GPUs x stride.
    """

    first = array(np.int32, "bounds")  # number of jobs + 1: first choice of each job; the last entry is their number
    cost = array(np.int32, "choices")  # negative: less than the cost of waiting
    kind = array(np.int32, "choices")
    gpus = array(np.int32, "choices")  # [GPU]
    stride = array(np.int32, "kinds")
    room = array(np.int32, "states", "kinds")  # [GPU] free in each state
    least = array(np.int32, "bounds", "states")  # least total cost of the jobs from this one on


@kernel
def fill(s: Table, jobs: int) -> None:
    """Compute ``least`` from the last job to the first; a job that waits costs 0."""
    states = s.room.shape[0]
    for state in range(states):
        s.least[jobs, state] = 0
    for back in range(jobs):
        i = jobs - 1 - back
        for state in range(states):
            best = s.least[i + 1, state]
            for c in range(s.first[i], s.first[i + 1]):
                if s.room[state, s.kind[c]] >= s.gpus[c]:
                    total = s.cost[c] + s.least[i + 1, state - s.gpus[c] * s.stride[s.kind[c]]]
                    if total < best:
                        best = total
            s.least[i, state] = best
