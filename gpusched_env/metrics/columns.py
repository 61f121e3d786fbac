"""All output columns with name, unit, formula and direction; docs/metrics.md is generated from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Column:
    """The definition of a number in a summary.

    Parameters
    ----------
    name : key in the summary, in JSON and in CSV
    unit : "s", "" (a pure number) or "share" (0 to 1)
    formula : definition in words
    better : "min" = lower values are better, "max" = higher values are better, "" = neither
    scope : "jobs" = computed over the jobs of the tracked window, "run" = computed over the whole run
    """

    name: str
    unit: str
    formula: str
    better: Literal["min", "max", ""]
    scope: Literal["jobs", "run"] = "jobs"


COLUMNS: Final = (
    Column("jobs", "", "number of jobs in the tracked window", ""),
    Column("finished", "", "number of jobs in W = jobs of the tracked window that finished", "max"),
    Column("mean_jct_s", "s", "mean over W of JCT = finish - arrival", "min"),
    Column("median_jct_s", "s", "median over W of JCT", "min"),
    Column("p90_jct_s", "s", "90th percentile over W of JCT (linear interpolation)", "min"),
    Column("p99_jct_s", "s", "99th percentile over W of JCT", "min"),
    Column("makespan_s", "s", "last finish - first arrival; NaN unless every job finished", "min", "run"),
    Column("mean_queueing_s", "s", "mean over W of queueing = total time in the system without GPUs", "min"),
    Column("p99_queueing_s", "s", "99th percentile over W of queueing", "min"),
    Column("mean_slowdown", "", "mean over W of JCT / d", "min"),
    Column(
        "utilisation",
        "share",
        "GPU-seconds held (a shared GPU counts once) / (GPUs x (end - first arrival))",
        "max",
        "run",
    ),
    Column("productive_share", "share", "sum of g x service / sum of GPU-seconds held", "max"),
    Column("communication_share", "share", "sum of g x exposed communication / sum of GPU-seconds held", "min"),
    Column("overhead_share", "share", "sum of g x overhead / sum of GPU-seconds held; = 1 - productive_share", "min"),
    Column("preemptions_per_job", "", "preemptions / jobs of the window that arrived", "min"),
    Column("rho_mean", "", "mean over W of finish-time fairness rho", "min"),
    Column("rho_max", "", "largest rho in W", "min"),
    Column("rho_fair_share", "share", "share of W with rho <= 1 (sharing incentive kept)", "max"),
    Column("mean_jobs_in_system", "", "time average of arrived, unfinished jobs, first arrival to end", "min", "run"),
)
# Columns of runs in which some job has a deadline; D = jobs of the tracked window that have one.
DEADLINE_COLUMNS: Final = (
    Column("deadlines_met", "share", "share of D that finished by the deadline; D = jobs with a deadline", "max"),
    Column("admitted_share", "share", "share of D that was not refused", ""),
    Column(
        "admitted_met", "share", "share of the jobs of D that were not refused that finished by the deadline", "max"
    ),
    Column("mean_tardiness_s", "s", "mean over the finished jobs of D of max(finish - deadline, 0)", "min"),
    Column("max_tardiness_s", "s", "largest max(finish - deadline, 0) of the finished jobs of D", "min"),
    Column("value_share", "share", "sum of value over the jobs of D with a met deadline / sum over D", "max"),
)
# Columns of runs in which jobs are killed at their time limits.
LIMIT_COLUMNS: Final = (Column("killed", "", "number of jobs of W that were killed at their time limits", "min"),)
# Columns of runs in which jobs may be held: earliest starts or dependencies.
HOLD_COLUMNS: Final = (
    Column("mean_held_s", "s", "mean over the jobs that arrived, and were not cancelled, of arrival - submission", ""),
    Column("cancelled", "", "number of jobs that were cancelled, because they depend on what did not happen", ""),
)
# Columns of entries of the leaderboard whose track has tenants.
TENANT_COLUMNS: Final = (
    Column("worst_tenant_jct_s", "s", "largest over the tenants of the mean JCT of a tenant's jobs", "min", "run"),
    Column("tenant_distance", "share", "distance of use from the max-min fair shares, in windows of 1 h", "min", "run"),
    Column("tenant_jain", "", "Jain's index of GPU time / entitlement over the tenants with jobs", "max", "run"),
    Column(
        "tenant_violation", "share", "GPU time that tenants held beyond their limits / GPU time of all", "min", "run"
    ),
)
ALL_COLUMNS: Final = (*COLUMNS, *DEADLINE_COLUMNS, *LIMIT_COLUMNS, *HOLD_COLUMNS, *TENANT_COLUMNS)
COLUMN_OF: Final = {column.name: column for column in ALL_COLUMNS}


def columns_markdown() -> str:
    """Return the table of all columns as Markdown, for docs/metrics.md."""
    lines = ["| column | unit | formula | better | scope |", "|---|---|---|---|---|"]
    for column in ALL_COLUMNS:
        cells = (f"`{column.name}`", column.unit or "-", column.formula, column.better or "-", column.scope)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
