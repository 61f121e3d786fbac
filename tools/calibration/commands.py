"""The command: past weeks of a log are forecast, and compared with what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import typer

from gpusched_env.cli.forecasting import HOUR_S, Futures, Played
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import read_trace
from gpusched_env.twin.model import ignored_by
from gpusched_env.twin.quantiles import HOURS
from tools.calibration.backtest import WEEK_S, Scored, backtest, with_limits
from tools.calibration.backtest import played as played_log


@dataclass(frozen=True, kw_only=True)
class Weeks:
    """When past forecasts are made."""

    first: Annotated[int, typer.Option(min=1)] = 4
    """Weeks of history before the first forecast."""
    held: Annotated[int, typer.Option(min=1)] = 3
    """Weeks after them, in which forecasts are made."""
    every: Annotated[float, typer.Option(min=0.1, max=168.0)] = 5.0
    """Hours between forecasts; not a divisor of 24."""


HUNDRED: Final = Futures(futures=100)


def calibration(
    log: Annotated[str, typer.Argument(help="Log of jobs that have ended, FORMAT:PATH.", metavar="SOURCE")],
    played: Played,
    weeks: Weeks,
    draw_limits: Annotated[
        bool, typer.Option("--draw-limits", help="Draw time limits as users give them, for a log without limits.")
    ] = False,
    futures: Futures = HUNDRED,
) -> None:
    """Forecast the past: how many starts the intervals contain, and how often the probabilities come true.

    The log is replayed under the policy, which gives the true starts. Each forecast sees only jobs that have ended.

    Example: python -m tools calibration slurm:jobs.txt --twin twin.json --first 4 --held 3
    """
    setting, options = played.setting(), futures.options()
    workload, report = read_trace(log)
    print(report.describe())
    if draw_limits:
        workload = with_limits(workload, options.seed)
    _need_limits(workload)
    for line in ignored_by(setting.problems(workload)):
        print(f"note: {line}")
    run = played_log(workload, setting)

    def tell(one: Scored) -> None:
        print(f"week {one.time_s / WEEK_S:.2f}: {one.queued:,} queued jobs")

    first_s, last_s = weeks.first * WEEK_S, (weeks.first + weeks.held) * WEEK_S
    found = backtest(run, setting, first_s, last_s, weeks.every * HOUR_S, options, tell)
    if not found.jobs:
        last = float(workload.jobs["arrival_s"].max()) / WEEK_S
        raise GpuschedError(
            f"{log}: no job is queued at the times of the forecasts. Jobs arrive for {last:.1f} weeks: choose --first, "
            "--held and --every to suit"
        )
    print(f"80 % intervals of {found.jobs:,} jobs in {found.snapshots} snapshots: cover {found.covered:.1%}")
    for hours, chance, part in zip(HOURS, found.forecast, found.happened, strict=True):
        print(f"start within {hours} h: {chance:.1%} of the jobs as forecast, {part:.1%} in truth")


def _need_limits(workload: Workload) -> None:
    if np.isnan(workload.jobs["estimate_s"]).all():
        print("note: the log has no time limits, so the policy assumes its default limit; see --draw-limits")
