"""Earliest starts and dependencies: a submitted job is held until both let it enter the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError

if TYPE_CHECKING:
    from gpusched_env.problem.workload import Workload

# Attributes of a workload
BEGIN: Final = "begin_s"  # [s] time from the submission before which the job must not enter the queue
DEPENDENCY: Final = "dependency"  # text of Slurm's option --dependency, with ids of the workload; "" = none
FAILS: Final = "fails"  # 1 = the job fails when its work is done, so a job that depends on its success never runs
NAMES: Final = ("user", "name")  # jobs that are equal in these attributes exclude each other as singletons

KINDS: Final = ("after", "afterany", "afterok", "afternotok")
AFTER, AFTER_ANY, AFTER_OK, AFTER_NOT_OK = range(len(KINDS))
SINGLETON: Final = "singleton"
EDGE_DTYPE: Final = np.dtype(
    [
        ("before", "<i4"),  # row of the job that must start or end first
        ("after", "<i4"),  # row of the job that is held
        ("kind", "<i8"),  # index into KINDS
        ("delay_s", "<f8"),  # [s] from the start or the end to the release
    ]
)
MINUTE_S: Final = 60.0
_IDS: Final = r"(?::\d{1,18}(?:\+\d{1,9}(?:\.\d{1,9})?s?)?)+"
_ITEM: Final = re.compile(rf"({'|'.join(KINDS)})({_IDS})", re.ASCII)
_JOB: Final = re.compile(r":(\d+)(?:\+(\d+(?:\.\d+)?)(s?))?", re.ASCII)


class Holds(NamedTuple):
    """What holds the jobs of an instance."""

    eligible_s: np.ndarray  # float64 [J] [s], submission + begin_s: no entry into the queue before
    edges: np.ndarray  # EDGE_DTYPE [D], sorted by ``before``, then ``after``
    fails: np.ndarray  # Boolean [J]

    @property
    def depends(self) -> np.ndarray:
        """Boolean [J]: whether each job depends on another one."""
        found = np.zeros(len(self.eligible_s), bool)
        found[self.edges["after"]] = True
        return found


def holds_of(workload: Workload) -> Holds | None:
    """What holds the jobs of a workload; None = no job is ever held."""
    if not workload.attributes:
        return None
    edges = workload.edges
    begin_s = workload.told(BEGIN) if BEGIN in workload.attributes else np.zeros(len(workload))
    if not len(edges) and not begin_s.any():
        return None
    return Holds(workload.jobs["arrival_s"] + begin_s, edges, fails_of(workload.attributes, len(workload)))


def fails_of(attributes: Mapping[str, np.ndarray], jobs: int) -> np.ndarray:
    """Boolean [J]: whether each job fails when its work is done."""
    return np.asarray(attributes[FAILS], float) != 0 if FAILS in attributes else np.zeros(jobs, bool)


def find_edges(jobs: np.ndarray, attributes: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """EDGE_DTYPE [D]: the dependencies of the jobs, sorted by ``before``, then ``after``.

    Parameters
    ----------
    jobs : JOB_DTYPE [J]
    attributes : attributes of the workload
    name : name of the workload, for error messages
    """
    if DEPENDENCY not in attributes:
        return np.empty(0, EDGE_DTYPE)
    texts = [str(text).strip() for text in attributes[DEPENDENCY].tolist()]
    row_of = {number: row for row, number in enumerate(jobs["id"].tolist())} if any(texts) else {}
    arrival = jobs["arrival_s"].tolist()
    ids = jobs["id"].tolist()
    told = chain(_told(texts, row_of, ids, arrival, name), _singletons(jobs, texts, attributes, name))
    edges = np.fromiter(told, EDGE_DTYPE)
    edges = edges[np.lexsort([edges[key] for key in ("delay_s", "kind", "after", "before")])]
    edges.flags.writeable = False
    return edges


def _told(
    texts: Sequence[str], row_of: Mapping[int, int], ids: Sequence[int], arrival: Sequence[float], name: str
) -> Iterator[tuple[int, int, int, float]]:
    """Yield the dependencies that the texts of the jobs tell; singletons are not among them."""
    for row, text in enumerate(texts):
        if not text:
            continue
        where = f"workload {name!r}, job {ids[row]}: dependency {text!r}"
        for kind, number, delay_s in _items(text, where):
            if kind == SINGLETON:
                continue
            before = row_of.get(number)
            if before is None:
                raise WorkloadError(f"{where}: no job has the id {number}; remove this dependency, or add the job")
            if before == row:
                raise WorkloadError(f"{where}: a job cannot depend on itself; remove this dependency")
            if (arrival[before], number) > (arrival[row], ids[row]):
                raise WorkloadError(
                    f"{where}: job {number} is submitted later ({arrival[before]:g} s, and this job {arrival[row]:g} "
                    "s; of jobs submitted together, that with the larger id is later); let jobs depend on earlier ones"
                )
            yield before, row, KINDS.index(kind), delay_s


def _items(text: str, where: str) -> Iterator[tuple[str, int, float]]:
    """Yield the kind, the job id and the delay [s] of each dependency in a text."""
    for item in text.split(","):
        if item.strip() == SINGLETON:
            yield SINGLETON, -1, 0.0
            continue
        parts = _ITEM.fullmatch(item.strip())
        if parts is None:
            raise WorkloadError(
                f"{where}: {item!r} is not understood: write for example afterok:12:13,afterany:14+5 (types "
                f"{', '.join(KINDS)}; +5 = five minutes, +90s = 90 seconds later) or {SINGLETON}; a list in which any "
                "is enough (?) is not supported"
            )
        for number, delay, unit in _JOB.findall(parts[2]):
            yield parts[1], int(number), float(delay or 0) * (1.0 if unit else MINUTE_S)


def _singletons(
    jobs: np.ndarray, texts: Sequence[str], attributes: Mapping[str, np.ndarray], name: str
) -> Iterator[tuple[int, int, int, float]]:
    """Yield a dependency of each singleton on the earlier jobs of its user and name.

    They reach back to a job that is nothing but a singleton, and so ends after all jobs before it.
    """
    single = np.array([SINGLETON in text for text in texts], bool)
    if not single.any():
        return
    if missing := [column for column in NAMES if column not in attributes]:
        job = jobs["id"][int(np.argmax(single))]
        raise WorkloadError(
            f"workload {name!r}, job {job}: a {SINGLETON} needs the attributes {' and '.join(NAMES)}, and "
            f"{missing[0]} is missing; add this column"
        )
    groups: dict[tuple[str, ...], list[int]] = {}
    columns = [np.asarray(attributes[column]).astype(str).tolist() for column in NAMES]
    for row in np.lexsort([jobs["id"], jobs["arrival_s"]]).tolist():
        earlier = groups.setdefault(tuple(column[row] for column in columns), [])
        if single[row]:
            yield from ((before, row, AFTER_ANY, 0.0) for before in earlier)
            if texts[row] == SINGLETON:
                earlier.clear()
        earlier.append(row)


def without_lost(texts: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return dependencies without those on jobs that are not there any more, as if these had ended before.

    Parameters
    ----------
    texts : text [J], the attribute DEPENDENCY of the jobs that are left
    kept : int64 [J], their ids
    """
    if not (texts != "").any():
        return texts
    known = set(kept.tolist())

    def pruned(item: str) -> str:
        kind, _, rest = item.partition(":")
        left = [job for job in rest.split(":") if int(job.partition("+")[0]) in known] if rest else []
        return ":".join([kind, *left]) if left or not rest else ""

    return text_column([",".join(filter(None, map(pruned, str(text).split(",")))) for text in texts.tolist()])


def text_column(texts: Sequence[str]) -> np.ndarray:
    """Return texts as an attribute of dtype object: text of a fixed width takes J times the memory of the longest."""
    return np.array(texts, object)
