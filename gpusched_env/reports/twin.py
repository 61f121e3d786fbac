"""The report of ``gpusched twin compare`` in one HTML file: a summary in words, tables, curves and schedules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.portable import arrays
from gpusched_env.reports.curves import BINS, distribution, over_time
from gpusched_env.reports.pages import need_libraries, write_page
from gpusched_env.reports.report import SCRIPTS
from gpusched_env.reports.run_data import run_data
from gpusched_env.support.files import visible
from gpusched_env.support.tables import Cell, Heading, Row, Table
from gpusched_env.support.units import readable, three_digits, unit_for
from gpusched_env.twin.comparing import CURRENT, RECORDED, groups_of_setting, play_pools
from gpusched_env.twin.grading import grade_of
from gpusched_env.twin.summary import LEFT_OUT, assumptions, sentences, tenants_of

if TYPE_CHECKING:
    from gpusched_env.twin.comparing import Comparison, Outcome

DAY_S: Final = 86_400.0
MOST_TENANTS: Final = 20  # tenants with the most jobs that are shown
SMALL_PRINT: Final = "small print: change against the current policy today"


def write_twin_report(found: Comparison, path: str | Path, made: str = "") -> None:
    """Write a self-contained page on a comparison, atomically; names are those of the log as it was read.

    The viewer shows the twin's policy and the best other policy, in the pool with the most jobs. ``made`` : when and
    how the page is made, in words.
    """
    need_libraries("a report")

    best = min(found.outcomes[1:], key=lambda one: arrays.mean(one.wait_s), default=None)
    shown = [found.reference, *([best] if best is not None else [])]
    runs = []
    for outcome in shown:
        problem, log = max(
            play_pools(found.setting(outcome.setting), outcome.policy), key=lambda played: len(played[0].rows)
        )
        label = _label(outcome)
        hosts = () if found.names is not None else problem.pool.node_names  # pseudonyms of hosts there are none
        runs.append((label, run_data(problem.instance, log, label, hosts), over_time(problem.instance, log)))
    lines = [
        {"label": label, **distribution(outcome.jct_s), **curves}
        for outcome, (label, _, curves) in zip(shown, runs, strict=True)
    ]
    pool = max(found.settings[0].twin.problems(found.settings[0].workload), key=lambda one: len(one.rows)).pool.name
    twin = found.settings[0].twin
    write_page(
        path,
        "twin.html",
        SCRIPTS,
        title="What would change on this cluster?",
        subtitle=f"{len(found.settings[0].workload):,} jobs, {twin.gpus:,} GPUs",
        grade=str(grade_of(twin)),
        origin=origin_of(found, made),
        sentences=sentences(found),
        trust=trust(found),
        overview=overview(found),
        groups=[by_group(found, setting.name) for setting in found.settings],
        tenants=[by_tenant(found, setting.name) for setting in found.settings],
        hours=gpu_hours(found),
        several=len(twin.pools) > 1,
        pool=visible(pool),
        bins=BINS,
        changes=assumptions(found),
        runs=[{"key": str(number), "label": label, "baseline": False} for number, (label, _, _) in enumerate(runs)],
        data={"lines": lines, "runs": [data for _, data, _ in runs]},
    )


def _label(outcome: Outcome) -> str:
    return f"{outcome.policy}, {outcome.setting}"


def origin_of(found: Comparison, made: str) -> list[str]:
    """Return in sentences from which jobs, dates and policy the numbers come, and when and how the page was made."""
    today = found.settings[0]
    times_s = [float(edge) for edge in (today.workload.jobs["arrival_s"].min(), today.workload.jobs["arrival_s"].max())]
    days = f"{(times_s[1] - times_s[0]) / DAY_S:,.1f} days"
    kind, _, place = today.log.rpartition(":")
    named = f"Log {visible(':'.join(filter(None, (kind, Path(place).name))))}: " if today.log else ""

    def at(time_s: float) -> str:
        return str(np.datetime64(today.origin, "m") + np.timedelta64(int(time_s // 60), "m")).replace("T", " ")

    if today.origin:
        told = f"{named}jobs arrive from {at(times_s[0])} to {at(times_s[1])} ({days})"
        if today.log == today.twin.log and today.twin.split_s:
            told += f". The twin was fitted to what was before {at(today.twin.split_s)}"
    else:
        told = f"{named}jobs arrive for {days}; the log tells no dates"
    lines = [
        f"{told}.",
        f'"{RECORDED}" is what the log tells. "{CURRENT}" is the policy fitted to it: {today.twin.scheduler}.',
        "GPU time counts from the first to the last arrival; it is used while jobs hold it.",
    ]
    return [*lines, f"Made on {made}"] if made else lines


def trust(found: Comparison) -> list[str]:
    """Return how well the twin agrees with the log, in sentences."""
    twin = found.settings[0].twin
    if not twin.score.groups or not twin.score.overall.jobs:
        return ["The twin has no score: it was not compared with a part of the log that it had not seen."]
    row = twin.score.overall
    seen = "had not seen" if twin.score.unseen else "had seen"
    told = [
        (
            f"On {row.jobs:,} jobs that the fit {seen}, the mean wait is {readable(row.recorded_mean_s)} in the log and"
            f" {readable(row.predicted_mean_s)} in the twin; the rank correlation of the waits is "
            f"{row.rank_correlation:.2f}, half of the jobs are at most {readable(row.error_median_s)} off, and nine in "
            f"ten at most {readable(row.error_90_s)}."
        )
    ]
    for one in twin.remainders:
        jobs = f", {one.jobs:,} jobs" if one.jobs else ""
        told.append(f"{one.hours:,.1f} {one.unit}{jobs}: {one.what}.")
    told += [f"Of the fit: {note}." for note in twin.notes]
    fails = any(pool.reservations for pool in twin.pools)
    faults = "nodes fail as they did in the log" if fails else "nothing fails"
    told.append(f"The twin assumes that run times do not depend on the machines, and that {faults}.")
    return told


def overview(found: Comparison) -> Table:
    """Return the table of all outcomes."""
    columns = [
        Heading("policy", text=True), Heading("setting", text=True), Heading("mean wait"), Heading("median wait"),
        Heading("90 % wait at most"), Heading("99 % wait at most"),
        Heading("mean wait / today", title="95 % interval by bootstrap over weeks of arrival"),
        Heading("mean completion"), Heading("tenants who wait less", better="max"), Heading("tenants who wait longer"),
    ]  # fmt: skip

    rows = []
    for outcome in found.rows:
        ratio = found.ratio(outcome)
        tenants = tenants_of(found, outcome)
        parts = [float(np.quantile(outcome.wait_s, part)) for part in (0.5, 0.9, 0.99)]
        detail = f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio is not None and ratio.low < ratio.high else ""
        rows.append(
            Row([
                Cell(outcome.policy, badges=["today"] if outcome is found.reference else []), Cell(outcome.setting),
                *(Cell(readable(value), value) for value in (arrays.mean(outcome.wait_s), *parts)),
                Cell("-") if ratio is None else Cell(f"{ratio.mean:.2f}", ratio.mean, detail=detail),
                Cell(readable(mean := arrays.mean(outcome.jct_s)), mean),
                *(Cell(str(count := sum(row.verdict == sign for row in tenants)), count) for sign in (1, -1)),
            ])
        )  # fmt: skip
    if left_out := found.settings[0].left_out:
        text = f"{left_out:,} jobs are left out: {LEFT_OUT}"
        rows.append(Row([Cell(text), *[Cell("-")] * (len(columns) - 1)]))
    return Table("all policies and settings", columns, rows)


def by_group(found: Comparison, setting: str) -> Table:
    """Return mean waits by partition and size, one column for each policy."""
    groups = groups_of_setting(found.settings[0])
    several = len({partition for partition, _, _ in groups}) > 1
    outcomes = _columns(found, setting)
    rows = []
    unit = unit_for(arrays.mean(one.wait_s[members]) for one in outcomes for _, _, members in groups)
    for partition, size, members in groups:
        name = f"{visible(partition)}, {size}" if several else size
        cells = [Cell(f"{name} GPUs" if name != "1" else "1 GPU"), Cell(f"{members.sum():,}", float(members.sum()))]
        cells += [_wait(outcome.wait_s[members], found.reference.wait_s[members], unit) for outcome in outcomes]
        rows.append(Row(cells))
    what = "partition and size" if several else "size"
    columns = [Heading(what, text=True), Heading("jobs", better="max"), *_headings(outcomes, found)]
    return Table(f"mean wait [{unit.sign}] by {what}, {setting}; {SMALL_PRINT}", columns, rows)


def by_tenant(found: Comparison, setting: str) -> Table:
    """Return mean waits of the tenants with the most jobs, one column for each policy."""
    outcomes = _columns(found, setting)
    tenants = {id(outcome): tenants_of(found, outcome) for outcome in outcomes}
    first = tenants[id(outcomes[0])]
    unit = unit_for(
        value for rows in tenants.values() for row in rows[:MOST_TENANTS] for value in (row.wait_s, row.other_s)
    )
    rows = []
    for number, tenant in enumerate(first[:MOST_TENANTS]):
        cells = [Cell(visible(tenant.name)), Cell(f"{tenant.jobs:,}", float(tenant.jobs))]
        for outcome in outcomes:
            row = tenants[id(outcome)][number]
            same = outcome in (found.reference, found.recorded)
            cells.append(_change(row.other_s, row.wait_s, unit, 0 if same else row.verdict))
        rows.append(Row(cells))
    more = f"; {len(first) - MOST_TENANTS} with fewer jobs are left out" if len(first) > MOST_TENANTS else ""
    columns = [Heading("tenant", text=True), Heading("jobs", better="max"), *_headings(outcomes, found)]
    return Table(f"mean wait [{unit.sign}] of tenants, {setting}; {SMALL_PRINT}{more}", columns, rows)


def gpu_hours(found: Comparison) -> Table:
    """Return the GPU hours of each outcome."""
    columns = [
        Heading("policy", text=True), Heading("setting", text=True), Heading("GPU h of jobs"),
        Heading("GPU h lost to preemption", title="held while jobs were checkpointed or restored"),
        Heading("GPU h available", title="GPUs x time from the first to the last arrival"),
        Heading("used of these", title="part of the available GPU hours in which GPUs were held"),
        Heading("preemptions"),
    ]  # fmt: skip
    rows = [
        Row([
            Cell(one.policy), Cell(one.setting), Cell(f"{one.useful_gpu_hours:,.0f}", one.useful_gpu_hours),
            Cell(f"{one.gpu_hours - one.useful_gpu_hours:,.0f}", one.gpu_hours - one.useful_gpu_hours),
            Cell(f"{one.capacity_gpu_hours:,.0f}", one.capacity_gpu_hours),
            Cell(f"{one.busy:.1%}", one.busy, bar=min(one.busy, 1.0)),
            Cell(f"{one.preemptions:,}", float(one.preemptions)),
        ])
        for one in found.outcomes
    ]  # fmt: skip
    return Table("GPU hours", columns, rows)


def _columns(found: Comparison, setting: str) -> list[Outcome]:
    """Return the outcomes of a setting; in every setting, what the log tells and the reference come first."""
    own = [one for one in found.outcomes if one.setting == setting and one is not found.reference]
    return [*([] if found.recorded is None else [found.recorded]), found.reference, *own]


def _headings(outcomes: list[Outcome], found: Comparison) -> list[Heading]:
    return [Heading(f"{one.policy} (today)" if one is found.reference else one.policy) for one in outcomes]


def _wait(own: np.ndarray, reference: np.ndarray, unit: Any) -> Cell:
    value, before = arrays.mean(own), arrays.mean(reference)
    return _change(value, before, unit, 0 if own is reference or value == before else (1 if value < before else -1))


def _change(value: float, before: float, unit: Any, verdict: int) -> Cell:
    """Return a cell with a mean wait and its change."""
    if value == before:
        return Cell(three_digits(value / unit.seconds), value)
    detail = f"{100 * (value / before - 1):+,.0f} %" if before > 0 else "today 0"
    mark = {1: "better", -1: "worse", 0: ""}[verdict]
    return Cell(three_digits(value / unit.seconds), value, detail=detail, mark=mark)
