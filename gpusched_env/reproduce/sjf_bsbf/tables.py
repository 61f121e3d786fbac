"""Tables: the claims of the abstract beside our results, every policy, loads, and interference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bsbf.published import AGAINST_FFS, AGAINST_PREEMPTIVE, FFS, SJF, TIRESIAS
from gpusched_env.reproduce.sjf_bsbf.settings import (
    BSBF,
    DRAWN,
    FULL_BATCH,
    PAPER_JOBS,
    POLICIES,
    POLLUX,
    SHARING,
    SPANS_S,
    USUAL_XI,
    of_few,
    of_run,
)

if TYPE_CHECKING:
    from rich.table import Table

Setting = tuple[str, int]  # part and jobs of the runs


def all_tables(results: Results) -> list[Table]:
    """Return every table for which there are runs."""
    setups = settings(results)
    policies = [_policies(results, setting) for setting in setups if setting in ((DRAWN, PAPER_JOBS), few_setting())]
    loads = [_loads(results, xi) for xi in xis(results, (DRAWN, PAPER_JOBS)) if xi in (1.25, USUAL_XI)]
    interference = [_interference(results, setting) for setting in setups if setting[0] in (DRAWN, POLLUX)]
    return [_claims(results), *policies, *loads, *interference]


def few_setting() -> Setting:
    """Return the first set-up with 30 jobs."""
    return (next(iter(SPANS_S)), 30)


def settings(results: Results) -> list[Setting]:
    """Return the distinct pairs (part, jobs) of all runs, in their order."""
    return list(dict.fromkeys((own["part"], own["jobs"]) for own in results.labels))


def title(setting: Setting) -> str:
    """Return the heading of a set-up."""
    part, jobs = setting
    return part if part in SPANS_S or part == FULL_BATCH else f"{jobs} jobs, {part}"


def xis(results: Results, setting: Setting) -> list[float]:
    """Return the values of xi of the runs of a set-up, ascending."""
    part, jobs = setting
    return sorted(xi for xi in results.where(part=part, jobs=jobs).known("xi") if xi)


def values(results: Results, metric: str, setting: Setting, xi: float, policy: str) -> np.ndarray:
    """float64 [draws]: a metric of a policy in a set-up."""
    part, jobs = setting
    labels = of_few(part, xi, policy) if jobs == few_setting()[1] else of_run(part, jobs, xi, policy)
    return results.values(metric, **labels)


def reduction(results: Results, setting: Setting, xi: float, rival: str, policy: str = BSBF) -> float:
    """Return the fraction by which the mean JCT over all draws is lower than a rival's; < 0 = it is higher."""
    own, other = (values(results, "mean_jct_s", setting, xi, name) for name in (policy, rival))
    return float(1.0 - own.mean() / other.mean())


def as_percent(value: float) -> str:
    """Format a fraction in per cent, with its sign."""
    return f"{100 * value:+.1f} %"


def _claims(results: Results) -> Table:
    setups = settings(results)
    known = sorted({xi for setting in setups for xi in xis(results, setting)})
    table = new_table(
        "Claims of the abstract: reduction of the mean JCT, by xi", "", "abstract", *(f"xi {xi:g}" for xi in known)
    )
    low, high = AGAINST_PREEMPTIVE
    for rival, claim in (
        (TIRESIAS, f"{low:.0%} to {high:.0%}"), (FFS, f"up to {AGAINST_FFS:.0%}"), (SJF, "")
    ):  # fmt: skip
        for setting in setups:
            own = xis(results, setting)
            cells = [as_percent(reduction(results, setting, xi, rival)) if xi in own else "" for xi in known]
            last = setting == setups[-1]
            table.add_row(f"against {rival}: {title(setting)}", claim, *cells, end_section=last)
    return table


def _policies(results: Results, setting: Setting) -> Table:
    known = xis(results, setting)
    xi = USUAL_XI if USUAL_XI in known else known[-1]
    metrics = {
        "mean JCT": ("mean_jct_s", "{:,.0f}"),
        "p99 JCT": ("p99_jct_s", "{:,.0f}"),
        "total duration": ("makespan_s", "{:,.0f}"),
        "queueing": ("mean_queueing_s", "{:,.0f}"),
        "JCT, small": ("small_jct_s", "{:,.0f}"),
        "queueing, small": ("small_queueing_s", "{:,.0f}"),
        "JCT, large": ("large_jct_s", "{:,.0f}"),
        "queueing, large": ("large_queueing_s", "{:,.0f}"),
        "in company": ("company_share", "{:.0%}"),
        "accumulate": ("accumulating_share", "{:.0%}"),
    }
    table = new_table(f"{title(setting)}, xi {xi:g}: means over draws, s; small = at most 4 GPUs", "", *metrics)
    for policy in POLICIES:
        cells = [text.format(values(results, metric, setting, xi, policy).mean()) for metric, text in metrics.values()]
        table.add_row(policy, *cells, end_section=policy in (BSBF, list(SHARING)[-1]))
    return table


def _loads(results: Results, xi: float) -> Table:
    sizes = sorted(results.where(part=DRAWN).known("jobs"))
    table = new_table(f"Mean JCT by jobs in eight hours, xi {xi:g}: means over draws, s", "", *map(str, sizes))
    for policy in POLICIES:
        means = [values(results, "mean_jct_s", (DRAWN, jobs), xi, policy).mean() for jobs in sizes]
        table.add_row(policy, *(f"{mean:,.0f}" for mean in means), end_section=policy == list(SHARING)[-1])
    return table


def _interference(results: Results, setting: Setting) -> Table:
    known = xis(results, setting)
    draws = len(values(results, "mean_jct_s", setting, known[0], BSBF))
    table = new_table(
        f"Mean JCT by xi: {title(setting)}, means over {draws} draws, s", "", *(f"xi {xi:g}" for xi in known)
    )
    for policy in POLICIES:
        means = [values(results, "mean_jct_s", setting, xi, policy).mean() for xi in known]
        table.add_row(policy, *(f"{mean:,.0f}" for mean in means), end_section=policy == list(SHARING)[-1])
    return table
