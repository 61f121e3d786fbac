"""All metrics; each is computed from a problem (:class:`gpusched_env.Instance`) and an event log alone."""

from gpusched_env.metrics.bounds import lower_bounds, makespan_bound, mean_jct_bound
from gpusched_env.metrics.columns import (
    ALL_COLUMNS,
    COLUMN_OF,
    COLUMNS,
    DEADLINE_COLUMNS,
    ENERGY_COLUMNS,
    FAILURE_COLUMNS,
    HOLD_COLUMNS,
    LIMIT_COLUMNS,
    TENANT_COLUMNS,
    Column,
    columns_markdown,
)
from gpusched_env.metrics.energy import used
from gpusched_env.metrics.failures import GANG_FAILURES_DTYPE, failures_by_gang
from gpusched_env.metrics.fairness import finish_time_fairness
from gpusched_env.metrics.job_times import JOB_TIMES_DTYPE, job_times
from gpusched_env.metrics.segments import SEGMENT_DTYPE, end_of_run, segments, until
from gpusched_env.metrics.series import StepFunction, gang_gpus, held_gpus, jobs_in_system, jobs_running, jobs_waiting
from gpusched_env.metrics.statistics import (
    LEAST_SEEDS,
    Interval,
    bootstrap_mean,
    bootstrap_ratio,
    mean_interval,
    paired_difference,
    paired_ratio,
)
from gpusched_env.metrics.summary import Window, metric_names, summarise
from gpusched_env.metrics.tenants import TENANT_TIMES_DTYPE, jain_index, max_min_distance, tenant_summary, tenant_times
from gpusched_env.metrics.validate import validate

__all__ = [
    "ALL_COLUMNS", "COLUMNS", "COLUMN_OF", "DEADLINE_COLUMNS", "ENERGY_COLUMNS", "FAILURE_COLUMNS",
    "GANG_FAILURES_DTYPE", "HOLD_COLUMNS", "JOB_TIMES_DTYPE", "LEAST_SEEDS", "LIMIT_COLUMNS", "SEGMENT_DTYPE",
    "TENANT_COLUMNS", "TENANT_TIMES_DTYPE", "Column", "Interval", "StepFunction", "Window", "bootstrap_mean",
    "bootstrap_ratio", "columns_markdown", "end_of_run", "failures_by_gang", "finish_time_fairness", "gang_gpus",
    "held_gpus", "jain_index", "job_times", "jobs_in_system", "jobs_running", "jobs_waiting", "lower_bounds",
    "makespan_bound", "max_min_distance", "mean_interval", "mean_jct_bound", "metric_names", "paired_difference",
    "paired_ratio", "segments", "summarise", "tenant_summary", "tenant_times", "until", "used", "validate",
]  # fmt: skip
