"""The kernel that grants sizes to the jobs with the largest values."""

from __future__ import annotations

import numpy as np

from gpusched_env.baselines.elastic.granting import Grants, more
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.portable.keys import rounded_key


class Values(Handle):
    """What the weights of a size index say about the jobs of a table of sizes."""

    worth = array(np.float64, "known", "steps")  # of one more GPU, by job and the step that it has; <= 0 = nothing
    held = array(np.int32, "known")  # [GPU] that each of ``Grants.listed`` holds now
    keep = array(np.float64, "one")  # factor on the value of GPUs that a job holds already
    value = array(np.float64, "known")  # scratch


@kernel
def value_of(g: Grants, v: Values, i: int) -> float:
    """Return the value of the next size of a job for each of its GPUs; 0 = there is none, or it is not faster."""
    row = g.listed[i]
    step = g.step[i]
    if step == g.last[row]:
        return 0.0
    value = v.worth[row, step] * g.left[i]
    return rounded_key(value * v.keep[0] if g.sizes[row, step + 1] <= v.held[i] else value)


@kernel
def by_value(g: Grants, v: Values, count: int, gpus: int) -> None:
    """Grant sizes to the largest value, until no GPU is left or no job gains; ties: the first job.

    ``left`` holds the factor of each job. A job whose next size does not fit gets no more.
    """
    for i in range(count):
        g.step[i] = 0
        v.value[i] = value_of(g, v, i)
    while gpus > 0:
        best = 0
        for i in range(1, count):
            if v.value[i] > v.value[best]:
                best = i
        if v.value[best] <= 0.0:
            return
        if more(g, best) > gpus:
            v.value[best] = 0.0
        else:
            gpus -= more(g, best)
            g.step[best] += 1
            v.value[best] = value_of(g, v, best)
