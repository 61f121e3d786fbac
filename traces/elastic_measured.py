"""Elastic jobs whose speed at each size was measured: the models of ElasticFlow."""

from __future__ import annotations

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.sizes import Sizes
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.profile_tables import load_measured

TABLE = "elasticflow"


def measured_jobs(workload: Workload, most: int | None = None) -> Workload:
    """Let every job run on the measured numbers of GPUs, 1, 2, 4 to 64, with a fixed batch for the whole gang.

    The profiles of the jobs must be of the table ``elasticflow``. A job keeps its run time on the GPUs that it
    requests. Some models are slower on many GPUs than on few; a scheduler need not use these sizes.
    """
    table, types = load_measured(TABLE), workload.profiles.gpu_types
    kinds, kind = np.unique(workload.jobs["profile"], return_inverse=True)
    names = [str(name) for name in workload.profiles.rows["name"][kinds]]
    for name in names:
        if name not in table.models:
            raise WorkloadError(
                f"workload {workload.name!r}: profile {name!r} is not of the table {TABLE!r}; set profiles to {TABLE!r}"
            )
    sizes = [
        [gpus for gpus in table.models[name].gangs if gpus <= (most or gpus) and table.gpu_types_of(name, gpus)]
        for name in names
    ]
    each = [(name, gpus) for name, gangs in zip(names, sizes, strict=True) for gpus in gangs]
    profiles, rows = table.for_jobs([name for name, _ in each], [gpus for _, gpus in each], types)
    row_of = dict(zip((name for name, _ in each), rows.tolist(), strict=True))
    options = [[(gpus, row_of[name]) for gpus in gangs] for name, gangs in zip(names, sizes, strict=True)]
    jobs = workload.jobs.copy()
    jobs["profile"] = np.array([row_of[name] for name in names], np.int32)[kind]
    table_of_sizes = Sizes.of_groups(kind, options)
    return Workload(jobs, profiles, workload.name, workload.source, workload.attributes, table_of_sizes)
