"""A report on runs in one HTML file with tables, curves and the schedule viewer; it needs no server and no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.results import RunResult
from gpusched_env.evaluation.tables import comparison_table, metrics_table, usual_metrics
from gpusched_env.problem.instance import Instance
from gpusched_env.reports.curves import BINS, completion_times, distribution, over_time, tenant_shares
from gpusched_env.reports.pages import need_libraries, write_page
from gpusched_env.reports.run_data import run_data

SCRIPTS: Final = ("library.js", "table.js", "plots.js", "gantt.js", "viewer.js", "report.js")


def write_report(
    instance: Instance,
    results: Sequence[RunResult],
    path: str | Path,
    title: str = "",
    notes: Sequence[str] = (),
    reference: str | None = None,
) -> None:
    """Write a self-contained HTML page on runs of one scenario, atomically.

    The tables show all results. The plots show those with a log, which must be of the seed of ``instance``. ``notes`` :
    paragraphs above the tables; ``reference`` : as in :func:`gpusched_env.evaluation.comparison_table`.
    """
    need_libraries("a report")
    played = [(result.label, result) for result in results if result.log is not None]
    if not played:
        raise GpuschedError("write_report: no result has its event log; evaluate(..., keep_logs=True) keeps them")
    first = played[0][1]
    write_page(
        path,
        "report.html",
        SCRIPTS,
        title=title or first.scenario,
        subtitle=f"scenario {first.scenario}, fingerprint {first.fingerprint[:12]}",
        notes=notes,
        summary=comparison_table(results, usual_metrics(results, instance.topology is not None), reference),
        metrics=metrics_table(results),
        seed=first.seed,
        tracked="" if first.window is None else f", jobs {first.window[0]:,} to {first.window[1] - 1:,} by arrival",
        bins=BINS,
        runs=[{"key": str(number), "label": label, "baseline": False} for number, (label, _) in enumerate(played)],
        tenants=instance.tenants is not None,
        data=_data(instance, played),
    )


def _data(instance: Instance, played: Sequence[tuple[str, RunResult]]) -> dict[str, Any]:
    lines, runs = [], []
    for label, result in played:
        assert result.log is not None
        jct_s = completion_times(instance, result.log, result.window)
        line = {"label": label, **distribution(jct_s), **over_time(instance, result.log)}
        lines.append(line if instance.tenants is None else line | {"shares": tenant_shares(instance, result.log)})
        runs.append(run_data(instance, result.log, label))
    return {"lines": lines, "runs": runs}
