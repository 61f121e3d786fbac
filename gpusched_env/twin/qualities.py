"""QOS and their limits, from text that ``sacctmgr`` prints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import ScenarioError, TraceError
from gpusched_env.problem.qos import QOS, Qos, ranks_of
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import span_s
from gpusched_env.twin.tables import most_gpus, most_jobs, table_rows

COMMAND: Final = "sacctmgr --parsable2 show qos"
GPUS: Final = {"most": "grptres", "most_per_user": "maxtrespu", "most_per_job": "maxtres"}  # field -> column
JOBS: Final = {"jobs": "grpjobs", "jobs_per_user": "maxjobspu"}


def read_qos(path: str | Path) -> tuple[Qos, ...]:
    """Read the QOS: priorities, limits of GPUs, jobs and time, and which others each may preempt.

    A limit of 0 is left out, because it admits no job. Of the modes of preemption only OFF is kept.
    """
    listed = []
    try:
        for place, row in table_rows(path, ("name", "priority"), COMMAND):
            listed.append(_qos_of(place, row))
        ranks_of(listed)
    except ScenarioError as error:
        raise TraceError(f"{path}: {error}") from error
    return tuple(listed)


def _qos_of(place: Place, row: Mapping[str, str]) -> Qos:
    longest_s = span_s(place, "MaxWall", row.get("maxwall", ""))
    return Qos(
        row["name"],
        place.amount("Priority", row["priority"] or "0", "priority"),
        **{field: most_gpus(place, column, row) or None for field, column in GPUS.items()},
        **{field: most_jobs(place, column, row) for field, column in JOBS.items()},
        max_time_s=longest_s or math.inf,
        preempts=tuple(name for name in row.get("preempt", "").split(",") if name),
        preempt_mode="off" if row.get("preemptmode", "").lower() == "off" else "requeue",
        grace_s=span_s(place, "GraceTime", row.get("gracetime", "")) or 0.0,
    )


def qos_for(listed: Sequence[Qos], workload: Workload) -> tuple[tuple[Qos, ...], tuple[str, ...]]:
    """Return the QOS with those that only the jobs name, and with room for each job; and the names of changed ones.

    Limits below the largest job, or below its time limit, are raised to it, because limits may have changed.
    """
    names, of_job = np.unique(workload.attributes[QOS].astype(str), return_inverse=True)
    own = {name: workload.jobs[of_job == at] for at, name in enumerate(names.tolist())}
    grown, raised = [], []
    for one in (*listed, *(Qos(name) for name in own if name and name not in {one.name for one in listed})):
        changes: dict[str, float] = {}
        if one.name in own:
            gpus, longest_s = int(own[one.name]["gpus"].max()), np.nan_to_num(own[one.name]["estimate_s"]).max()
            changes = {name: gpus for name in GPUS if (getattr(one, name) or gpus) < gpus}
            if one.max_time_s < longest_s:
                changes["max_time_s"] = float(longest_s)
        grown.append(dataclasses.replace(one, **changes))  # type: ignore[arg-type]
        raised += [one.name] if changes else []
    return tuple(grown), tuple(raised)
