"""Microsoft Philly (Jeon et al., USENIX ATC 2019): the original log, a JSON list of jobs with their attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.formats.job_lists import read_job_list
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns, since_epoch
from gpusched_env.traces.parsing.containers import first_bytes
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.json_records import json_records
from gpusched_env.traces.parsing.report import ReadReport


def read_philly(path: Path) -> tuple[Workload, ReadReport]:
    """Read the JSON log or a processed CSV; a file that begins with ``[`` or ``{`` is read as JSON."""
    start = first_bytes(path).lstrip()
    return read_philly_json(path) if start[:1] in (b"[", b"{") else read_job_list(path, "philly-csv")


def read_philly_json(path: Path) -> tuple[Workload, ReadReport]:
    """Read the log record by record, so that memory holds only the columns that are kept.

    The job id is the record number from 0. Attributes: original_id, virtual_cluster, user, status.

    Notes
    -----
    An attempt is usable if its start and end are known and the end is not before the start. (Times are local, so the
    switch from summer time can put the end before the start.) The run time of a job is the sum over its usable
    attempts; the waits between attempts are left out. The gang is the largest GPU count of a usable attempt, because
    retries on fewer GPUs are rare and the user asked for the largest count.
    """
    report = ReadReport("philly-json", str(path), unit="record")
    jobs = JobColumns(report, "original_id", "virtual_cluster", "user", "status")
    for place, record in json_records(path):
        with skippable:
            original = _text(place, record, "jobid")
            jobs.refuse_duplicate(place, "jobid", original)
            labels = [original, *(_text(place, record, name) for name in ("vc", "user", "status"))]
            submitted = place.when_or_none("submitted_time", _get(place, record, "submitted_time", "job"))
            running, gpus, unusable = _attempts(place, record)
            if submitted is None:
                jobs.drop(place, "no submission time")
            elif running is None:
                jobs.drop(place, "no attempt with a start and an end")
            else:
                if unusable and gpus and running:
                    jobs.note(place, "jobs with an attempt that lacks a start or an end; the other attempts are used")
                jobs.add(place, since_epoch(submitted), gpus, running, *labels)
    return jobs.workload("philly", dated=True)


def _attempts(place: Place, record: dict[str, Any]) -> tuple[float | None, int, int]:
    """Return the run time [s] (None = no usable attempt), the largest GPU count and the number of unusable attempts."""
    running: float | None = None
    gpus = unusable = 0
    for attempt in _list(place, record, "attempts", "job"):
        start = place.when_or_none("start_time", _get(place, attempt, "start_time", "attempt"))
        end = place.when_or_none("end_time", _get(place, attempt, "end_time", "attempt"))
        used = sum(len(_list(place, host, "gpus", "detail")) for host in _list(place, attempt, "detail", "attempt"))
        if start is None or end is None or end < start:
            unusable += 1
            continue
        running = (running or 0.0) + (end - start).total_seconds()
        gpus = max(gpus, used)
    return running, gpus, unusable


def _get(place: Place, record: object, name: str, owner: str) -> Any:
    if not isinstance(record, dict):
        place.refuse(owner, record, f"expected a JSON object with the field {name!r}")
    if name not in record:
        place.refuse(name, sorted(record), f"the {owner} lacks this field; is this the original Philly layout?")
    return record[name]


def _list(place: Place, record: object, name: str, owner: str) -> list[Any]:
    value = _get(place, record, name, owner)
    if not isinstance(value, list):
        place.refuse(name, value, "expected a JSON list")
    return value


def _text(place: Place, record: object, name: str) -> str:
    value = _get(place, record, name, "job")
    if value is None:  # some jobs have no user
        return ""
    if not isinstance(value, str):
        place.refuse(name, value, "expected text")
    return value
