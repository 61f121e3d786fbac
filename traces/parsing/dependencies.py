"""Dependencies of a log: the ids of the log become those of the workload."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from gpusched_env.problem.dependencies import DEPENDENCY, KINDS, text_column
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.clocks import is_told
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport

MOST: Final = 10_000_000  # pairs of a job and one before it, which take about 1 GB
LOST: Final = "jobs that depend on a job that is not kept, or that is not submitted before them; it is ignored"
FOLLOWS: Final = "jobs that depend on other jobs: they wait until these have started or ended"
_FATE: Final = re.compile(r"\((?:un)?fulfilled\)|\(failed\)")  # squeue tells what has become of each dependency
_ITEM: Final = re.compile(rf"(?:{'|'.join(KINDS)})(?::[^:,+?]+(?:\+\d+(?:\.\d+)?s?)?)+", re.ASCII)
_JOB: Final = re.compile(r"(?<=:)[^:+]+")
_ONE: Final = re.compile(r":([^:,+]+)((?:\+[^:,]+)?)")
_TASK: Final = re.compile(r"(.+)_(\d*)(?!.)|(.+)_\[.*")  # a task, or several that wait together


def well_formed(dependency: str) -> bool:
    """Whether a text is a list of dependencies of KINDS."""
    return all(_ITEM.fullmatch(item) for item in dependency.split(","))


def without_fate(text: str) -> str:
    """Return a dependency without what squeue says of its fate."""
    return ",".join(item.strip() for item in _FATE.sub("", text).split(",")) if is_told(text) else ""


def other_jobs(dependency: str) -> list[str]:
    """Return the ids of the jobs in a dependency."""
    return [one.partition("+")[0] for item in filter(None, dependency.split(",")) for one in item.split(":")[1:]]


def tasks_of(ids: Iterable[str]) -> dict[str, dict[str, None]]:
    """Return id of an array -> its tasks, such as ``7_1``; ``7_`` stands for those whose numbers are not listed."""
    found: dict[str, dict[str, None]] = {}
    for name in ids:
        if task := _TASK.fullmatch(name):
            leader = task[1] or task[3]
            found.setdefault(leader, {})[f"{leader}_{task[2] or ''}"] = None
    return found


def with_tasks(dependency: str, ids: Collection[str], tasks: Mapping[str, Iterable[str]]) -> str:
    """Return a dependency in which an array, ``7`` or ``7_*``, is replaced by all its tasks; ``ids`` are jobs."""

    def replaced(found: re.Match[str]) -> str:
        whole = found[1] not in ids and tasks.get(found[1].removesuffix("_*"), ())
        return "".join(f":{one}{found[2]}" for one in whole or [found[1]])

    return ",".join(_ONE.sub(replaced, item) for item in dependency.split(","))


def read_dependency(place: Place, field: str, text: str) -> str:
    """Return the dependency that a cell tells, without what squeue says of its fate; "" = none."""
    dependency = without_fate(text)
    if dependency and not well_formed(dependency):
        place.refuse(
            field,
            text,
            f"expected a list such as afterok:12:13,afterany:14+5 (types {', '.join(KINDS)}); singletons and lists in "
            "which any item is enough (?) are not read; correct or remove it",
            "no dependency that is read",
        )
    return dependency


def rename_jobs(dependency: str, renamed: Callable[[str], str]) -> str:
    """Return a dependency of :func:`read_dependency` with other ids."""
    return ",".join(_JOB.sub(lambda found: renamed(found[0]), item) for item in dependency.split(","))


def with_dependencies(
    workload: Workload,
    report: ReadReport,
    texts: Sequence[str],
    originals: Sequence[str],
    places: Sequence[int],
    every: Mapping[str, None] | None = None,
) -> Workload:
    """Return a workload with the dependencies that its log names; without any, the same workload.

    ``texts`` are the dependencies of the jobs by ids of the log, "" = none; ``originals`` are these ids. ``every`` :
    the ids of the log, also of jobs that are not kept; another one is an error. None = not told.
    """
    if not any(texts):
        return workload
    jobs = workload.jobs
    tasks = tasks_of(every or originals)
    row_of = {original: row for row, original in enumerate(originals)}
    order = np.empty(len(jobs), np.int64)
    order[np.lexsort([jobs["id"], jobs["arrival_s"]])] = np.arange(len(jobs))
    ids, rank = jobs["id"].tolist(), order.tolist()
    lost: list[int] = []
    follows: list[int] = []
    found = []
    pairs = 0
    for row, text in enumerate(texts):
        kept, dropped = [], False
        whole = with_tasks(text, every or row_of, tasks)
        pairs += whole.count(":")
        if pairs > MOST:
            remedy = f"with it, jobs wait for more than {MOST:,} jobs in all; depend on fewer, or leave it out"
            Place(report.path, places[row], report.unit).refuse("dependency", text, remedy)
        for item in filter(None, whole.split(",")):
            kind, *before_it = item.split(":")
            known = []
            for one in before_it:
                original, plus, delay = one.partition("+")
                before = row_of.get(original)
                if before is None and every is not None and original not in every:
                    with skippable:
                        remedy = "no job has this id; correct the dependency, or leave it out"
                        leader = original.partition("_")[0]
                        if f"{leader}_" in tasks.get(leader, ()):  # a row such as 7_[1-3]
                            remedy = "several tasks of this array are one row; write a row for each task, such as 7_1"
                        name = original.removesuffix("_")
                        Place(report.path, places[row], report.unit).refuse("dependency", name, remedy)
                if before is None or rank[before] >= rank[row]:
                    dropped = True
                else:
                    known.append(f"{ids[before]}{plus}{delay}")
            kept += [":".join([kind, *known])] if known else []
        lost += [places[row]] if dropped else []
        follows += [places[row]] if kept else []
        found.append(",".join(kept))
    for remark, concerned in ((FOLLOWS, follows), (LOST, lost)):
        for place in concerned:
            report.note(remark, place)
    if not follows:
        return workload
    return dataclasses.replace(workload, attributes={**workload.attributes, DEPENDENCY: text_column(found)})
