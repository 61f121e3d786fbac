"""Job lists that papers published as CSV: one reader, and the table of their columns in ``job_lists.toml``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.problem.workload import MAX_NODES, MIN_NODES, PROFILE_DTYPE, Profiles, Workload
from gpusched_env.support.files import toml_beside
from gpusched_env.traces.parsing.bad_rows import skippable, skipping_bad_rows
from gpusched_env.traces.parsing.columns import JobColumns, since_epoch
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import csv_header, csv_rows, other_header
from gpusched_env.traces.profile_tables import FittedTable, load_fitted

Row = dict[str, Any]  # role -> value
Rule = Callable[[JobColumns, Place, Row, list[str]], str]  # completes a row, whose texts are given; or why it is no job

STALE: Final = "duration differs by more than a factor of 2 from iterations x iteration_time, which is used"
CPUS: Final = "pods ask for CPUs or memory, which are ignored"
SHARED: Final = "pods with a share of a GPU, rounded up to one GPU"
WHOLE: Final = 1000  # gpu_milli of a whole GPU
DUE: Final = ("strict", "soft")  # types of jobs with deadlines
NOT_MEASURED: Final = "no measurements of data-parallel training of this application (gpt_pmp has only others)"
NOT_TRAINED: Final = "batch size beyond those that were trained to completion"
READ: Final[dict[str, Callable[..., Any]]] = {  # kind -> method of Place, or function of a place, a field and a text
    "date": lambda place, field, text: since_epoch(place.when(field, text)),
    "seconds": Place.seconds,
    "seconds?": Place.seconds_or_none,
    "due": lambda place, field, text: math.inf if text == "inf" else place.seconds(field, text),
    "minutes": lambda place, field, text: place.seconds(field, text, "minutes"),
    "gpus": Place.gpus,
    "whole": Place.whole,
    "amount": Place.amount,
}
GPU_TYPES: Final = ("A100", "V100", "GTX2080Ti")  # of Hydra
FITTED: Final = {"pollux": "pollux", "sia": "sia", "pollux-sharing": "bsbf"}  # format -> table of its applications
FIRST: Final = ("arrival", "gpus", "work")  # roles that are read before the others
SAME: Final = {"bsbf": "muri", "sia": "pollux", "pollux-sharing": "pollux"}  # format -> the one whose layout it has


@dataclass(frozen=True)
class JobList:
    """A layout; ``job_lists.toml`` explains the fields."""

    columns: tuple[tuple[str, ...], ...]  # name, kind, role and, if it has one, unit
    numbers: Mapping[str, str] = field(default_factory=dict)
    sign: str = ""
    only: bool = False
    named: str = ""
    what: str = ""
    blanks: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in the file."""
        return tuple(name for name, *_ in self.columns)

    @property
    def texts(self) -> list[str]:
        """The attributes that are texts; the id of the log is the first."""
        texts = [role for _, kind, role, *_ in self.columns if kind in ("id", "text")]
        return sorted(texts, key=lambda role: role != "original_id")


def _read() -> dict[str, list[JobList]]:
    tables = toml_beside(__file__)
    return {name: [_layout(**layout) for layout in layouts] for name, layouts in tables.items()}


def _layout(columns: Sequence[str], **more: Any) -> JobList:
    found = []
    for name, kind, *rest in (text.split(maxsplit=3) for text in columns):
        found.append((name.strip("_") and name, kind, *(rest or ["original_id"])))
    return JobList(tuple(found), **more)


JOB_LISTS: Final = _read()


def layouts_of(name: str) -> list[JobList]:
    """Return the layouts of a format."""
    return JOB_LISTS[SAME.get(name, name)]


def read_job_list(path: Path, name: str) -> tuple[Workload, ReadReport]:
    """Read a file of the format ``name``; if the format has several layouts, the header determines which one it is."""
    layouts = layouts_of(name)
    layout = layouts[0] if len(layouts) == 1 else _layout_of(path, layouts)
    attributes = layout.texts
    jobs = JobColumns(ReadReport(name, str(path)), *attributes, numbers=layout.numbers)
    table = load_fitted(FITTED[name]) if name in FITTED else None
    rule = RULES.get(name) if table is None else partial(_train, table)
    if name == "openb":
        rule = partial(_pod, _end_of(path, layout.names))
    roles, ids = (
        [role for _, _, role, *_ in layout.columns],
        [name for name, kind, *_ in layout.columns if kind == "id"],
    )
    typed = [
        (role, partial(READ[kind], unit=unit[0]) if unit else READ[kind], name)
        for name, kind, role, *unit in layout.columns
        if kind in READ
    ]
    typed.sort(key=lambda column: FIRST.index(column[0]) if column[0] in FIRST else len(FIRST))
    for place, texts in csv_rows(path, layout.names):
        with skippable:
            told = [text.strip() for text in texts] if layout.blanks else texts
            row: Row = dict(zip(roles, told, strict=True))
            for name_of_id in ids:
                jobs.refuse_duplicate(place, name_of_id, row["original_id"])
            for role, read, field in typed:
                row[role] = read(place, field, row[role])
            if rule is not None and (reason := rule(jobs, place, row, told)):
                jobs.drop(place, reason)
                continue
            labels, numbers = [row[role] for role in attributes], {role: row[role] for role in layout.numbers}
            jobs.add(place, row["arrival"], row["gpus"], row["work"], *labels, job_id=row.get("job_id"), **numbers)
    dated = any(kind == "date" for _, kind, *_ in layout.columns)
    return jobs.workload(layout.named or name, dated=dated, models=_models(jobs, table))


def _layout_of(path: Path, layouts: Sequence[JobList]) -> JobList:
    """Return the layout whose sign the header has."""
    header = csv_header(path)
    for layout in layouts:
        if layout.sign in header:
            return layout
    raise other_header(path, header, layouts[0].what, *(layout.names for layout in layouts))


def _deadline(jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """Chronus: the first expected time, and its value."""
    row |= {"deadline_s": math.inf, "value": 1.0}
    if row["job_type"] in DUE:
        times, values = row["expect_time_list"].partition("-")[0], row["expect_value_list"].partition("-")[0]
        row["deadline_s"] = place.seconds("expect_time_list", times, "minutes")
        row["value"] = place.amount("expect_value_list", values, "units")
    return ""


def _shared_work(jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """Dally: the time on one GPU over the gang, and the id of the file."""
    row["job_id"] = place.whole("job_id", row["original_id"], "a job's number")
    row["work"] /= max(row["gpus"], 1)  # add() drops jobs with 0 GPUs
    return ""


def _due_after(jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """ElasticFlow: the deadline counts from the submission."""
    row["deadline_s"] -= row["arrival"]
    return ""


def _on_types(jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """Hydra: one GPU, and a run time on each type; the iterations are seconds on the first one."""
    seconds = [row[gpu_type] for gpu_type in GPU_TYPES]
    row |= {"gpus": 1, "work": seconds[0], "deadline_s": row["deadline_s"] - row["arrival"]}
    if 0 in seconds:
        return "zero run time"
    if not all(0 < other / seconds[0] < math.inf for other in seconds):
        place.refuse(GPU_TYPES[0], told[3], "cannot be compared with the other run times; correct or remove the row")
    return ""


def _counted(jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """Muri: iterations times their time, in milliseconds."""
    row["arrival"] /= 1000
    work, claimed = row["count"] * row["each_ms"] / 1000, row["claimed_ms"] / 1000
    if row["gpus"] and work and not claimed / 2 <= work <= claimed * 2:
        jobs.note(place, STALE)
    row["work"] = work
    return ""


def _end_of(path: Path, names: Sequence[str]) -> float:
    """Return the end of a log of openb [s]: the last deletion, if several pods in phase Running share it; else inf."""
    deletion, phase = names.index("deletion_time"), names.index("pod_phase")
    times = []
    with skipping_bad_rows():  # the reader itself tells about them
        for place, told in csv_rows(path, names):
            with skippable:
                if told[phase] == "Running":
                    times.append(place.seconds_or_none("deletion_time", told[deletion]) or 0.0)
    last = max(times, default=math.inf)
    return last if times.count(last) > 1 else math.inf


def _pod(end_s: float, jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """openb: a pod runs from its scheduling to its deletion; the log ends at ``end_s`` [s]."""
    size, milli, scheduled, deleted = (row[role] for role in ("gpus", "gpu_milli", "scheduled_s", "deleted_s"))
    row |= {"arrival": row["created_s"], "work": 0.0, MIN_NODES: 1, MAX_NODES: 1}  # a pod is on one node
    if size == 1 and not 0 < milli <= WHOLE:
        place.refuse("gpu_milli", told[2], f"expected 1 to {WHOLE} for one GPU; correct or remove the row")
    if size == 0:
        return ""
    if scheduled is None:
        return "never scheduled"
    if deleted is None or (deleted == end_s and row["status"] == "Running"):
        return "still running at the end of the log"
    if deleted < scheduled:
        return "deleted before it was scheduled"
    if deleted > scheduled:
        if size == 1 and milli < WHOLE:
            jobs.note(place, SHARED)
        if row["cpu_milli"] or row["memory_mib"]:
            jobs.note(place, CPUS)
    row["work"] = deleted - scheduled
    return ""


def _train(table: FittedTable, jobs: JobColumns, place: Place, row: Row, told: list[str]) -> str:
    """Pollux and Sia: the iterations of an application at a batch, if it was trained with it."""
    trained = table.applications.get(row["model"])
    batch = place.whole("batch_size", row["batch_size"], "samples")
    row["work"] = trained.iterations_at(batch) if trained else math.nan
    if row["gpus"] and math.isnan(row["work"]):
        return NOT_TRAINED if trained else NOT_MEASURED
    return ""


def _models(jobs: JobColumns, table: FittedTable | None) -> tuple[Profiles, np.ndarray] | None:
    """Return the profiles of the jobs whose work is in iterations, and the row of each job in them."""
    if table is not None and jobs.ids:
        batches = [int(float(text)) for text in jobs.texts("batch_size")]
        return table.for_jobs(jobs.texts("model"), batches, jobs.gpus)
    if not jobs.ids or GPU_TYPES[1] not in jobs.numbers:
        return None
    rows = np.zeros(len(jobs.ids), PROFILE_DTYPE)
    rows["name"] = [f"job {number}" for number in jobs.ids]
    rows["batch"] = rows["overlap"] = 1
    times = np.column_stack([jobs.work, *(jobs.numbers.pop(gpu_type) for gpu_type in GPU_TYPES[1:])])
    return Profiles(rows, times / times[:, :1], GPU_TYPES), np.arange(len(rows))


RULES: Final[dict[str, Rule]] = {
    "bsbf": _counted,
    "chronus": _deadline,
    "dally": _shared_work,
    "elasticflow": _due_after,
    "hydra": _on_types,
    "muri": _counted,
}
