"""A run as the log of a cluster: the accounting table of Slurm, the Standard Workload Format, or a CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import job_times, segments
from gpusched_env.metrics.dependencies import cancelled_jobs
from gpusched_env.problem.dependencies import AFTER_ANY, BEGIN, DEPENDENCY, KINDS, SINGLETON
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.partitions import PARTITION
from gpusched_env.problem.workload import GPU_TYPES, MAX_NODES, MIN_NODES, Workload
from gpusched_env.support.files import write_whole

ORIGIN: Final = "2025-01-01T00:00:00"  # date of time 0 of jobs that do not come from a dated log
DECIMALS: Final = 6  # run times are summed over the runs of a job; decimals beyond these are rounding errors of the sum
ROUNDED: Final = "jobs have times that are not whole seconds, which this format rounds"
NODES_UNTOLD: Final = "jobs ask for a number of nodes, or a range of them, which this format cannot tell"
UNTOLD: Final = "jobs depend on others in a way that this format cannot tell"
UNFINISHED: Final = "jobs did not finish"
SWF_STATUS: Final = {"COMPLETED": 1, "CANCELLED": 5}
SACCT: Final = (
    "JobID|JobIDRaw|User|Account|Partition|QOS|Submit|Eligible|Start|End|Elapsed|Suspended|State|Timelimit|ReqTRES|"
    "AllocTRES|NNodes|NodeList"
)
LABELS: Final = ("model", "user", "queue", PARTITION, GPU_TYPES, "virtual_cluster", "priority")  # attributes in a CSV


@dataclass(frozen=True)
class Accounts:
    """What the accounting of a cluster knows of each job; arrays of length J, in the tie order of the jobs.

    NaN = it did not enter the queue, start or complete [s]; ``service_s`` : time in which it made progress; ``gangs`` :
    GPU ids of the last start; ``cancelled`` : because of a dependency.
    """

    instance: Instance
    arrival_s: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    service_s: np.ndarray
    gangs: list[np.ndarray]
    cancelled: np.ndarray

    @classmethod
    def of(cls, instance: Instance, log: EventLog) -> Accounts:
        """Compute the accounts of a run from its event log."""
        if instance.semantics.max_copies > 1:
            raise GpuschedError("export: jobs of this scenario may run as several copies, which no format can express")
        times = job_times(instance, log)
        gangs = [np.empty(0, np.int32)] * len(times)
        for job, event in segments(instance, log)[["job", "start_event"]].tolist():
            gangs[job] = log.gang(event)
        service = np.array([round(seconds, DECIMALS) for seconds in times["service_s"].tolist()])
        arrival_s = np.where(np.isfinite(times["arrival_s"]), times["arrival_s"], np.nan)
        cancelled = cancelled_jobs(instance, log)
        return cls(instance, arrival_s, times["first_start_s"], times["finish_s"], service, gangs, cancelled)

    @property
    def states(self) -> list[str]:
        """State of each job at the end of the run, in Slurm's words."""
        started, ended = ~np.isnan(self.start_s), ~np.isnan(self.end_s)
        waits = np.where(self.cancelled, "CANCELLED", "PENDING")
        return np.where(ended, "COMPLETED", np.where(started, "RUNNING", waits)).tolist()

    @property
    def submit_s(self) -> np.ndarray:
        """float64 [J] [s]: submission of each job."""
        submitted: np.ndarray = self.instance.workload.jobs["arrival_s"]
        return submitted

    @property
    def preceding(self) -> tuple[np.ndarray, np.ndarray, int]:
        """For each job, the row of the only job whose end it waits for (-1 = none), and the time after that [s].

        Also the number of jobs that depend on others in another way.
        """
        before, later_s = np.full(len(self.arrival_s), -1), np.zeros(len(self.arrival_s))
        if self.instance.holds is None:
            return before, later_s, 0
        edges = self.instance.holds.edges
        plain = (np.bincount(edges["after"], minlength=len(before))[edges["after"]] == 1) & (edges["kind"] == AFTER_ANY)
        chosen = edges[plain]
        before[chosen["after"]], later_s[chosen["after"]] = chosen["before"], chosen["delay_s"]
        return before, later_s, len(np.unique(edges["after"][~plain]))

    def queues(self, *names: str) -> list[str]:
        """Return the attribute as :meth:`attribute` does; of several partitions, the one in which a job ran last."""
        sets, rules = self.instance.node_sets, self.instance.partitions
        if sets is None or rules is None or not sets.choices.several or rules.by not in names:
            return self.attribute(*names)
        texts = self.attribute(rules.by)
        rows = np.flatnonzero([len(gang) > 0 for gang in self.gangs])
        gang = np.repeat(np.arange(len(rows)), [len(self.gangs[row]) for row in rows])
        node = self.instance.cluster.node_of_gpu[np.concatenate([*(self.gangs[row] for row in rows), np.empty(0, int)])]
        pairs = sets.choice_of(rows, gang, node)
        for row, partition in zip(rows.tolist(), sets.choices.partition[pairs].tolist(), strict=True):
            texts[row] = sets.partitions[partition].name
        return texts

    @property
    def node_counts(self) -> list[tuple[int, int]]:
        """Least and most nodes that each job asked for; 0 = any."""
        jobs = self.instance.workload
        if MAX_NODES not in jobs.attributes:
            return [(0, 0)] * len(jobs)
        least, most = (jobs.told(name).astype(np.int64).tolist() for name in (MIN_NODES, MAX_NODES))
        return list(zip(least, most, strict=True))

    def attribute(self, *names: str) -> list[str]:
        """Return the first of these attributes that the workload has, as texts; empty texts if it has none."""
        attributes = self.instance.workload.attributes
        found = next((attributes[name] for name in names if name in attributes), None)
        return [""] * len(self.arrival_s) if found is None else [str(value) for value in found.tolist()]


def export_run(instance: Instance, log: EventLog, form: str, path: Path, origin: str = ORIGIN) -> list[str]:
    """Write a run as the log of a cluster, one row for each job, and return remarks on what the file cannot tell.

    ``form`` is "sacct" (read as ``slurm:PATH``), "swf" or "csv"; ``origin`` is the local time of time 0, ISO 8601.
    """
    if form not in FORMATS:
        raise GpuschedError(f"export: {unknown_name('format', form, FORMATS)}")
    accounts = Accounts.of(instance, log)
    write_whole(path, "".join(f"{line}\n" for line in FORMATS[form](accounts, origin)))
    broken = (accounts.submit_s % 1 != 0) | (accounts.service_s % 1 != 0)
    counts = {ROUNDED: int(broken.sum()) if form != "csv" else 0, UNFINISHED: int(np.isnan(accounts.end_s).sum())}
    if form != "csv":
        counts[NODES_UNTOLD] = sum(
            most > 0 and (form == "swf" or least != most) for least, most in accounts.node_counts
        )
    if instance.holds is not None and form != "csv":
        counts[UNTOLD] = int(instance.holds.depends.sum()) if form == "sacct" else accounts.preceding[2]
    return [f"{count:,} of {len(broken):,} {remark}" for remark, count in counts.items() if count]


def _sacct(accounts: Accounts, origin: str) -> Iterator[str]:
    jobs = accounts.instance.workload.jobs
    begin = np.datetime64(origin, "s")
    stamps = [
        np.where(np.isnan(times), "Unknown", (begin + np.rint(np.nan_to_num(times)).astype("m8[s]")).astype(str))
        for times in (accounts.submit_s, accounts.arrival_s, accounts.start_s, accounts.end_s)
    ]
    elapsed = np.where(accounts.service_s > 0, np.maximum(np.rint(accounts.service_s), 1), 0).astype(np.int64)
    span = np.rint(accounts.end_s) - np.rint(accounts.start_s)
    suspended = np.maximum(np.nan_to_num(span - elapsed), 0).astype(np.int64)
    names = (("user",), ("account",), ("virtual_cluster", "queue", PARTITION), ("qos",))
    labels = [[_word(text) for text in accounts.queues(*several)] for several in names]
    asked = accounts.node_counts
    yield SACCT
    for i, state in enumerate(accounts.states):
        submit, eligible, start, end = (column[i] for column in stamps)
        limit = jobs["estimate_s"][i]
        amounts, count, nodes = placement_of(accounts.instance, accounts.gangs[i])
        cells = (
            *(str(i + 1), str(i + 1), *(column[i] for column in labels), submit, eligible, start, end),
            *(clock(int(elapsed[i])), clock(int(suspended[i])), state),
            "UNLIMITED" if np.isnan(limit) else clock(int(np.ceil(limit))),
            f"gres/gpu={jobs['gpus'][i]}" + (f",node={asked[i][0]}" if asked[i][0] else ""),
            *(amounts, str(count), nodes),
        )
        yield "|".join(cells)


def _swf(accounts: Accounts, origin: str) -> Iterator[str]:
    jobs = accounts.instance.workload.jobs
    numbers = [_numbered(accounts.attribute(*names)) for names in (("user",), ("queue", "virtual_cluster"))]
    yield "; Version: 2.2"
    yield f"; UnixStartTime: {np.datetime64(origin, 's').astype(np.int64)}"
    yield f"; MaxJobs: {len(jobs)}"
    yield f"; MaxProcs: {accounts.instance.cluster.gpus}"
    yield "; Note: a processor is a GPU; times are whole seconds"
    submit_s = accounts.submit_s if accounts.instance.holds is None else accounts.instance.holds.eligible_s
    before, later_s, _ = accounts.preceding
    for i, state in enumerate(accounts.states):
        done = state == "COMPLETED"
        run = max(round(accounts.service_s[i]), 1) if done else -1
        wait = -1 if np.isnan(accounts.start_s[i]) else round(accounts.start_s[i] - submit_s[i])
        limit = jobs["estimate_s"][i]
        gpus, requested = jobs["gpus"][i], -1 if np.isnan(limit) else int(np.ceil(limit))
        yield (
            f"{i + 1} {round(submit_s[i])} {wait} {run} {gpus} -1 -1 {gpus} {requested} -1 "
            f"{SWF_STATUS.get(state, -1)} {numbers[0][i]} -1 -1 {numbers[1][i]} -1 "
            f"{before[i] + 1 or -1} {round(later_s[i]) if before[i] >= 0 else -1}"
        )


def _csv(accounts: Accounts, origin: str) -> Iterator[str]:
    workload = accounts.instance.workload
    labels = [name for name in LABELS if name in workload.attributes]
    ids = workload.attributes.get("original_id", workload.jobs["id"]).tolist()
    columns = ("job_id", "arrival_s", "gpus", "duration_s", "estimate_s", "waited_s", "completion_s", "status")
    held = {} if accounts.instance.holds is None else {"earliest_start_s": BEGIN, "dependency": DEPENDENCY}
    held = {column: name for column, name in held.items() if name in workload.attributes}
    told_of = dict(zip(workload.jobs["id"].tolist(), ids, strict=True))
    singles = _singletons(workload) if DEPENDENCY in held.values() else {}
    counts = ["-".join(map(str, dict.fromkeys(both))) if any(both) else "" for both in accounts.node_counts]
    yield _comma((*columns, *(["nodes"] if any(counts) else []), *held, *labels))
    for i, state in enumerate(accounts.states):
        job = workload.jobs[i]
        times = (
            accounts.service_s[i] if state == "COMPLETED" else np.nan,
            job["estimate_s"],
            accounts.start_s[i] - accounts.arrival_s[i],
            accounts.end_s[i],
        )
        told = ["" if np.isnan(time) else repr(float(time)) for time in times]
        texts = {name: str(workload.attributes[name][i]) for name in held.values()}
        texts |= {DEPENDENCY: singles[i]} if i in singles else {}
        values = [counts[i]] if any(counts) else []
        values += [_renamed(text, told_of) for text in texts.values()]
        values += [str(workload.attributes[name][i]) for name in labels]
        yield _comma((str(ids[i]), repr(float(job["arrival_s"])), str(job["gpus"]), *told, state, *values))


FORMATS: Final[dict[str, Callable[[Accounts, str], Iterator[str]]]] = {"sacct": _sacct, "swf": _swf, "csv": _csv}


def _singletons(workload: Workload) -> dict[int, str]:
    """Return row -> dependency of the singletons, by the jobs before them: a CSV has no names of jobs."""
    found: dict[int, list[str]] = {
        row: [] for row, text in enumerate(workload.attributes[DEPENDENCY].tolist()) if SINGLETON in str(text)
    }
    for before, after, kind, delay_s in workload.edges.tolist() if found else ():
        if after in found:
            found[after].append(f"{KINDS[kind]}:{workload.jobs['id'][before]}+{delay_s:.15g}s")
    return {row: ",".join(items) for row, items in found.items()}


def _renamed(dependency: str, told_of: Mapping[int, Any]) -> str:
    """Replace the ids of the workload in a dependency; a number is returned as it is."""
    return re.sub(r":(\d+)", lambda found: f":{told_of[int(found[1])]}", dependency)


def clock(seconds: int) -> str:
    """Write a length of time as ``[D-]HH:MM:SS``."""
    days, rest = divmod(seconds, 86_400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def _word(text: str) -> str:
    """Replace what would end a cell or a line."""
    return re.sub(r"[|\s]", "_", text)


def _comma(cells: Sequence[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(cells)
    return stream.getvalue()


def _numbered(texts: Sequence[str]) -> list[int]:
    """Number the different texts from 1, in the order of their first row; -1 for an empty text."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(filter(None, texts)), 1)}
    return [numbers.get(text, -1) for text in texts]


def placement_of(instance: Instance, gang: np.ndarray) -> tuple[str, int, str]:
    """Return the trackable resources, the number of nodes and the list of nodes of a gang."""
    if not len(gang):
        return "", 0, "None assigned"
    cluster = instance.cluster
    nodes = cluster.node_of_gpu[gang]
    kinds, counts = np.unique(cluster.nodes["gpu_type"][nodes], return_counts=True)
    typed = [f"gres/gpu:{_word(cluster.gpu_types[kind])}={count}" for kind, count in zip(kinds, counts, strict=True)]
    used = np.unique(nodes)
    ranges = np.split(used, np.flatnonzero(np.diff(used) > 1) + 1)
    texts = [f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in ranges]
    return ",".join([f"gres/gpu={len(gang)}", *typed, f"node={len(used)}"]), len(used), f"n[{','.join(texts)}]"
