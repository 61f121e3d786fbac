"""A comparison in numbers and in words."""

from __future__ import annotations

import csv
import io
import math
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.metrics import Interval
from gpusched_env.portable import arrays
from gpusched_env.problem.partitions import AskedTypes
from gpusched_env.support.files import visible
from gpusched_env.support.units import readable
from gpusched_env.twin.comparing import CURRENT, Comparison, Outcome, Setting, groups_of_setting
from gpusched_env.twin.grading import grade_of
from gpusched_env.twin.model import ignored_by

__all__ = ["sentences"]

HEADINGS: Final = (
    "setting", "policy", "jobs", "mean wait", "median", "90 %", "99 %", "wait / current", "mean JCT", "GPUs held",
    "GPU h held", "lost", "preemptions",
)  # fmt: skip
NOTABLE: Final = 0.05  # changes of a tenant's mean wait below this part count as none
LEFT_OUT: Final = "no pool has their partition and room for their gang"
DAY_S: Final = 86_400.0
LEAST_S: Final = 60.0  # as do changes of the mean wait below a minute


class Tenant(NamedTuple):
    """Mean waits of a tenant's jobs."""

    name: str
    jobs: int
    wait_s: float  # [s] under the reference
    other_s: float  # [s] under the outcome

    @property
    def verdict(self) -> int:
        """1 = it waits notably less than under the reference, -1 = notably more, 0 = neither."""
        change = self.other_s - self.wait_s
        if abs(change) < max(NOTABLE * self.wait_s, LEAST_S):
            return 0
        return 1 if change < 0 else -1


def tenants_of(found: Comparison, outcome: Outcome) -> list[Tenant]:
    """Return the mean waits of each tenant, most jobs first."""
    names, of_job, counts = np.unique(found.tenants(), return_inverse=True, return_counts=True)
    sums = [np.bincount(of_job, values, minlength=len(names)) for values in (found.reference.wait_s, outcome.wait_s)]
    rows = [
        Tenant(str(names[i]), int(counts[i]), sums[0][i] / counts[i], sums[1][i] / counts[i]) for i in range(len(names))
    ]
    return sorted(rows, key=lambda row: (-row.jobs, row.name))


def comparison_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return a table of all outcomes as texts, with its header."""
    rows = [HEADINGS, *(_row(found, outcome) for outcome in found.rows)]
    if left_out := found.settings[0].left_out:
        rows.append(("", f"left out: {LEFT_OUT}", f"{left_out:,}", *["-"] * (len(HEADINGS) - 3)))
    return rows


def _row(found: Comparison, outcome: Outcome) -> tuple[str, ...]:
    wait = outcome.wait_s
    lost = 1 - outcome.useful_gpu_hours / outcome.gpu_hours if outcome.gpu_hours else 0.0
    untold = math.isnan(outcome.preemptions)  # a log does not tell them
    return (
        outcome.setting, outcome.policy, f"{len(wait):,}", readable(arrays.mean(wait)),
        *(readable(float(np.quantile(wait, part))) for part in (0.5, 0.9, 0.99)),
        written(found.ratio(outcome)), readable(arrays.mean(outcome.jct_s)), f"{outcome.busy:.1%}",
        f"{outcome.gpu_hours:,.0f}", *(("-", "-") if untold else (f"{lost:.2%}", f"{outcome.preemptions:,}")),
    )  # fmt: skip


def written(ratio: Interval | None) -> str:
    """Write a ratio with its interval."""
    if ratio is None:
        return "-"
    return f"{ratio.mean:.2f}" + (f" [{ratio.low:.2f}, {ratio.high:.2f}]" if math.isfinite(ratio.low) else "")


def sentences(found: Comparison) -> list[str]:
    """Return the summary in words: today, then what each change does to the waits, and who wins and loses."""
    told = []
    if found.settings[0].left_out:
        told.append(f"{found.settings[0].left_out:,} jobs of the log are left out: {LEFT_OUT}.")
    for outcome, where in ((found.recorded, "Today, as recorded"), (found.reference, "Today, in the twin")):
        if outcome is not None:
            told.append(
                f"{where}: a job waits {readable(arrays.mean(outcome.wait_s))} on average; half of the jobs wait at "
                f"most {readable(float(np.median(outcome.wait_s)))}, and one in ten longer than "
                f"{readable(float(np.quantile(outcome.wait_s, 0.9)))}. {outcome.busy:.0%} of the GPU time is used."
            )
    told += [_sentence(found, outcome) for outcome in found.outcomes[1:]]
    played = dict.fromkeys(outcome.policy for outcome in found.outcomes if outcome.policy != CURRENT)
    if knowing := [spec for spec in played if make_scheduler(spec).clairvoyant]:
        told.append(
            f"Only in a simulation: {', '.join(knowing)} reads the run times that jobs turn out to have. No cluster "
            "can play it; it shows how much there is to gain."
        )
    weeks = len(np.unique(found.weeks()))
    if weeks < 2:
        arrival_s = found.settings[0].workload.jobs["arrival_s"]
        days = float(arrival_s.max() - arrival_s.min()) / DAY_S
        told.append(f"Intervals need two weeks of arrivals, and the log has {days:.1f} days: there are none.")
    else:
        told.append(
            f"Intervals are 95 % intervals by bootstrap over {weeks} weeks of arrival"
            + ("; so few weeks make them rough." if weeks < 8 else ".")
        )
    return told


def assumptions(found: Comparison) -> list[str]:
    """Return what is assumed of GPU types, by policies that preempt and in a changed setting, in sentences."""
    lacks = (line for one in found.settings for line in ignored_by(one.twin.problems(one.workload)))
    told = [f"{line}." for line in dict.fromkeys(lacks)]
    today = found.settings[0]
    if today.log not in ("", today.twin.log) and not today.twin.gpu_speeds:
        told.append("Jobs run as long as on machines of the other log. If yours are faster, add --speed TYPE=FACTOR.")
    if any(one.preemptions for one in found.outcomes):
        told.append(
            "Some of these policies preempt jobs, which then continue from a checkpoint (30 s to write, 30 s to "
            "restore). Their numbers hold only if the jobs write checkpoints."
        )
    if len(found.settings) < 2:
        return told
    changed = found.settings[1]
    gpus = [setting.twin.gpus for setting in (changed, found.settings[0])]
    if gpus[0] != gpus[1]:
        told.append(f'The setting "{changed.name}" has {gpus[0]:,} GPUs instead of {gpus[1]:,}.')
    unused = unused_types(found, changed)
    told += [f"No job may use GPUs of type {visible(name)}: all ask for other types." for name in unused]
    for name in new_types(found, changed):
        if name in unused:
            continue
        speed = changed.twin.gpu_speeds.get(name, 1.0)
        begin = f"GPUs of type {visible(name)} run every job"
        told.append(
            f"{begin} {speed:g} times as fast as the machines of the log."
            if speed != 1
            else f"{begin} as fast as those of the log: no gain of their own is counted. If you know how much faster "
            f"they are, add --speed {visible(name)}=FACTOR."
        )
    return told


def new_types(found: Comparison, changed: Setting) -> list[str]:
    """Return the GPU types that a setting has and today's cluster has not."""
    there, today = (
        {group.gpu_type for pool in one.twin.pools for group in pool.groups} for one in (changed, found.settings[0])
    )
    return sorted(there - today)


def unused_types(found: Comparison, changed: Setting) -> list[str]:
    """Return the new GPU types of a setting that no job may use, as all jobs of their pools ask for others."""
    able = set[str]()
    for problem in changed.twin.problems(changed.workload):
        cluster = problem.pool.cluster
        kinds = np.unique(
            cluster.nodes["gpu_type"][AskedTypes.of(problem.instance.workload, cluster).nodes.any(axis=0)]
        )
        able |= {cluster.gpu_types[kind] for kind in kinds.tolist()}
    return [name for name in new_types(found, changed) if name not in able]


def _sentence(found: Comparison, outcome: Outcome) -> str:
    ratio = found.ratio(outcome)
    rows = tenants_of(found, outcome)
    better, worse = (sum(row.verdict == sign for row in rows) for sign in (1, -1))
    begin = f"Policy {outcome.policy}, {outcome.setting}: "
    if ratio is None:
        return f"{begin}the mean wait is {readable(arrays.mean(outcome.wait_s))}; today no job waits."
    change = abs(1 - ratio.mean)
    amount = f"{change:.0%}" if ratio.mean < 2 else f"{ratio.mean:.1f} times"
    word = (
        "unchanged"
        if change < 0.005
        else f"{amount} shorter"
        if ratio.mean < 1
        else f"{amount} longer"
        if ratio.mean < 2
        else f"{amount} as long"
    )
    sure = ""
    if math.isfinite(ratio.low) and change >= 0.005:
        certain = ratio.high < 1 or ratio.low > 1
        sure = "" if certain else " (the interval includes no change)"
    if word == "unchanged" and (unused := unused_types(found, found.setting(outcome.setting))):
        sure = f": no job may use GPUs of type {visible(', '.join(unused))}"
    tail = f" {better or 'None'} of {len(rows)} tenants wait less, {worse or 'none'} longer." if len(rows) > 1 else ""
    preempted = f" It preempts {outcome.preemptions:,} times." if outcome.preemptions else ""
    return f"{begin}waits are {word} on average{sure}.{tail}{_worst(found, outcome)}{preempted}"


def _worst(found: Comparison, outcome: Outcome) -> str:
    """Tell which partition and size waits longer by the most, in parts of its wait today; "" = none does notably."""
    groups = groups_of_setting(found.settings[0])
    losers = []
    for partition, size, rows in groups:
        before, after = (arrays.mean(one.wait_s[rows]) for one in (found.reference, outcome))
        if after - before >= max(NOTABLE * before, LEAST_S):
            losers.append((after / before if before > 0 else math.inf, partition, size, int(rows.sum()), before, after))
    if not losers:
        return ""
    ratio, partition, size, jobs, before, after = max(losers)
    where = f"partition {visible(partition)}, {size} GPUs" if partition else f"{size} GPUs"
    change = f"{ratio - 1:+,.0%}" if math.isfinite(ratio) else "they did not wait"
    return (
        f" {len(losers)} of {len(groups)} groups by partition and size wait longer, most of all {where} "
        f"({jobs:,} jobs): {readable(after)} instead of {readable(before)} ({change})."
    )


def comparison_csv(found: Comparison) -> str:
    """Return all numbers as a CSV: for each outcome a line for all jobs, each partition and size, and each tenant.

    Columns: setting, policy, kind (all, group, tenant), partition, gpus, tenant, jobs, mean_wait_s, median_wait_s,
    p90_wait_s, p99_wait_s, ratio, ratio_low, ratio_high (mean wait / that of the twin's policy today), mean_jct_s,
    and for all jobs gpu_hours, useful_gpu_hours, held (part of the GPU time until the last arrival), preemptions.
    The policy ``recorded`` is what the log tells, with empty cells for all else; a line of the kind ``left_out`` counts
    the jobs that were not played.
    The kind ``twin`` has the grade of the twin as its policy.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow((
        "setting", "policy", "kind", "partition", "gpus", "tenant", "jobs", "mean_wait_s", "median_wait_s",
        "p90_wait_s", "p99_wait_s", "ratio", "ratio_low", "ratio_high", "mean_jct_s", "gpu_hours", "useful_gpu_hours",
        "held", "preemptions",
    ))  # fmt: skip
    everyone = np.ones(len(found.reference.wait_s), bool)
    leaves = found.tenants()
    today = found.settings[0]
    groups = groups_of_setting(today)
    writer.writerow(["", grade_of(today.twin).word, "twin", *[""] * 16])
    writer.writerow(["", "", "left_out", "", "", "", today.left_out, *[""] * 12])
    for outcome in found.rows:
        totals = (outcome.gpu_hours, outcome.useful_gpu_hours, outcome.busy, outcome.preemptions)
        writer.writerow(_line(found, outcome, ("all", "", "", ""), everyone) + [_number(value) for value in totals])
        for partition, size, rows in groups:
            writer.writerow([*_line(found, outcome, ("group", partition, size, ""), rows), "", "", "", ""])
        for name in np.unique(leaves).tolist():
            writer.writerow([*_line(found, outcome, ("tenant", "", "", name), leaves == name), "", "", "", ""])
    return stream.getvalue()


def _line(found: Comparison, outcome: Outcome, names: tuple[str, ...], rows: np.ndarray) -> list[str]:
    wait = outcome.wait_s[rows]
    ratio = found.ratio(outcome, rows)
    ratios = ("", "", "") if ratio is None else [_number(value) for value in (ratio.mean, ratio.low, ratio.high)]
    times = (arrays.mean(wait), *(float(np.quantile(wait, part)) for part in (0.5, 0.9, 0.99)))
    texts = [_cell(name) for name in names]
    return [
        outcome.setting, outcome.policy, *texts, str(len(wait)), *(_number(value) for value in times), *ratios,
        _number(arrays.mean(outcome.jct_s[rows])),
    ]  # fmt: skip


def _cell(text: str) -> str:
    """Write a name of the log so that a spreadsheet takes it for a text, not for a formula."""
    shown = visible(text)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@") else shown


def _number(value: float) -> str:
    return "" if isinstance(value, float) and math.isnan(value) else f"{value:.6g}"
