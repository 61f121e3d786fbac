"""Alibaba openb 2023 (Weng et al., USENIX ATC 2023): pods of a cluster whose GPUs are shared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_rows

WHOLE: Final = 1000  # gpu_milli of a whole GPU
LABELS: Final = ("gpu_spec", "qos", "pod_phase")
TIMES: Final = ("creation_time", "scheduled_time", "deletion_time")
NEEDS: Final = {"cpu_milli": "thousandths of a CPU", "memory_mib": "MiB"}
COLUMNS: Final = ("name", "num_gpu", "gpu_milli", *NEEDS, *TIMES, *LABELS)


def read_openb(path: Path) -> tuple[Workload, ReadReport]:
    """Read a pod list; the arrival is the creation of the pod, the run time [s] its deletion minus its scheduling.

    A pod that demands a share of a GPU (``gpu_milli`` below 1000) gets one whole GPU, and the report notes it. Creation
    times are very uneven and a few pods run for months, so pod lists suit tests of packing better than tests with
    realistic arrivals. The job id is the row number from 0. Attributes: original_id; the numbers gpu_milli, cpu_milli
    and memory_mib; gpu_spec (allowed GPU types joined by ``|``, empty = any), qos, status.
    """
    report = ReadReport("openb", str(path))
    jobs = JobColumns(
        report, "original_id", "gpu_spec", "qos", "status", numbers=dict.fromkeys(("gpu_milli", *NEEDS), "q")
    )
    for place, (name, gpus, share, cpus, memory, *row) in csv_rows(path, COLUMNS):
        with skippable:
            jobs.refuse_duplicate(place, "name", name)
            size, milli = place.gpus("num_gpu", gpus), place.whole("gpu_milli", share, "thousandths of a GPU")
            if size == 1 and not 0 < milli <= WHOLE:
                place.refuse("gpu_milli", share, f"expected 1 to {WHOLE} for one GPU; correct or remove the row")
            labels = name, *row[3:]
            amounts = {
                column: place.whole(column, text, NEEDS[column])
                for column, text in zip(NEEDS, (cpus, memory), strict=True)
            }
            created = place.seconds(TIMES[0], row[0])
            scheduled, deleted = (place.seconds_or_none(TIMES[i], row[i]) for i in (1, 2))
            if size == 0:
                jobs.add(place, created, size, 0.0, *labels, gpu_milli=milli, **amounts)
            elif scheduled is None:
                jobs.drop(place, "never scheduled")
            elif deleted is None:
                jobs.drop(place, "still running at the end of the log")
            elif deleted < scheduled:
                jobs.drop(place, "deleted before it was scheduled")
            else:
                if size == 1 and milli < WHOLE and deleted > scheduled:
                    jobs.note(place, "pods with a share of a GPU, rounded up to one GPU")
                jobs.add(place, created, size, deleted - scheduled, *labels, gpu_milli=milli, **amounts)
    return jobs.workload("openb", dated=False)
