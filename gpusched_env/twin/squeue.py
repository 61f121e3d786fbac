"""Snapshots from text that ``squeue`` prints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError, TraceError
from gpusched_env.evaluation.accounting import Accounts, clock, placement_of
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row, skippable
from gpusched_env.traces.parsing.columns import NODES, UNEVEN, joined_nodes
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.parsing.dependencies import other_jobs, tasks_of, well_formed, with_tasks, without_fate
from gpusched_env.traces.parsing.detection import bar_columns
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import Stamps, span_s, tres_gpus
from gpusched_env.traces.slurm_files.hostlists import names_in
from gpusched_env.traces.slurm_files.json_tables import SQUEUE_KEYS, is_json, told
from gpusched_env.traces.slurm_files.json_tables import squeue_rows as json_rows
from gpusched_env.twin.snapshot import UNTOLD, PresentJob, Snapshot, dated, skipped_notes, snapshot_of_jobs
from gpusched_env.twin.waiting_reasons import WAITS as WAITS_FOR_GPUS
from gpusched_env.twin.waiting_reasons import kind_of

# Header that squeue prints -> our name; the letters are those of squeue --format
NAMES: Final = {
    "JOBID": "id", "USER": "user", "ACCOUNT": "account", "PARTITION": "partition", "QOS": "qos",
    "ST": "state", "STATE": "state", "TIME": "elapsed", "TIME_LIMIT": "limit", "TIMELIMIT": "limit",
    "SUBMIT_TIME": "submit", "START_TIME": "start", "NODES": "count", "NODELIST": "nodes", "NODELIST(REASON)": "place",
    "REASON": "reason", "TRES_PER_NODE": "per_node", "TRES_ALLOC": "tres", "TRES": "tres", "PRIORITY": "priority",
    "DEPENDENCY": "dependency", "MAX_NODES": "most",
}  # fmt: skip
WRITTEN: Final = (
    "JOBID|USER|ACCOUNT|PARTITION|QOS|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|NODELIST|REASON|TRES_ALLOC"
)
FORMAT: Final = (
    "JobArrayID:40|,UserName:99|,Account:99|,Partition:200|,QOS:99|,State:20|,TimeUsed:20|,TimeLimit:20|,SubmitTime:20|,"
    "StartTime:20|,NumNodes:9|,MaxNodes:9|,NodeList:999|,Reason:200|,tres-alloc:300|,tres-per-node:99|,Dependency:999|"
)
COLUMNS: Final = (
    bar_columns("jobid", "state", "time"),
    bar_columns("jobid", "st", "time"),
    SQUEUE_KEYS,
)  # by which it is recognised
RUNS: Final = frozenset({"R", "RUNNING", "CF", "CONFIGURING", "CG", "COMPLETING", "S", "SUSPENDED"})
WAITS: Final = frozenset({"PD", "PENDING"})
_ROW: Final = re.compile(
    r"\s*(\S+)\s+(\S+)\s+(.*?)\s+(\S+)\s+([A-Z]{1,2})\s+(\S+)\s+(\d[\d-]{0,18})\s*(.*?)\s*", re.ASCII
)
_ARRAY: Final = re.compile(r"(\d+)_\[([\d,\-:]+)(?:%(\d{1,9}))?\]", re.ASCII)
MOST_TASKS: Final = 100_000  # of one array


def read_squeue(path: str | Path, time_s: float = math.nan, gpus_per_node: int = 0) -> Snapshot:
    """Read what ``squeue --format FORMAT``, plain ``squeue`` or ``squeue --json`` prints.

    A table with ``|`` has the columns of NAMES in any order; plain ``squeue`` has JOBID, PARTITION, NAME, USER, ST,
    TIME, NODES and NODELIST(REASON). The GPUs of a job are those of TRES_PER_NODE (``gres/gpu:4`` or ``gres:gpu:4``)
    times NODES, or gres/gpu of TRES_ALLOC, else ``gpus_per_node`` times NODES. NODES of a pending job is a least number
    if MAX_NODES is 0 and TRES_PER_NODE N/A (``--gpus`` without ``-N``), else the exact one. A pending array becomes its
    tasks, of which those beyond its ``%N`` are held. The parts of a heterogeneous job (``7+0``, ``7+1``) become one
    job, with the id that dependencies name (``7``). Jobs whose REASON names something other than GPUs and priorities
    are held (waiting_reasons.py); a job with
    the reason Dependency whose DEPENDENCY names jobs of the table waits for these, and one with the reason BeginTime
    until its START_TIME.

    ``time_s`` : when the command ran, in the zone of the file; NaN = START_TIME + TIME of the running jobs,
    or last_update of JSON.
    ``gpus_per_node`` 0: jobs without TRES are left out.
    """
    path = Path(path)
    table, stamps, rest = _Table(gpus_per_node), Stamps(), dict[str, Any]()
    for place, row in json_rows(path, rest) if is_json(path) else squeue_rows(path):
        with skippable:
            table.read(place, row, stamps)
    if math.isnan(time_s):
        table.nows += [float(text) for text in [told(rest, "last_update")] if text.isdecimal()]
        if not table.nows:
            raise TraceError(f"{path}: no running job tells START_TIME and TIME, so the time is unknown; give --at")
        time_s = max(table.nows)
    try:
        return table.snapshot(time_s)
    except GpuschedError as error:
        raise TraceError(f"{path}: {error}") from error


def squeue_lines(accounts: Accounts, time_s: float, origin: str) -> Iterator[str]:
    """Yield a table of squeue about a run at one moment, with TRES_ALLOC instead of TRES_PER_NODE."""
    jobs, begin = accounts.instance.workload.jobs, np.datetime64(origin, "s")
    user, account, queue, qos = (accounts.attribute(name) for name in ("user", "account", "virtual_cluster", "qos"))
    asked = accounts.node_counts
    yield WRITTEN
    in_system = (accounts.arrival_s <= time_s) & ~(accounts.end_s <= time_s)
    for i in np.flatnonzero(in_system).tolist():
        runs = bool(accounts.start_s[i] <= time_s)
        _, count, nodes = placement_of(accounts.instance, accounts.gangs[i] if runs else accounts.gangs[i][:0])
        stamps = [
            str(begin + np.timedelta64(round(float(value)), "s"))
            for value in (accounts.arrival_s[i], accounts.start_s[i] if runs else math.nan)
            if not math.isnan(value)
        ]
        limit = jobs["estimate_s"][i]
        cells = (
            str(i + 1), user[i], account[i], queue[i], qos[i], "RUNNING" if runs else "PENDING",
            clock(int(time_s - accounts.start_s[i]) if runs else 0),
            "UNLIMITED" if np.isnan(limit) else clock(math.ceil(limit)),
            stamps[0], stamps[1] if runs else "N/A", str(count or asked[i][0] or ""), nodes if runs else "",
            "None" if runs else "Priority", f"gres/gpu={jobs['gpus'][i]}",
        )  # fmt: skip
        yield "|".join(cells)


def squeue_rows(path: Path) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield the place and the fields of each row, by our names."""
    header: list[str] | None = None
    with open_trace(path) as stream:
        for number, raw in enumerate(stream, 1):
            place = Place(str(path), number)
            try:
                line = raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                refuse_row(_bad(place, "not UTF-8 text; export it again"))
                continue
            if not line.strip():
                continue
            if header is None:
                header = [word.strip() for word in line.split("|")] if "|" in line else line.split()
                known = [NAMES.get(word.upper(), "") for word in header]
                if not {"id", "state"} <= set(known) or ("|" not in line and known.count("") > 1):
                    raise TraceError(
                        f"{path}, line 1: expected the header of squeue, with JOBID and ST; found {line[:99]!r}. Write "
                        f'the file with squeue --all --array -O "{FORMAT}"'
                    )
                bars, header = "|" in line, known
            elif bars:
                fields = [word.strip() for word in line.split("|")]
                if len(fields) != len(header):
                    wrong = f"{len(fields)} fields where the header has {len(header)}"
                    refuse_row(_bad(place, f"{wrong}; the row is cut or a name has a stray |: correct or remove it"))
                    continue
                yield place, dict(zip(header, fields, strict=True))
            else:
                found = _ROW.fullmatch(line)
                if found is None:
                    refuse_row(_bad(place, f"not a row of squeue: {line[:60]!r}; correct or remove it", "not a row"))
                    continue
                names = ("id", "partition", "", "user", "state", "elapsed", "count", "place")
                yield place, dict(zip(names, found.groups(), strict=True))
    if header is None:
        raise TraceError(f"{path}: the file is empty; run squeue again")


def _bad(place: Place, text: str, reason: str = "") -> BadRowError:
    """Make the error for a row; ``reason`` is as in :meth:`Place.refuse`."""
    return BadRowError(f"{place.path}, line {place.number}: {text}", (place.number,), reason or text.partition(";")[0])


class _Table:
    """The jobs read so far."""

    def __init__(self, gpus_per_node: int) -> None:
        self.gpus_per_node = gpus_per_node
        self.jobs: list[PresentJob] = []
        self.held: list[str] = []
        self.gpuless: list[str] = []  # jobs without GPUs, or whose GPUs the file does not tell
        self.reasons: dict[str, str] = {}
        self.untold: dict[str, tuple[Place, tuple[str, ...]]] = {}  # running job whose GPUs are not told -> its nodes
        self.nows: list[float] = []
        self.elapsed: dict[str, float] = {}
        self.places: dict[str, Place] = {}
        self.throttled: dict[str, int] = {}  # array -> number of its tasks that may run at one time
        self.other = self.undated = self.uneven = 0

    def read(self, place: Place, row: dict[str, str], stamps: Stamps) -> None:
        """Read one row."""
        state = row["state"].upper()
        if state not in RUNS | WAITS:
            self.other += 1
            return
        runs = state in RUNS
        where = row.get("place", "")
        reason = row.get("reason", where.strip("()") if where.startswith("(") else "")
        dependency = without_fate(row.get("dependency", "")) if not runs and reason == "Dependency" else ""
        dependency = dependency if dependency and well_formed(dependency) else ""
        begin = stamps.read(place, "START_TIME", row["start"]) if reason == "BeginTime" and "start" in row else None
        if not runs and kind_of(reason) != WAITS_FOR_GPUS and not dependency and begin is None:
            self.held.append(row["id"])
            self.reasons[row["id"]] = reason
            return
        least, most = _nodes(place, row, runs)
        count = max(least, 1)
        gpus = self._gpus(place, row, count)
        if not runs and row.get("most") == "0" and row.get("per_node") == "N/A":  # --gpus without -N
            most = gpus
        listed = row.get("nodes", "" if where.startswith("(") else where)
        if not gpus:
            self.gpuless.append(row["id"])
            if runs and not row.get("tres"):
                self.untold[row["id"]] = place, names_in(place, "NODELIST", listed) if listed else ()
            return
        submit = stamps.read(place, "SUBMIT_TIME", row["submit"]) if "submit" in row else None
        start = stamps.read(place, "START_TIME", row["start"]) if runs and "start" in row else None
        elapsed = span_s(place, "TIME", row["elapsed"]) if runs and row.get("elapsed") else None
        limit = span_s(place, "TIME_LIMIT", row["limit"]) if row.get("limit") else None
        hosts: tuple[str, ...] = ()
        if runs and listed and gpus % count == 0:
            hosts = names_in(place, "NODELIST", listed)
        nodes = dict.fromkeys(hosts, gpus // len(hosts)) if hosts and gpus % len(hosts) == 0 else {}
        ids = _tasks(place, row["id"])
        if (array := _ARRAY.fullmatch(row["id"])) and int(array[3] or 0):
            self.throttled[array[1]] = int(array[3])
        if runs and start is None and elapsed is None:
            place.refuse("TIME", row.get("elapsed", ""), "a running job needs START_TIME or TIME; add a column")
        if len(set(ids)) < len(ids) or not self.places.keys().isdisjoint(ids):
            place.refuse("JOBID", row["id"], "this job occurs twice; remove one of the two rows")
        told: dict[str, Any] = {name: row.get(name, "") for name in ("user", "account", "partition", "qos")}
        told |= {
            "gpu_types": _type(place, row, runs),
            "arrival_s": math.nan if submit is None else submit,
            "start_s": (0.0 if start is None else start) if runs else math.nan,
            "limit_s": limit or math.nan,
            "begin_s": math.nan if runs or begin is None else begin,
            **(dict.fromkeys(NODES, 0) if not most or gpus % most else {"min_nodes": least, "max_nodes": most}),
        }
        try:
            jobs = [PresentJob(name, gpus, nodes=nodes, dependency=dependency, **told) for name in ids]
        except GpuschedError as error:
            raise _bad(place, f"{error}; correct or remove the row", "a value out of range") from error
        self.jobs += jobs
        if not runs and reason:
            self.reasons |= dict.fromkeys(ids, reason)
        self.places |= dict.fromkeys(ids, place)
        self.undated += len(ids) * (submit is None)
        self.uneven += len(ids) * (most > 0 and gpus % most > 0)
        if start is None and elapsed is not None:
            self.elapsed |= dict.fromkeys(ids, elapsed)
        if start is not None and elapsed is not None:
            self.nows.append(start + elapsed)

    def _gpus(self, place: Place, row: dict[str, str], nodes: int) -> int:
        """Return the gang size; 0 = unknown, none, or slices of GPUs."""
        text = row.get("tres", "")
        if text and (found := tres_gpus(place, "TRES_ALLOC", text)) is not None:
            return 0 if found.sliced else found.number
        text = row.get("per_node", "")
        if text and text != "N/A":
            return nodes * sum(count for _, count in _per_node(text))
        return 0 if "per_node" in row else self.gpus_per_node * nodes

    def snapshot(self, time_s: float) -> Snapshot:
        """Return the snapshot of the rows."""
        since = {name: max(time_s - elapsed, 0.0) for name, elapsed in self.elapsed.items()}
        started = (replace(job, start_s=since[job.id]) if job.id in since else job for job in self.jobs)
        jobs, limited = self._within_throttle(dated(((self.places[job.id], job) for job in started), time_s))
        notes = [
            f"{count:,} {what}"
            for count, what in (
                (len(self.gpuless), "jobs without GPUs, or whose GPUs the file does not tell, are left out"),
                (self.other, "jobs in other states than running and pending are left out"),
                (self.uneven, UNEVEN),
                (limited, "tasks are held until others of their array, of which %N may run at one time, have ended"),
                (self.undated, "jobs without SUBMIT_TIME: queued ones count as arriving now, in the order of the file"),
            )
            if count
        ]
        notes += skipped_notes()
        jobs = self._joined(jobs)
        jobs, lost = _with_known(jobs, (*self.held, *self.gpuless))
        found = snapshot_of_jobs(time_s, jobs, (*self.held, *lost), notes)
        for job_id, (place, nodes) in self.untold.items():
            for name in (name for name in nodes if name in found.node_names):
                place.refuse("TRES_PER_NODE", f"job {job_id}", f"it runs on {name}, which has GPUs, and {UNTOLD}")
        return replace(
            found, reasons=self.reasons, untold={name: ",".join(nodes) for name, (_, nodes) in self.untold.items()}
        )

    def _within_throttle(self, jobs: list[PresentJob]) -> tuple[list[PresentJob], int]:
        """Hold waiting tasks beyond the %N of their arrays, of which running ones take part; return the rest."""
        free = dict(self.throttled)
        lost: dict[str, str] = {}
        for job in sorted(jobs, key=lambda job: job.waits):
            array = job.id.partition("_")[0] if "_" in job.id else ""
            if job.waits and free.get(array, 1) <= 0:
                lost[job.id] = "JobArrayTaskLimit"
            elif array in free:
                free[array] -= 1
        self.held += lost
        self.reasons |= lost
        return [job for job in jobs if job.id not in lost], len(lost)

    def _joined(self, jobs: list[PresentJob]) -> list[PresentJob]:
        """Return the jobs with the parts of heterogeneous ones (7+0, 7+1) as one job, 7; if a part is held, all are."""
        parts: dict[str, list[PresentJob]] = {}
        for job in jobs:
            parts.setdefault(_leader(job.id), []).append(job)
        held = {_leader(name) for name in self.held}
        found = []
        for name, own in parts.items():
            if name in held:
                self.reasons = {
                    one: reason for one, reason in self.reasons.items() if _leader(one) != name or one in self.held
                }
                continue
            if len(own) == 1 and own[0].id == name:
                found += own
                continue
            for job in own:
                if reason := self.reasons.pop(job.id, ""):
                    self.reasons[name] = reason
            nodes: dict[str, int] = {}
            for node, gpus in (pair for job in own for pair in job.nodes.items()):
                nodes[node] = nodes.get(node, 0) + gpus
            told = nodes if all(job.nodes for job in own) else {}
            least, most = joined_nodes([(job.gpus, job.min_nodes, job.max_nodes) for job in own])
            changed: dict[str, Any] = {"gpus": sum(job.gpus for job in own), "nodes": told}
            changed |= {"min_nodes": least, "max_nodes": most}
            if len({job.gpu_types for job in own}) > 1:  # each of them, which a job cannot ask for
                changed["gpu_types"] = ""
            found.append(replace(own[0], id=name, **changed))
        return found


def _per_node(text: str) -> list[tuple[str, int]]:
    """Return type and number of each entry about GPUs of TRES_PER_NODE."""
    found = []
    for entry in text.split(","):
        kind, *rest = re.split(r"[:/=]", entry.removeprefix("gres:").removeprefix("gres/"))
        if kind == "gpu":
            counts = [int(rest.pop())] if rest and rest[-1].isdecimal() and len(rest[-1]) < 10 else [1]
            found.append((rest[0] if rest else "", counts[0]))
    return found


def _type(place: Place, row: dict[str, str], runs: bool) -> str:
    """Return the GPU type that a job asks for, as the log of sacct tells it; "" = any, or each of several.

    TRES_ALLOC of a running job has the type that it got.
    """
    asked = tres_gpus(place, "TRES", row.get("asked") or ("" if runs else row.get("tres", "")))
    types = asked.types if asked and asked.types else [name for name, _ in _per_node(row.get("per_node", "")) if name]
    return types[0] if len(types) == 1 else ""


def _nodes(place: Place, row: dict[str, str], runs: bool) -> tuple[int, int]:
    """Return the least and the most nodes of a job; 0 = not told."""
    least, most = place.nodes("NODES", row.get("count") or "0")
    limit = place.whole("MAX_NODES", row.get("most") or "0", "nodes")
    return least, most if runs or not least else max(most, limit)


def _leader(name: str) -> str:
    """Return the id of the heterogeneous job of which this is a part, else the id itself."""
    return name.partition("+")[0]


def _with_known(jobs: list[PresentJob], others: Sequence[str]) -> tuple[list[PresentJob], list[str]]:
    """Return the jobs that depend on jobs of the list only, and the ids of the rest; squeue tells only open ones.

    ``others`` : ids of other rows. A job that depends on an array depends on all its tasks.
    """
    lost: list[str] = []
    known = {job.id for job in jobs}
    tasks = tasks_of((*(job.id for job in jobs), *others))
    jobs = [replace(job, dependency=with_tasks(job.dependency, known, tasks)) for job in jobs]
    while True:
        known = {job.id for job in jobs}
        kept = [job for job in jobs if known.issuperset(other_jobs(job.dependency))]
        if len(kept) == len(jobs):
            return jobs, lost
        lost += [job.id for job in jobs if not known.issuperset(other_jobs(job.dependency))]
        jobs = kept


def _tasks(place: Place, text: str) -> list[str]:
    """Return the ids of the tasks of a pending array, else the id itself."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        if "_[" in text:
            remedy = "the list of tasks is cut; write the file with squeue --array, or with SLURM_BITSTR_LEN=0"
            place.refuse("JOBID", text, remedy)
        return [text]
    names: list[str] = []
    for part in found[2].split(","):
        ends = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", part)
        if ends is None:
            place.refuse("JOBID", text, "expected tasks such as 7_[1-4,9%2]; correct or remove the row")
        first, last, step = int(ends[1]), int(ends[2] or ends[1]), int(ends[3] or 1)
        if step < 1 or (last - first) // step + len(names) >= MOST_TASKS:
            place.refuse("JOBID", text, f"expected at most {MOST_TASKS:,} tasks; correct or remove the row")
        names += [f"{found[1]}_{task}" for task in range(first, last + 1, step)]
    return names
