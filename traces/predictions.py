"""Predicted run times from a second file, joined to the jobs of a log."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.parsing.bad_rows import skippable, skipped_rows
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.roles import UNIT_WORDS, UNITS_S, Found, guess_role
from gpusched_env.traces.parsing.streams import csv_header, csv_rows


def join_estimates(workload: Workload, report: ReadReport, path: Path) -> Workload:
    """Set ``estimate_s`` [s] of every job to the predicted run time that a CSV gives for its id.

    The CSV has a column of ids (``job_id``) and a column of run times. The column of run times either has a common name
    such as ``estimate_s`` or ``predicted_duration_h``, or is the only other column. For example, the predictions of
    Helios have the columns ``job_id,priority``, where ``priority`` is in seconds. Ids are those of the log (the
    attribute ``original_id``), or row numbers from 0 if the log has no ids. Jobs without a prediction keep the estimate
    of the log. The report names the column of run times and the number of jobs without a prediction.
    """
    id_column, claimed = _columns(path)
    predicted: dict[str, float] = {}
    lines: dict[str, int] = {}
    for place, (job, text) in csv_rows(path, (id_column, claimed.column)):
        with skippable:
            if job in lines:
                place.refuse(id_column, job, f"this id occurs twice, first in line {lines[job]}; remove one of the two")
            predicted[job] = place.amount(claimed.column, text, UNIT_WORDS[claimed.unit], UNITS_S[claimed.unit])
            lines[job] = place.number
    ids = np.asarray(workload.attributes.get("original_id", workload.jobs["id"])).astype(str).tolist()
    jobs = workload.jobs.copy()
    found = np.array([predicted.get(job, np.nan) for job in ids])
    told = ~np.isnan(found)
    if not told.any():
        there = next(iter(predicted), None)
        shown = f"such as {there!r} there and {ids[0]!r} here"
        raise TraceError(f"{path}: none of its ids occurs in {report.path}, {shown}: check both")
    jobs["estimate_s"][told] = found[told]
    report.notes[f"estimates are {claimed.column} of {path.name} [{UNIT_WORDS[claimed.unit]}]"] = int(told.sum())
    if lacking := int((~told).sum()):
        report.notes[f"jobs without an estimate in {path.name}"] = lacking
    if (skipped := skipped_rows()) is not None and skipped.rows:
        report.notes[f"malformed rows of {path.name}, skipped"] = skipped.rows
    return dataclasses.replace(workload, jobs=jobs)


def _columns(path: Path) -> tuple[str, Found]:
    """Return the column of ids, and the column of run times with its unit."""
    header = csv_header(path)
    ids, claims = guess_role("id", header), guess_role("estimate", header)
    if len(ids) == 1 and not claims and len(header) == 2:
        name = next(name for name in header if name != ids[0].column)
        claims = [Found(name, "s", guessed=True)]
    if len(ids) != 1 or len(claims) != 1:
        raise TraceError(
            f"{path}, line 1: expected the columns job_id and estimate_s, or job_id and one other; found "
            f"{', '.join(header)[:200]}"
        )
    return ids[0].column, claims[0]
