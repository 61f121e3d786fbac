"""A user's own CSV: one row for each job. The user maps the columns to roles, or their names are guessed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.problem.dependencies import BEGIN
from gpusched_env.problem.workload import GPU_TYPES, Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.clocks import SECONDS, Clock, is_told
from gpusched_env.traces.parsing.columns import NODES, JobColumns
from gpusched_env.traces.parsing.containers import trace_files
from gpusched_env.traces.parsing.dependencies import read_dependency, with_dependencies
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.roles import UNIT_WORDS, UNITS_S, Found, assign_roles
from gpusched_env.traces.parsing.streams import csv_header, csv_rows

LABELS: Final = (
    "model", "batch_size", "user", "account", "name", "qos", "queue", "partition", GPU_TYPES, "virtual_cluster",
    "status", "priority",
)  # fmt: skip
WAIT: Final = "wait_s"
AGAIN: Final = "rows that an earlier file has, too"
EARLY: Final = "jobs that started before they arrived; their wait counts as 0"
CLOCKS: Final[tuple[str, ...]] = ("arrival", "start", "end")


def read_csv(path: Path, mapping: Mapping[str, str] | None = None) -> tuple[Workload, ReadReport]:
    """Read a CSV with a header line; columns may be in any order, and columns without a role are not read.

    These roles are needed:

    - ``arrival``: seconds, or timestamps YYYY-MM-DD HH:MM:SS with or without a time zone
    - ``gpus``: a whole number
    - ``duration`` in seconds, or ``start`` and ``end``

    If the name of a column of times ends in ms, min or h, its numbers are in that unit. The job id is the row number
    from 0. Attributes: original_id (from the role ``id``) and the roles of LABELS that have a column. The role
    ``estimate`` becomes ``estimate_s`` [s], and ``earliest_start`` becomes ``begin_s`` [s]. The role ``dependency``
    names jobs by the role ``id``. ``nodes`` (``2``, or ``1-4``) becomes ``min_nodes`` and ``max_nodes``. If ``start``
    has times of the same kind as ``arrival``, ``wait_s`` is start - arrival [s], NaN = no start. The report says which
    column has which role. Of several files without the role ``id``, a row that an earlier file has, too, counts once.
    """
    header = csv_header(path)
    found = assign_roles(str(path), header, mapping or {})
    labels = [role for role in LABELS if role in found]
    attributes = (["original_id"] if "id" in found else []) + labels
    numbers = {name: "d" for name, role in ((BEGIN, "earliest_start"), (WAIT, "start")) if role in found}
    numbers |= NODES if "nodes" in found else {}
    jobs = JobColumns(ReadReport("csv", str(path)), *attributes, numbers=numbers)
    depending = "dependency" in found
    depends: list[str] = []
    every: dict[str, None] = {}  # ids of all rows, if jobs depend on them
    clocks = {
        role: Clock(role=role, column=found[role].column, unit=found[role].unit) for role in CLOCKS if role in found
    }
    first: list[str] = []
    columns = [one.column for one in found.values()]
    if again := _Again(path, header) if jobs.merges and "id" not in found else None:
        columns += [name for name in again.columns if name not in columns]
    for place, texts in csv_rows(path, columns):
        with skippable:
            row = dict(zip(found, texts, strict=False))
            if again and again.has(place, texts):
                jobs.drop(place, AGAIN)
                continue
            if depending:
                every[row.get("id", str(jobs.row))] = None
            if "id" in row:
                jobs.refuse_duplicate(place, found["id"].column, row["id"])
            times = {role: clock.read(place, row[role]) for role, clock in clocks.items()}
            seconds, reason = _run_time(place, row, found, times, clocks)
            estimate = _amount(place, row, found, "estimate")
            gpus = place.gpus(found["gpus"].column, row["gpus"].strip()) if is_told(row["gpus"]) else None
            arrival = times["arrival"]
            if arrival is None or gpus is None or (seconds is None and gpus > 0):
                unknown = "no submission time" if arrival is None else "number of GPUs unknown"
                jobs.drop(place, unknown if arrival is None or gpus is None else reason)
                continue
            arrival += clocks["arrival"].zone_s
            if not jobs.ids and gpus and seconds:
                first = _first(place, row["arrival"].strip(), clocks["arrival"], gpus, seconds, estimate)
            told = [row[role] for role in (("id", *labels) if "id" in row else labels)]
            given = {BEGIN: _amount(place, row, found, "earliest_start") or 0.0, WAIT: _wait_s(times, clocks)}
            given |= dict(zip(NODES, _nodes(place, row, found), strict=True))
            depends_on = read_dependency(place, found["dependency"].column, row["dependency"]) if depending else ""
            claimed = estimate or math.nan
            if given[WAIT] < 0 and gpus and seconds:
                jobs.note(place, EARLY)
                given[WAIT] = 0.0
            jobs.add(
                place, arrival, gpus, seconds or 0.0, *told, estimate_s=claimed, job_id=None,
                **{name: given[name] for name in numbers},
            )  # fmt: skip
            if depending and len(jobs.ids) > len(depends):
                depends.append(depends_on)
    jobs.report.columns = [*_told(header, found, clocks), *first]
    workload, report = jobs.workload("csv", dated=clocks["arrival"].kind not in ("", SECONDS))
    if WAIT in workload.attributes and not _alike(clocks):
        workload = _without_waits(workload, report, clocks["arrival"], clocks["start"])
    if depends:
        originals = workload.attributes.get("original_id", workload.jobs["id"].astype(str)).tolist()
        texts = [depends[row] for row in jobs.kept]
        workload = with_dependencies(workload, report, texts, originals, jobs.places, every)
    return workload, report


class _Again:
    """Finds rows that an earlier file has, too; rows of one file that are alike are different jobs."""

    def __init__(self, path: Path, header: tuple[str, ...]) -> None:
        headers = [csv_header(file) for file in trace_files(path)]
        self.columns = [name for name in header if all(one.count(name) == 1 for one in headers)]
        self.file = ""
        self.before: dict[tuple[str, ...], int] = {}  # row -> its number in the earlier file that has it most often
        self.own: dict[tuple[str, ...], int] = {}  # the same for this file

    def has(self, place: Place, row: list[str]) -> bool:
        """Count a row, and return whether an earlier file has it as often."""
        if place.path != self.file:
            self.before |= {key: max(count, self.before.get(key, 0)) for key, count in self.own.items()}
            self.file, self.own = place.path, {}
        key = tuple(row)
        self.own[key] = self.own.get(key, 0) + 1
        return self.own[key] <= self.before.get(key, 0)


def _without_waits(workload: Workload, report: ReadReport, sent: Clock, started: Clock) -> Workload:
    """Return the jobs without their waits, which times of two kinds do not tell."""
    kinds = f"{sent.column!r} has {sent.kind}, and {started.column!r} has {started.kind}; write both alike"
    report.columns.append(f"waits are not known: {kinds if started.kind else f'{started.column!r} is empty'}")
    told_of = {name: values for name, values in workload.attributes.items() if name != WAIT}
    return dataclasses.replace(workload, attributes=told_of)


def _nodes(place: Place, row: Mapping[str, str], found: Mapping[str, Found]) -> tuple[int, int]:
    """Return the least and the most nodes of a job; (0, 0) = any."""
    told = "nodes" in found and is_told(row["nodes"])
    return place.nodes(found["nodes"].column, row["nodes"].strip()) if told else (0, 0)


def _amount(place: Place, row: Mapping[str, str], found: Mapping[str, Found], role: str) -> float | None:
    """Return the value of a role that is a length of time [s]; None if the cell has no value."""
    if role not in found or not is_told(row[role]):
        return None
    unit = found[role].unit
    return place.amount(found[role].column, row[role].strip(), UNIT_WORDS[unit], UNITS_S[unit])


def _alike(clocks: Mapping[str, Clock]) -> bool:
    """Return whether arrivals and starts have times of one kind, so that their difference is a wait."""
    return "start" not in clocks or clocks["start"].kind == clocks["arrival"].kind


def _wait_s(times: Mapping[str, float | None], clocks: Mapping[str, Clock]) -> float:
    """Return the time from the arrival to the start [s]; NaN = one of them is unknown, or they are of two kinds."""
    start, arrival = times.get("start"), times["arrival"]
    return math.nan if start is None or arrival is None or not _alike(clocks) else start - arrival


def _run_time(
    place: Place,
    row: Mapping[str, str],
    found: Mapping[str, Found],
    times: Mapping[str, float | None],
    clocks: Mapping[str, Clock],
) -> tuple[float | None, str]:
    """Return the run time [s] and ""; if the run time is unknown, None and the reason."""
    if "duration" in found:
        return _amount(place, row, found, "duration"), "run time unknown"
    start, end = times["start"], times["end"]
    if start is None:
        return None, "never started"
    if end is None:
        return None, "still running at the end of the log"
    if clocks["start"].kind != clocks["end"].kind:
        raise TraceError(
            f"{place.path}, line {place.number}: {clocks['start'].column!r} has {clocks['start'].kind} and "
            f"{clocks['end'].column!r} {clocks['end'].kind}; write both alike, or name other columns with --map"
        )
    return (None, "ended before it started") if end < start else (end - start, "")


def _first(place: Place, arrival: str, clock: Clock, gpus: int, seconds: float, estimate: float | None) -> list[str]:
    """Make the line of the report that says how the first job was understood."""
    when = f"{arrival} {UNIT_WORDS[clock.unit]}" if clock.kind == SECONDS else arrival
    claimed = "" if estimate is None else f", claimed run time {estimate:g} s"
    return [f"first job (line {place.number}): arrival {when}, {gpus} GPUs, run time {seconds:g} s{claimed}"]


def _told(header: tuple[str, ...], found: Mapping[str, Found], clocks: Mapping[str, Clock]) -> list[str]:
    """Make the lines of the report that say which column has which role."""
    lines = []
    for guessed in (False, True):
        texts = []
        for role, one in found.items():
            kind = clocks[role].kind if role in clocks else SECONDS
            unit = f" [{UNIT_WORDS[one.unit] if kind == SECONDS else kind or 'empty'}]" if one.unit else ""
            if one.guessed == guessed:
                texts.append(f"{role} = {one.column}{unit}")
        if texts:
            lines.append(f"columns {'guessed' if guessed else 'as mapped'}: {'; '.join(texts)}")
    if rest := [name for name in header if name not in {one.column for one in found.values()}]:
        lines.append(f"columns not read: {', '.join(rest)}")
    return lines
