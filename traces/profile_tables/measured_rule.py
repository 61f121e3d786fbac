"""Profile rule for tables of measured models: it determines which model each job trains."""

from __future__ import annotations

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.traces.profile_tables.measured_files import load_measured
from gpusched_env.traces.profile_tables.measured_table import MeasuredTable


def measured_profiles(
    table: str, rng: np.random.Generator, workload: Workload, gpu_types: tuple[str, ...]
) -> tuple[Profiles, np.ndarray]:
    """Assign a model of the table to every job.

    If the attribute ``model`` of a job, alone or with the attribute ``batch_size``, names a model of the table, the job
    gets this model. Otherwise it draws uniformly among the models that can run on every GPU type of the cluster with
    the job's gang size.
    """
    found = load_measured(table)
    names = _named(found, workload)
    gangs = workload.jobs["gpus"]
    drawn = rng.random(len(workload))
    for gpus in np.unique(gangs).tolist():
        able = [name for name in found.models if set(gpu_types) <= set(found.gpu_types_of(name, gpus))]
        for job in np.flatnonzero(gangs == gpus).tolist():
            if not names[job] and able:
                names[job] = able[int(drawn[job] * len(able))]
            if names[job] not in able:
                who = repr(names[job]) if names[job] else "any model"
                sizes = sorted({size for model in found.models.values() for size in model.gangs})
                raise WorkloadError(
                    f"profiles {table!r}, job {workload.jobs['id'][job]}: no throughput was measured for {who} on "
                    f"{gpus} GPUs of each of {', '.join(gpu_types)}; the table has GPU types "
                    f"{', '.join(found.gpu_types)} and gangs of {', '.join(map(str, sizes))}; limit the jobs "
                    "(max_gpus), or use other profiles"
                )
    return found.for_jobs(names, gangs, gpu_types)


def _named(table: MeasuredTable, workload: Workload) -> list[str]:
    """Return the model of the table that each job names; "" if the job names none."""
    empty = np.full(len(workload), "")
    models = workload.attributes.get("model", empty).tolist()
    batches = workload.attributes.get("batch_size", empty).tolist()
    return [table.named(str(model), str(batch)) for model, batch in zip(models, batches, strict=True)]
