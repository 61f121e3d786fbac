"""A snapshot of a cluster: its running and queued jobs at one moment, and its JSON file."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.problem.dependencies import KINDS
from gpusched_env.scenarios.convert import build
from gpusched_env.support.files import write_whole
from gpusched_env.traces.parsing.bad_rows import skippable, skipped_rows
from gpusched_env.traces.parsing.columns import EPOCH
from gpusched_env.traces.parsing.dependencies import well_formed
from gpusched_env.traces.parsing.fields import MAX_AMOUNT, Place
from gpusched_env.traces.parsing.report import EXAMPLES
from gpusched_env.twin.files import read_json

VERSION: Final = 1  # of the file
LONGEST: Final = 256  # [characters] of a name
UNTOLD: Final = "its own are not told; export with the column tres-alloc"  # of the GPUs of a running job
# Field of the file -> attribute
TIMES: Final = {"time": "time_s", "arrival": "arrival_s", "start": "start_s", "begin": "begin_s"}


@dataclass(frozen=True)
class PresentJob:
    """A job that runs or waits; times are seconds since 1970-01-01.

    Parameters
    ----------
    id : name of the job, such as ``107`` or ``109_2``
    gpus : gang size
    arrival_s : arrival [s]; NaN = unknown: the start of a running job, the snapshot for a queued one
    start_s : start of a running job [s]; NaN = it waits
    limit_s : time limit [s]; NaN = unknown or none
    user, account, partition, qos : names; "" = unknown
    queue : ClusterQueue of Kueue, or the LocalQueue as ``namespace/name``; "" = unknown
    priority : priority class, >= 0; policies that know classes read it
    nodes : name or number of each node -> GPUs that the running job holds there; empty = unknown
    dependency : of a queued job, as in ``sbatch --dependency``, with ids of the snapshot; other ids have ended
    begin_s : time before which a queued job must not start [s]; NaN = none
    min_nodes, max_nodes : the nodes that it asks for, as the attributes of a workload of these names; 0 = any
    gpu_types : types of GPUs of which it asks for one, with ``|`` between them; "" = any

    Raises
    ------
    GpuschedError : a number out of range, a name that is too long, or nodes whose GPUs do not add up to ``gpus``
    """

    id: str
    gpus: int
    arrival_s: float = math.nan
    start_s: float = math.nan
    limit_s: float = math.nan
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    queue: str = ""
    priority: float = 0.0
    nodes: dict[str, int] = field(default_factory=dict)
    dependency: str = ""
    begin_s: float = math.nan
    min_nodes: int = 0
    max_nodes: int = 0
    gpu_types: str = ""

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("id", "user", "account", "partition", "qos", "queue", "gpu_types"):
            if len(getattr(self, name)) > LONGEST:
                raise GpuschedError(f"{name} is longer than {LONGEST} characters")
        if not self.id:
            raise GpuschedError("id is empty: name the job")
        if not 1 <= self.gpus <= 2**31 - 1:
            raise GpuschedError(f"job {self.id!r}: gpus is {self.gpus}: give a whole number of at least 1")
        for name in ("arrival_s", "start_s", "limit_s", "begin_s", "priority"):
            value = getattr(self, name)
            if not (math.isnan(value) or 0.0 <= value <= MAX_AMOUNT) or (name == "priority" and math.isnan(value)):
                raise GpuschedError(f"job {self.id!r}: {name.removesuffix('_s')} is {value}: give a number >= 0")
        if self.dependency and not well_formed(self.dependency):
            raise GpuschedError(
                f"job {self.id!r}: dependency {self.dependency!r} is not understood: write for example "
                f"afterok:12:13,afterany:14+5 (types {', '.join(KINDS)})"
            )
        if (self.dependency or not math.isnan(self.begin_s)) and not self.waits:
            raise GpuschedError(f"job {self.id!r}: it runs: leave out dependency and begin")
        least, most = self.min_nodes, self.max_nodes
        if (least or most) and not (1 <= least <= most and self.gpus % most == 0):
            raise GpuschedError(
                f"job {self.id!r}: min_nodes is {least} and max_nodes {most}: give 1 <= min_nodes <= max_nodes, where "
                f"max_nodes divides its {self.gpus} GPUs, or leave out both"
            )
        if self.limit_s == 0.0:
            raise GpuschedError(f"job {self.id!r}: limit_s is 0: give seconds above 0, or leave it out")
        if self.nodes:
            held = list(self.nodes.values())
            if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in held):
                raise GpuschedError(f"job {self.id!r}: nodes: give a whole number of GPUs >= 1 for each node")
            if sum(held) != self.gpus:
                raise GpuschedError(f"job {self.id!r}: its nodes have {sum(held)} GPUs, but its gang {self.gpus}")

    @property
    def waits(self) -> bool:
        """Whether the job has not started."""
        return math.isnan(self.start_s)


@dataclass(frozen=True)
class Snapshot:
    """Running and queued jobs at one moment; times are seconds since 1970-01-01, all local or all UTC.

    Parameters
    ----------
    time_s : the moment [s]
    running, queued : the jobs
    held : ids of jobs that wait for something that the snapshot does not tell, such as a user; they get no forecast
    node_names : names of the nodes in the order of the cluster; empty = the jobs number them, or do not tell them
    notes : what the reader assumed or left out
    reasons : id of a queued or held job -> why it waits, as Slurm says it; missing = not told
    closed : names of nodes that take no new jobs, as they are drained or down; jobs that run there go on
    untold : id of a running job that is left out, as its GPUs are not told -> its nodes, by commas; "" = not told
    version : layout of the file

    Raises
    ------
    GpuschedError : a job that occurs twice, a running job without start, a queued one with a start, a time after the
        snapshot, an unknown node, or another version
    """

    time_s: float
    running: tuple[PresentJob, ...] = ()
    queued: tuple[PresentJob, ...] = ()
    held: tuple[str, ...] = ()
    node_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)
    closed: tuple[str, ...] = ()
    untold: dict[str, str] = field(default_factory=dict)
    version: int = VERSION

    def __post_init__(self) -> None:
        """Check what concerns the time and several jobs."""
        if self.version != VERSION:
            raise GpuschedError(f"version is {self.version}: this release reads version {VERSION}")
        if not 0.0 <= self.time_s <= MAX_AMOUNT:
            raise GpuschedError(f"time is {self.time_s}: give the time of the snapshot")
        if not all(isinstance(text, str) for text in (*self.reasons.values(), *self.untold.values())):
            raise GpuschedError("reasons and untold: give a text for each job")
        known, seen = set(self.node_names), set()
        for job in (*self.running, *self.queued):
            if job.id in seen:
                raise GpuschedError(f"job {job.id!r} occurs twice: remove one of the two")
            seen.add(job.id)
            for name in ("arrival_s", "start_s"):
                if getattr(job, name) > self.time_s:
                    raise GpuschedError(
                        f"job {job.id!r}: {name.removesuffix('_s')} is after the snapshot ({iso(self.time_s)}): "
                        "correct one of the two times"
                    )
            for node in job.nodes:
                if node not in known and not node.isdecimal():
                    raise GpuschedError(f"job {job.id!r}: node {node!r} is not in node_names: add it, or number nodes")
        for listed, waits, remedy in ((self.running, False, "give its start"), (self.queued, True, "leave out start")):
            for job in listed:
                if job.waits is not waits:
                    raise GpuschedError(f"job {job.id!r}: it is listed as {'queued' if waits else 'running'}: {remedy}")

    def describe(self) -> str:
        """Return a summary in one line, then the notes."""
        busy, wanted = (sum(job.gpus for job in jobs) for jobs in (self.running, self.queued))
        first = (
            f"{iso(self.time_s)}: {len(self.running):,} jobs run on {busy:,} GPUs, {len(self.queued):,} wait for "
            f"{wanted:,}"
            + (f", {len(self.held):,} are held" if self.held else "")
            + (f", {len(self.closed):,} nodes take no new jobs" if self.closed else "")
        )
        warned = []
        if self.untold:
            shown = ", ".join(list(self.untold)[:5]) + (", ..." if len(self.untold) > 5 else "")
            warned.append(
                f"WARNING: the GPUs of {len(self.untold):,} running jobs are not told ({shown}): their nodes may look "
                "free; export with the column tres-alloc"
            )
        return "\n".join([first, *warned, *(f"note: {note}" for note in self.notes)])


def iso(time_s: float) -> str:
    """Return seconds since 1970-01-01 as ``YYYY-MM-DDTHH:MM:SS``."""
    return (EPOCH + timedelta(seconds=round(time_s))).isoformat()


def in_natural_order(names: Iterable[str]) -> list[str]:
    """Return different names of nodes, ordered as people number them: n2 before n10."""

    def key(name: str) -> list[tuple[int, str]]:
        return [(int(part) if i % 2 else 0, part) for i, part in enumerate(re.split(r"([0-9]+)", name))]

    return sorted(set(names), key=key)


def with_node_names(snapshot: Snapshot, names: Sequence[str]) -> Snapshot:
    """Return the snapshot with the names of all nodes of the cluster, in its order.

    Running jobs on other nodes do not tell them any more; a note counts these jobs. A job on one of these nodes whose
    GPUs are not told is an error, as its node would look free.
    """
    known = set(names)
    for job_id, nodes in snapshot.untold.items():
        for node in known.intersection(nodes.split(",")):
            raise GpuschedError(f"snapshot: job {job_id} runs on {node}, which has GPUs, and {UNTOLD}")
    if snapshot.untold:  # all others are on nodes without GPUs
        untold: dict[str, str] = {job_id: nodes for job_id, nodes in snapshot.untold.items() if not nodes}
        snapshot = dataclasses.replace(snapshot, untold=untold)
    lost = [job for job in snapshot.running if job.nodes and not known.issuperset(job.nodes)]
    if not any(job.nodes for job in snapshot.running):
        return snapshot
    gone = {job.id for job in lost}
    running = tuple(dataclasses.replace(job, nodes={}) if job.id in gone else job for job in snapshot.running)
    notes = snapshot.notes
    if lost:
        shown = ", ".join(in_natural_order(node for job in lost for node in job.nodes if node not in known)[:5])
        notes += (f"{len(lost):,} running jobs are on nodes that the cluster does not have, such as {shown}",)
    return dataclasses.replace(snapshot, running=running, node_names=tuple(names), notes=notes)


def refuse_later(place: Place, job: PresentJob, time_s: float) -> None:
    """Refuse a job that arrives or starts after the snapshot."""
    for name in ("arrival_s", "start_s"):
        if (value := getattr(job, name)) > time_s:
            what = f"{name.removesuffix('_s')} of job {job.id}"
            remedy = f"this is after the snapshot ({iso(time_s)}); correct one of the two times, or remove the row"
            place.refuse(what, iso(value), remedy, f"{name.removesuffix('_s')} after the snapshot")


def dated(jobs: Iterable[tuple[Place, PresentJob]], time_s: float) -> list[PresentJob]:
    """Return the jobs without malformed ones, those that arrive or start after the snapshot."""
    found = []
    for place, job in jobs:
        with skippable:
            refuse_later(place, job, time_s)
            found.append(job)
    return found


def snapshot_of_jobs(time_s: float, jobs: Sequence[PresentJob], held: Iterable[str], notes: Iterable[str]) -> Snapshot:
    """Return the snapshot of running and queued jobs, with the names of the nodes that they tell."""
    running, queued = (tuple(job for job in jobs if job.waits is waits) for waits in (False, True))
    names = in_natural_order(node for job in running for node in job.nodes)
    return Snapshot(time_s, running, queued, tuple(held), tuple(names), tuple(notes))


def skipped_notes() -> list[str]:
    """Return notes on the malformed rows that were skipped, and forget them."""
    skipped = skipped_rows()
    if skipped is None:
        return []
    notes = []
    for reason, places in skipped.dropped_at.items():
        where = ", ".join(map(str, places[:EXAMPLES].tolist())) + (", ..." if len(places) > EXAMPLES else "")
        notes.append(f"{len(places):,} rows are skipped: {reason} ({where})")
    skipped.forget()
    return notes


def read_snapshot(path: str | Path) -> Snapshot:
    """Read a snapshot from our JSON.

    The file has the fields of :class:`Snapshot` and :class:`PresentJob`, but ``time``, ``arrival`` and ``start``
    instead of ``time_s``, ``arrival_s`` and ``start_s``. Each of these is a text ``YYYY-MM-DDTHH:MM:SS`` or a number of
    seconds. Fields that are missing or null are unknown.
    """
    data = read_json(path, "snapshot", "docs/operators.md shows its layout", _refuse)
    if not isinstance(data, dict):
        raise ScenarioError(f"{path}: not a snapshot: expected a table with time, running and queued")
    data = _timed(Snapshot, data, str(path))
    for name in ("running", "queued"):
        if isinstance(data.get(name), list):
            rows = enumerate(data[name])
            data[name] = [
                _timed(PresentJob, row, f"{path}.{name}[{i}]") if isinstance(row, dict) else row for i, row in rows
            ]
    return build(Snapshot, data, str(path))


def write_snapshot(snapshot: Snapshot, path: str | Path) -> None:
    """Write a snapshot as JSON, atomically."""
    data = _plain(dataclasses.asdict(snapshot))
    data |= {name: [_plain(job) for job in data.get(name, ())] for name in ("running", "queued")}
    write_whole(Path(path), json.dumps(data, indent=1, allow_nan=False) + "\n")


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """Rename times as in the file, and leave out what is unknown."""
    names = {attribute: name for name, attribute in TIMES.items()}
    return {
        names.get(name, name): value
        for name, value in data.items()
        if not (value in ("", {}, ()) or repr(value) in ("nan", "0"))
    }


def _timed(kind: type[Snapshot | PresentJob], data: dict[str, Any], where: str) -> dict[str, Any]:
    """Turn the times of one table into seconds, and leave out fields that are null."""
    names = {attribute: name for name, attribute in TIMES.items()}
    known = [names.get(item.name, item.name) for item in dataclasses.fields(kind)]
    found = {}
    for name, given in data.items():
        if name not in known:
            raise ScenarioError(f"{where}: unknown field {name!r}; known: {', '.join(sorted(known))}")
        value = given
        if value is None:
            continue
        if name in TIMES and isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
                value = (moment.replace(tzinfo=None) - EPOCH).total_seconds()
            except ValueError:
                raise ScenarioError(f"{where}.{name} is {value!r}: write YYYY-MM-DDTHH:MM:SS, or seconds") from None
            if moment.tzinfo is not None:
                raise ScenarioError(f"{where}.{name} is {data[name]!r}: leave out the zone; all times are of one zone")
        found[TIMES.get(name, name)] = value
    return found


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not JSON")
