"""Tables of ``gpusched traces describe``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from gpusched_env.evaluation.workload_plots import Picture
from gpusched_env.problem.workload import Workload
from gpusched_env.support.consoles import plain_table
from gpusched_env.support.units import readable, three_digits
from gpusched_env.traces import offered_load
from gpusched_env.traces.description import GROUPS, RANKS, by_class, demanded_gpus, has_run_times, largest_groups
from gpusched_env.traces.generators.acceptance import Check, measure
from gpusched_env.traces.generators.bursty import HOUR


def overview_table(picture: Picture) -> Table:
    """Return statistics of arrivals, of demand, and of the load if there is a cluster."""
    workload, arrival = picture.workload, picture.arrival_s
    measured = {key: float(value) for key, value in measure(workload, None).items() if value.ndim == 0}
    busiest = np.unique(arrival // HOUR, return_counts=True)[1].max()
    rows = {
        "jobs": f"{len(workload):,}",
        "from the first to the last arrival": readable(float(arrival[-1])),
        "arrivals per hour": three_digits(measured["jobs_per_hour"]),
        "arrivals in the busiest hour": f"{busiest:,}",
        "dispersion of hourly counts (variance / mean; Poisson: 1)": three_digits(measured["dispersion"]),
        "cv of the gaps between arrivals (Poisson: 1)": three_digits(measured["gap_cv"]),
        "gaps up to 10 s": _percent(measured["gaps_to_10s"]),
        "same demand as the job before, within 10 s": _percent(measured["same_demand"]),
        "demand, mean and largest": f"{workload.jobs['gpus'].mean():.3g} and {workload.jobs['gpus'].max():,} GPUs",
    }
    if has_run_times(workload):
        rows["GPUs demanded at once (work / time of arrivals)"] = three_digits(measured["gpus_demanded"])
        rows["most GPUs in use if no job waited"] = f"{demanded_gpus(workload)[1].max():,.0f}"
        if picture.cluster_gpus is not None:
            heading = f"load on {picture.cluster_gpus:,} GPUs (work / GPUs / time of arrivals)"
            rows[heading] = three_digits(offered_load(workload, picture.cluster_gpus))
    else:
        rows["work"] = "given by iterations: run times and load need a cluster (--cluster)"
    table = plain_table("arrivals and load", "value")
    for row in rows.items():
        table.add_row(*row)
    return table


def class_table(workload: Workload) -> Table:
    """Return jobs, GPU time and run times of each demand class."""
    timed = has_run_times(workload)
    what = "run time" if timed else "iterations"
    ranks = (*(f"{what} p{100 * rank:.0f}" for rank in RANKS), f"mean {what}")
    table = plain_table("demand [GPU]", "jobs", "share", "GPU time", *ranks)
    for part in by_class(workload):
        work = map(readable if timed else three_digits, part.work)
        table.add_row(part.name, f"{part.jobs:,}", _percent(part.share), _percent(part.gpu_time), *work)
    return table


def group_tables(workload: Workload) -> Iterator[Table]:
    """Yield one table per attribute that tells who submitted a job or how it ended."""
    for attribute in GROUPS:
        if attribute not in workload.attributes:
            continue
        parts, count = largest_groups(workload, attribute)
        heading = attribute.replace("_", " ")
        table = plain_table(heading, "jobs", "share", "GPU time")
        for part in parts:
            name = Text(part.name or "(none)")  # not a string: a name may contain what looks like markup
            table.add_row(name, f"{part.jobs:,}", _percent(part.share), _percent(part.gpu_time))
        if count > len(parts):
            table.caption = f"the {len(parts)} of {count:,} with the most jobs"
        yield table


def fit_table(checks: Sequence[Check]) -> Table:
    """Return a table of statistics of the jobs and of the log, their bounds, and whether they are within the bounds."""
    table = plain_table("statistic", "jobs", "log", "bound", "within bound")
    for check in checks:
        word = {True: "yes", False: "[bold red]no[/]", None: "-"}[check.passed]
        log = "" if check.bound.kind.startswith("at ") else three_digits(check.log)
        table.add_row(Text(check.name), three_digits(check.measured), log, str(check.bound), word)
    told = [check.passed for check in checks if check.passed is not None]
    table.caption = f"{sum(told)} of {len(told)} within their bounds"
    return table


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"
