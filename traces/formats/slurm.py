"""Slurm's accounting table, as ``sacct --parsable2`` (``-P``) or ``--parsable`` writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import GPU_TYPES, Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import NODES, REPLACED, UNEVEN, JobColumns, joined_nodes
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.slurm_fields import UNTOLD, Stamps, span_s, tres_gpus, tres_nodes
from gpusched_env.traces.parsing.streams import bar_header, bar_rows
from gpusched_env.traces.parsing.texts import Ids
from gpusched_env.traces.slurm_files.json_tables import SACCT, is_json, sacct_rows

# Each line: columns of which the file needs at least one
NEEDED: Final = (
    ("JobIDRaw", "JobID"),
    ("Submit", "Eligible"),
    ("Start",),
    ("End",),
    ("State",),
    ("AllocTRES", "ReqTRES"),
)
LABELS: Final = {  # column -> attribute
    "User": "user",
    "Account": "account",
    "JobName": "name",
    "Partition": "virtual_cluster",
    "QOS": "qos",
    "Reservation": "reservation",
    "Cluster": "cluster",
    "Reason": "reason",
}
COLUMNS: Final = (
    *(name for names in NEEDED for name in names),
    *("ElapsedRaw", "Elapsed", "TimelimitRaw", "Timelimit", "Restarts", "NNodes", "ReqNodes", *LABELS),
)
DONE, CUT, AGAIN, OPEN, RESIZED, SIBLING = range(6)
# State -> short form, and what it says of the run: it ended by itself (DONE), was cut short (CUT), was cut short and
# may have begun again (AGAIN), has not ended (OPEN), ended because the job changed its size (RESIZED), or belongs to
# another cluster of the federation (SIBLING). Source: JOB STATE CODES of squeue(1), and LAUNCH_FAILED of Slurm's page
# on job state codes; squeue and sacct do not write its other flags
STATES: Final = {
    "COMPLETED": ("CD", DONE),
    "FAILED": ("F", DONE),
    "OUT_OF_MEMORY": ("OOM", DONE),
    "DEADLINE": ("DL", CUT),
    "TIMEOUT": ("TO", CUT),
    "CANCELLED": ("CA", CUT),
    "NODE_FAIL": ("NF", AGAIN),
    "BOOT_FAIL": ("BF", AGAIN),
    "LAUNCH_FAILED": ("LF", AGAIN),
    "PREEMPTED": ("PR", AGAIN),
    "REQUEUED": ("RQ", AGAIN),
    "REQUEUE_HOLD": ("RH", AGAIN),
    "SPECIAL_EXIT": ("SE", AGAIN),
    "PENDING": ("PD", OPEN),
    "RUNNING": ("R", OPEN),
    "SUSPENDED": ("S", OPEN),
    "COMPLETING": ("CG", OPEN),
    "CONFIGURING": ("CF", OPEN),
    "STOPPED": ("ST", OPEN),
    "SIGNALING": ("SI", OPEN),
    "STAGE_OUT": ("SO", OPEN),
    "RESV_DEL_HOLD": ("RD", OPEN),
    "RESIZING": ("RS", RESIZED),
    "REVOKED": ("RV", SIBLING),
    "REQUEUE_FED": ("RF", SIBLING),
}
STATE_OF: Final = {short: state for state, (short, _) in STATES.items()}
STEP: Final = "step of a job, whose own row is used"
FURTHER: Final = "further run or part of a job, which is one job together with its first row"
SHORT: Final = "jobs that were cut short (cancelled, time limit, fault or preemption); they would have run longer"
AFRESH: Final = "jobs that ran several times; the last run is used, and the first submission"
LOST: Final = "jobs that were requeued and whose earlier runs are not in the file (sacct --duplicates lists them)"
LATER: Final = "jobs that were eligible later than submitted (dependency, begin time, limits), taken as their arrival"
INELIGIBLE: Final = "ineligible_s"  # attribute
REPEATED_S: Final = 3600.0  # [s] repeated by local clocks in autumn, so that a job may end before it started
CLOCK: Final = "jobs whose Elapsed is not End - Start (suspended, or the clock was changed); Elapsed is used"
UNKNOWN: Final = "in a state that is not known: {}"
_WORD: Final = re.compile(r"[A-Z][A-Z_]{1,30}", re.ASCII)
_JOB: Final = re.compile(r"(\d+)(?:_(?:\d+|\[[^\]]*\]?(?:\.\.\.)?))?(?:\+(\d+))?", re.ASCII)
_STEP: Final = re.compile(r"\d+(?:_\d+)?(?:\+\d+)?\.\w+(?:\+\d+)?", re.ASCII)


Row = Mapping[str, str]


class Run(NamedTuple):
    """One row: a run of a job, or of one part of a heterogeneous job; times are in seconds since 1970 or unknown."""

    place: Place
    name: str  # id, with the cluster if it is told
    submit_s: float  # inf = unknown
    row: int  # number of the row, counted from 0
    part: int  # number of the part of a heterogeneous job; 0 for other jobs
    arrival_s: float  # inf = unknown
    start_s: float  # inf = it never started
    seconds: float  # [s] run time
    gpus: int
    estimate_s: float
    kind: int  # what its state says: DONE, CUT, ...
    unusable: str  # why it is no job; "" = it is one
    remarks: tuple[str, ...]
    labels: tuple[str, ...]
    ineligible_s: float  # [s] from its submission until it was eligible
    nodes: tuple[int, int]  # least and most nodes; 0 = any


def read_slurm(path: Path, columns: str = "") -> tuple[Workload, ReadReport]:
    """Read the table that ``sacct -P`` writes, or the JSON of ``sacct --json``.

    Columns are found by name, in any order, and others are not read. Headers may be repeated. Of several records of
    one run, the newest counts: one that has ended, else the last in the file. The file needs ``JobIDRaw`` or
    ``JobID``, ``Submit`` or ``Eligible``, ``Start``, ``End``, ``State``, and ``AllocTRES`` or ``ReqTRES``. The
    arrival is ``Eligible``, else ``Submit``. The run time [s] is ``ElapsedRaw`` or ``Elapsed``, else end minus
    start. The gang is ``gres/gpu`` of ``AllocTRES``, else of ``ReqTRES``. ``TimelimitRaw`` [min] or ``Timelimit``
    becomes ``estimate_s`` [s]. Steps are dropped, tasks of arrays are jobs, and the parts of a heterogeneous job
    (``7+0``, ``7+1`` of ``JobID``) are one job. If a job ran several times (``--duplicates``), the job is its last
    run, and it arrives when it was first submitted. Times are local, have an offset, or are seconds since 1970
    (``SLURM_TIME_FORMAT``). The job id is the row number from 0. Attributes: original_id, status, gpu_type (types
    joined by ``|``), gpu_types (the type that ReqTRES asks for, if it is one), min_nodes and max_nodes (what ReqTRES
    or ReqNodes asks, else what NNodes or AllocTRES gave), wait_s (a number: first start minus arrival), ineligible_s
    (a number: arrival minus first submission, if the file has both columns), and those of LABELS that have a column.

    ``columns`` : those of a table without a header (``sacct -n``), as its ``--format`` has them.
    """
    at, _ = _rows_of(path, columns)
    labels, unit = [name for name in LABELS if name in at], "record" if is_json(path) else "line"
    told = ("original_id", "status", "gpu_type", GPU_TYPES, *(LABELS[name] for name in labels))
    numbers = {**NODES, "wait_s": "d"} | ({INELIGIBLE: "d"} if "Submit" in at and "Eligible" in at else {})
    repeated: frozenset[str] = frozenset()
    for _ in range(2):  # the second time, the rows of ids that occur several times are held back
        jobs = JobColumns(ReadReport("slurm", str(path), unit), *told, numbers=numbers)
        table = _Table(jobs, at, labels, repeated)
        for place, row in _rows_of(path, columns)[1]:
            with skippable:
                table.read(place, row)
        repeated = frozenset(name for name, *_ in table.ids.repeated())
        if not repeated:
            break
        if jobs.skipped is not None:
            jobs.skipped.forget()
    table.resolve()
    if not jobs.ids and not table.any_gpu:
        raise TraceError(
            f"{path}: no row has gres/gpu, so no job is known to use a GPU.\n{jobs.report.describe()}\nCheck that "
            "AccountingStorageTRES of slurm.conf lists gres/gpu; jobs are accounted so from then on"
        )
    return jobs.workload("slurm", dated=True)


def _rows_of(path: Path, columns: str) -> tuple[Collection[str], Iterator[tuple[Place, Row]]]:
    """Return the columns of COLUMNS that a file has, and its rows."""
    if is_json(path):
        return ("JobID", *SACCT), sacct_rows(path)
    header = (
        tuple(name.partition("%")[0].strip().lower() for name in columns.split(",")) if columns else bar_header(path)
    )
    at = sacct_columns(path, header)
    pick = itemgetter(*at.values())
    return at, ((place, dict(zip(at, pick(fields), strict=True))) for place, fields in bar_rows(path, header))


def sacct_columns(path: Path, header: Sequence[str]) -> dict[str, int]:
    """Return the number of each column of COLUMNS in a header of sacct, whose names are in lower case."""
    at = {name: header.index(name.lower()) for name in COLUMNS if name.lower() in header}
    for names in NEEDED:
        if not any(name in at for name in names):
            raise TraceError(
                f"{path}, line 1: column {' or '.join(names)} is missing; found {', '.join(header)[:200]}; expected "
                "the table of sacct --parsable2 with --format=JobID,JobIDRaw,Submit,Eligible,Start,End,Elapsed,State,"
                "Timelimit,ReqTRES,AllocTRES; a table without a header (sacct -n) needs "
                "--sacct-columns JobID,Submit,..."
            )
    return at


class _Table:
    """Reader of the rows, column of COLUMNS -> text, in whichever form Slurm wrote them.

    It holds back the rows of jobs that may have several, and resolves these at the end.
    """

    def __init__(
        self, jobs: JobColumns, columns: Collection[str], labels: Sequence[str], repeated: Collection[str]
    ) -> None:
        self.jobs, self.labels, self.repeated = jobs, labels, repeated
        self.ids = Ids()  # those of rows that are not held back because they are in ``repeated``
        self.name = "JobID" if "JobID" in columns else "JobIDRaw"
        self.raw = "JobIDRaw" if "JobIDRaw" in columns else "JobID"
        self.stamps = Stamps()
        self.states: dict[str, tuple[str, int]] = {}
        self.held: dict[str, dict[tuple[object, ...], Run]] = {}
        self.waiting = 0  # rows that are held back
        self.any_gpu = False

    def read(self, place: Place, row: Row) -> None:
        """Read one row."""
        jobs, text, original = self.jobs, row[self.name], row[self.raw]
        part = 0
        if not (text.isdigit() and text.isascii()):
            if _STEP.fullmatch(text):
                jobs.drop(place, STEP)
                return
            found = _JOB.fullmatch(text)
            if found is None:
                place.refuse(self.name, text, "expected the id of a job, such as 7, 7_3 or 7+1; correct or remove it")
            if found[2] is not None:
                part, original = int(found[2][:9]), found[1]
        run = self._run(place, row, original, part)
        known = run.name in self.held
        if not known and run.name not in self.repeated:
            self.ids.append(place, self.name, run.name)
        if not (known or run.name in self.repeated or run.kind in (AGAIN, RESIZED) or "+" in text):
            self._add([run])
            return
        runs = self.held.setdefault(run.name, {})
        several = run.kind in (AGAIN, RESIZED)  # each with its start; other records tell what became of the last one
        key = part, run.submit_s, run.start_s if several else None
        other = runs.get(key)
        if other is not None:
            older = run if run.kind == OPEN != other.kind else other
            jobs.drop(older.place, REPLACED)
            run = other if older is run else run
        self.waiting += other is None
        runs[key] = run

    def resolve(self) -> None:
        """Add the jobs whose rows were held back."""
        for held in self.held.values():
            runs = list(held.values())
            self.waiting -= len(runs)
            ended = {run.part: run for run in runs if run.kind not in (AGAIN, RESIZED, OPEN)}
            older = [run for run in runs if run.kind not in (AGAIN, RESIZED, OPEN) and ended[run.part] is not run]
            for run in older:
                with skippable:
                    other = f"{run.place.unit} {ended[run.part].place.number}"
                    remedy = f"this id occurs twice, with another submission in {other}; remove one of the two"
                    run.place.refuse(self.name, run.name, remedy, "an id that occurs twice")
            runs = [run for run in runs if run not in older]
            for run in runs[1:]:
                self.jobs.drop(run.place, FURTHER)
            self._add(runs)

    def _add(self, runs: Sequence[Run]) -> None:
        """Add the job of these rows; for each part, its last run counts."""
        jobs, first = self.jobs, runs[0]
        last = list({run.part: run for run in runs}.values()) if len(runs) > 1 else runs
        resized = any(run.kind == RESIZED for run in runs)
        reason = "changed its size while it ran" if resized else next((r.unusable for r in last if r.unusable), "")
        gpus, seconds = sum(run.gpus for run in last), max(run.seconds for run in last)
        if reason:
            jobs.drop(first.place, reason)
            return
        earliest = min(runs, key=lambda run: run.arrival_s)
        arrival_s, (least, most) = earliest.arrival_s, last[0].nodes
        if gpus and seconds:
            several = len(last) < len(runs)
            remarks = {remark: True for run in last for remark in run.remarks if not (several and remark == LOST)}
            remarks |= {AFRESH: True} if several else {}
            remarks |= {SHORT: True} if any(run.kind in (CUT, AGAIN) for run in last) else {}
            if len(last) > 1:
                least, most = joined_nodes([(run.gpus, *run.nodes) for run in last if run.gpus])
                remarks |= {UNEVEN: True} if not most and any(run.nodes[1] for run in last) else {}
            for remark in remarks:
                jobs.note(first.place, remark)
        jobs.add(
            first.place,
            arrival_s + self.stamps.zone_s,
            gpus,
            seconds,
            *last[-1].labels,
            estimate_s=last[0].estimate_s,
            job_id=first.row,
            wait_s=max(min(run.start_s for run in runs) - arrival_s, 0.0),
            ineligible_s=earliest.ineligible_s,
            min_nodes=least,
            max_nodes=most,
        )

    def _run(self, place: Place, row: Row, original: str, part: int) -> Run:
        submit, eligible, start, end = (
            self.stamps.read(place, name, row.get(name, "")) for name in ("Submit", "Eligible", "Start", "End")
        )
        state, kind = self._state(place, row["State"])
        gpus = tres_gpus(place, "AllocTRES", row.get("AllocTRES", ""))
        request = tres_gpus(place, "ReqTRES", row.get("ReqTRES", ""))
        gpus = request if gpus is None else gpus
        asked = request.types[0] if request is not None and len(request.types) == 1 else ""  # several: each of them
        self.any_gpu |= gpus is not None and gpus.number > 0
        seconds = _elapsed(place, row)
        between = None if start is None or end is None else end - start
        arrival = submit if eligible is None else eligible
        unusable = ""
        if state not in STATES:
            unusable = UNKNOWN.format(state)
        elif kind == SIBLING:
            unusable = "sibling of a job in another cluster of the federation"
        elif start is None:
            unusable = "never started"
        elif kind == OPEN or between is None:
            unusable = "still running at the end of the log"
        elif arrival is None:
            unusable = "no submission time"
        elif between < 0 and seconds != between + REPEATED_S:
            unusable = "ended before it started"
        elif start < arrival:
            unusable = "started before it was submitted"
        elif gpus is None:
            unusable = "number of GPUs unknown"
        elif gpus.sliced:
            unusable = "slices or shares of a GPU (MIG, gres/shard, gres/mps)"
        remarks = []
        if seconds is not None and between is not None and seconds != between:
            remarks.append(CLOCK)
        if submit is not None and arrival is not None and arrival > submit:
            remarks.append(LATER)
        if place.whole("Restarts", row.get("Restarts") or "0", "restarts"):
            remarks.append(LOST)
        limit = _limit(place, row)
        return Run(
            place,
            f"{row['Cluster']}/{original}" if "Cluster" in row else original,
            math.inf if submit is None else submit,
            self.jobs.row + self.waiting,
            part,
            math.inf if arrival is None else arrival,
            math.inf if start is None else start,
            (between or 0.0) if seconds is None else seconds,
            0 if gpus is None else gpus.number,
            limit or math.nan,
            kind,
            unusable,
            tuple(remarks),
            (original, state, "|".join(gpus.types) if gpus else "", asked, *[row[name] for name in self.labels]),
            0.0 if submit is None or arrival is None else max(arrival - submit, 0.0),
            _nodes(place, row, 0 if gpus is None else gpus.number),
        )

    def _state(self, place: Place, text: str) -> tuple[str, int]:
        """Return the full name of a state and its kind; ``CANCELLED by 1002`` and ``OUT_OF_ME+`` are understood."""
        found = self.states.get(text)
        if found is None:
            word = (text.split() or [""])[0].upper()
            names = [name for name in STATES if name.startswith(word[:-1])] if word.endswith("+") else []
            name = names[0] if len(names) == 1 else STATE_OF.get(word, word)
            if name not in STATES and not _WORD.fullmatch(name):
                place.refuse("State", text, "expected a state of Slurm, such as COMPLETED; correct or remove the row")
            found = self.states[text] = name, STATES[name][1] if name in STATES else OPEN
        return found


def _nodes(place: Place, row: Row, gpus: int) -> tuple[int, int]:
    """Return the least and the most nodes of a job; (0, 0) = any. A job that got more than it asked for is flexible."""
    given = tres_nodes(row.get("AllocTRES", "")) or place.whole("NNodes", row.get("NNodes") or "0", "nodes")
    asked = tres_nodes(row.get("ReqTRES", ""))
    if row.get("ReqTRES", "") in UNTOLD:
        asked = place.whole("ReqNodes", row.get("ReqNodes") or "0", "nodes") or given
    if asked < given:
        return (asked, gpus) if asked and gpus % asked == 0 else (asked, asked)
    return (given, given) if given else (asked, asked)


def _elapsed(place: Place, row: Row) -> float | None:
    """Return the run time [s]; None if the row does not tell it."""
    if (text := row.get("ElapsedRaw", "")) not in UNTOLD:
        return place.seconds("ElapsedRaw", text)
    return span_s(place, "Elapsed", row.get("Elapsed", ""))


def _limit(place: Place, row: Row) -> float | None:
    """Return the time limit [s]; None if there is none."""
    name = "TimelimitRaw" if "TimelimitRaw" in row else "Timelimit"
    text = row.get(name, "")
    if name == "TimelimitRaw" and text.isdigit() and text.isascii():
        return place.seconds(name, text, "minutes")
    return span_s(place, name, text)
