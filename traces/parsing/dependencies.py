"""Dependencies of a log: the ids of the log become those of the workload."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpusched_env.holds import DEPENDENCY, KINDS
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.workload import Workload

LOST: Final = "jobs that depend on a job that is not kept, or that is not submitted before them; it is ignored"
FOLLOWS: Final = "jobs that depend on other jobs: they wait until these have started or ended"


def with_dependencies(
    workload: Workload, report: ReadReport, texts: Sequence[str], originals: Sequence[str]
) -> Workload:
    """Return a workload with the dependencies that its log names; without any, the same workload.

    Parameters
    ----------
    workload : the jobs that were kept
    report : its notes are extended
    texts : dependency of each job as Slurm writes it, with ids of the log; "" = none
    originals : id of each job in the log
    """
    if not any(texts):
        return workload
    jobs = workload.jobs
    row_of = {original: row for row, original in enumerate(originals)}
    order = np.empty(len(jobs), np.int64)
    order[np.lexsort([jobs["id"], jobs["arrival_s"]])] = np.arange(len(jobs))
    ids, rank = jobs["id"].tolist(), order.tolist()
    lost = follows = 0
    found = []
    for row, text in enumerate(texts):
        kept, dropped = [], False
        for item in filter(None, (item.strip() for item in text.split(","))):
            kind, _, rest = item.partition(":")
            if kind not in KINDS or not rest:
                kept.append(item)  # a singleton; or an error, which the workload tells
                continue
            known = []
            for one in rest.split(":"):
                original, plus, delay = one.partition("+")
                before = row_of.get(original)
                if before is None or rank[before] >= rank[row]:
                    dropped = True
                else:
                    known.append(f"{ids[before]}{plus}{delay}")
            kept += [":".join([kind, *known])] if known else []
        lost += dropped
        follows += bool(kept)
        found.append(",".join(kept))
    for remark, count in ((FOLLOWS, follows), (LOST, lost)):
        if count:
            report.notes[remark] = count
    if not follows:
        return workload
    return dataclasses.replace(workload, attributes={**workload.attributes, DEPENDENCY: np.array(found)})
