"""Standard Workload Format of the Parallel Workloads Archive (Chapin et al., JSSPP 1999)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable
from gpusched_env.traces.parsing.columns import JobColumns
from gpusched_env.traces.parsing.dependencies import with_dependencies
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import word_rows

FIELDS: Final = 18  # some logs have more fields; the further ones are not read
# Status of a line that describes one of several runs of a job; another line summarises such a job
PARTIAL: Final = frozenset({"2", "3", "4"})
FEEDBACK: Final = {"preceding": "q", "think_s": "d"}  # fields 17 and 18
STATUS: Final = {"-1": "unknown", "0": "failed", "1": "completed", "5": "cancelled"}


def read_swf(path: Path) -> tuple[Workload, ReadReport]:
    """Read a log with 18 fields per line; lines that begin with ``;`` are skipped, and -1 means unknown.

    A processor counts as a GPU. The gang is the number of allocated processors, because the run time was measured on
    them. If this number is unknown, the gang is the number of requested processors. The requested time becomes
    ``estimate_s`` [s]. The job id is the row number from 0. Attributes: original_id, user, name (the number of the
    executable), queue, status. A job with a preceding job is held until that job has ended, and then for the think
    time. ``UnixStartTime`` and ``TimeZone`` of the header tell the origin, and how several files follow each other.
    """
    report, heads = ReadReport("swf", str(path)), dict[str, str]()
    file, first_s, begin_s = "", math.nan, math.nan
    jobs = JobColumns(report, "original_id", "user", "name", "queue", "status", numbers=FEEDBACK)
    for place, words in word_rows(path, FIELDS, b";", heads):
        if place.path != file:
            file, begin_s = place.path, _begin_s(place.path, heads)
            first_s = begin_s if math.isnan(first_s) else first_s
        with skippable:
            submitted, running = _known(place, "submit time", words[1]), _known(place, "run time", words[3])
            allocated = _processors(place, "allocated processors", words[4])
            requested = _processors(place, "requested processors", words[7])
            estimate = _known(place, "requested time", words[8]) or math.nan
            status = words[10]
            if status in PARTIAL:
                jobs.drop(place, "one of several runs of a job (status 2 to 4); the job's summary line is used")
                continue
            if status not in STATUS:
                place.refuse("status", status, "expected a whole number from -1 to 5; correct or remove the row")
            jobs.refuse_duplicate(place, "job number", words[0])
            if submitted is None:
                jobs.drop(place, "no submission time")
            elif running is None:
                jobs.drop(place, "run time unknown")
            elif not (allocated or requested):
                jobs.drop(place, "number of processors unknown")
            else:
                submitted += 0.0 if math.isnan(begin_s) else begin_s - first_s
                if running and allocated and requested and allocated != requested:
                    jobs.note(place, "jobs whose allocated and requested processors differ; the allocated are used")
                if running > estimate:
                    jobs.note(place, "jobs that ran longer than the time they requested; both times are kept")
                labels = words[0], words[11], words[13], words[14], STATUS[status]
                before = -1 if words[16] == "-1" else place.whole("preceding job", words[16], "jobs")
                think_s = (_known(place, "think time", words[17]) or 0.0) if before >= 0 else 0.0
                jobs.add(
                    place, submitted, allocated or requested, running, *labels,
                    estimate_s=estimate, preceding=before, think_s=think_s,
                )  # fmt: skip
    return _with_feedback(*jobs.workload("swf", dated=False, begin_s=first_s), jobs.places)


def _begin_s(path: str, heads: Mapping[str, str]) -> float:
    """Return the local time of time 0 in seconds since 1970, as the header tells it; NaN = not told."""
    text, zone = heads.get("unixstarttime", ""), heads.get("timezone", "")
    if not text or text.startswith("-"):
        return math.nan
    begin_s = Place(path, 1).seconds("UnixStartTime", text)
    return begin_s + (float(zone) if zone.lstrip("-").isdecimal() else 0.0)


def _with_feedback(workload: Workload, report: ReadReport, places: Sequence[int]) -> tuple[Workload, ReadReport]:
    """Turn the preceding jobs and think times into dependencies."""
    attributes = dict(workload.attributes)
    before, think_s = (attributes.pop(name) for name in FEEDBACK)
    workload = workload.unchecked_replace(attributes=attributes)
    if (before < 0).all():
        return workload, report
    texts = [
        "" if job < 0 else f"afterany:{job}+{seconds:.15g}s"
        for job, seconds in zip(before.tolist(), think_s.tolist(), strict=True)
    ]
    return with_dependencies(workload, report, texts, attributes["original_id"].tolist(), places), report


def _known(place: Place, field: str, word: str) -> float | None:
    """Return a time [s]; None for -1."""
    return None if word == "-1" else place.seconds(field, word)


def _processors(place: Place, field: str, word: str) -> int:
    """Return the number of processors; 0 if it is unknown."""
    return 0 if word == "-1" else place.gpus(field, word)
