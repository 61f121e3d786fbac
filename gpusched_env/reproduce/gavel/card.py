"""The continuous experiment of Gavel's evaluation, by policy and rate, beside the authors' stored outputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.baselines.gavel import interior as gavel_interior
from gpusched_env.baselines.gavel.policies import POLICIES
from gpusched_env.baselines.gavel.scheduler import INTERIOR_POLICIES
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import job_times
from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.gavel.pair_ends import pair_ends
from gpusched_env.reproduce.gavel.published import LEAST_JCT_H, MEAN_JCT_H, RATES, V100_JCT_H, published
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Until

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance

SEED: Final = 0  # the only seed with stored outputs
WINDOW: Final = (4_000, 5_000)
ROUND_S: Final = 360.0  # [s] length of a round; a job that shares GPUs completes when its partner's round ends
HOUR_S: Final = 3_600.0  # [s]
QUICK: Final = (("fifo", 2.0), ("fifo_perf", 4.0), ("allox", 2.0))  # each takes a few seconds
# Tolerances, which are our choice. They are larger if queues are long, because small differences grow there.
NEAR, NEAR_IN_QUEUES, QUEUES_FROM_H = 0.04, 0.15, 30.0
SLACK_AT_LOW_LOAD: Final = 0.005
ORDER_AT_OVERLOAD: Final = (
    "max_min_fairness_packed", "max_min_fairness_perf", "finish_time_fairness_perf", "fifo_perf", "max_min_fairness",
    "fifo",
)  # fmt: skip
OVERLOAD: Final = 5.2  # jobs an hour


class GavelCard(Card):
    """One-GPU jobs at 15 rates; with the packed policies two jobs may share a GPU."""

    until = Until(*WINDOW, grace_s=ROUND_S)
    title = "Gavel (OSDI 2020): mean JCT in hours of jobs 4,000 to 4,999, published and ours"

    def runs(self, quick: bool) -> list[Run]:
        """All cells with stored outputs; ``quick`` = three of them.

        Raises
        ------
        GpuschedError : the solver of the published code is not installed; ``quick`` needs none
        """
        if not quick and not gavel_interior.installed():
            raise GpuschedError("gavel: the published solver is wanted: pip install 'gpusched-env[gavel]'; or --quick")
        cells = QUICK if quick else [(policy, rate) for policy in MEAN_JCT_H for rate in RATES]
        shared = {False: "", True: ",sharing=true"}
        problems = {
            (packed, rate): get_scenario(f"gavel-continuous-v1:rate={rate:g}{shared[packed]}")
            for packed, rate in {(POLICIES[policy].packed, rate) for policy, rate in cells}
        }
        return [
            Run(
                problems[POLICIES[policy].packed, rate],
                _spec(policy),
                SEED,
                {"policy": policy, "rate": rate},
            )
            for policy, rate in cells
            if published(policy, rate) is not None
        ]

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Measure the mean JCT of the tracked jobs [s]; jobs of a pair complete as in Gavel's simulator."""
        finish_s = pair_ends(instance, log) if instance.gpu_jobs > 1 else job_times(instance, log)["finish_s"]
        jct_s = finish_s - instance.workload.jobs["arrival_s"]
        return {"tracked_jct_s": float(jct_s[slice(*WINDOW)].mean())}

    def tables(self, results: Results) -> Sequence[Table]:
        """Return a table with three lines per policy: published, ours, and ours / published."""
        rates = [rate for rate in RATES if rate in results.known("rate")]
        table = new_table("Mean JCT in hours, by jobs an hour", "", *(f"{rate:g}" for rate in rates))
        for policy in results.known("policy"):
            told = [published(policy, rate) for rate in rates]
            ours = [_jct_h(results, policy, rate) for rate in rates]
            table.add_row(f"{policy}, published", *("-" if value is None else f"{value:.2f}" for value in told))
            table.add_row("ours", *("" if math.isnan(value) else f"{value:.2f}" for value in ours))
            ratios = [own / value if value else math.nan for own, value in zip(ours, told, strict=True)]
            table.add_row("ratio", *("" if math.isnan(r) else f"{r:.3f}" for r in ratios), end_section=True)
        return [table]

    def findings(self, results: Results) -> Sequence[Finding]:
        """Return which cells are near the published values, and which trends hold."""
        return [*_near(results), *_trends(results)]

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw mean JCT against the arrival rate for each policy with runs, ours solid and published dotted."""
        from matplotlib.figure import Figure

        from gpusched_env.support.figures import COLOURS, save, tidy

        figure = Figure(figsize=(9, 5.2), layout="constrained")
        axes = figure.subplots()
        for number, policy in enumerate(MEAN_JCT_H):
            colour, marker = COLOURS[number % len(COLOURS)], "os"[number // len(COLOURS)]
            stored = MEAN_JCT_H[policy]
            ours = [(rate, _jct_h(results, policy, rate)) for rate in RATES]
            known = [(rate, value) for rate, value in ours if not math.isnan(value)]
            if known:
                axes.plot(RATES[: len(stored)], stored, color=colour, linestyle="dotted", linewidth=1.2)
                axes.plot(*zip(*known, strict=True), color=colour, marker=marker, markersize=3.5, label=policy)
        axes.set_yscale("log")
        ticks = (15, 20, 30, 50, 100, 150)
        axes.set_yticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("jobs an hour")
        axes.set_ylabel("mean JCT [h], log scale; dotted: published")
        tidy(axes)
        axes.legend(frameon=False, fontsize=8)
        path = folder / "mean_jct.png"
        save(figure, path)
        return [path]


def _spec(policy: str) -> str:
    """Return the spec of a policy as it was when the outputs were stored.

    It has no whole steps, with which runs take three times as long.
    """
    spec = f"gavel:policy={'fifo_stored' if policy == 'fifo' else policy},gavel_compat=true,whole_steps=false"
    if policy.startswith(INTERIOR_POLICIES):  # the published solver returns an interior optimum
        spec += ",tie_break=interior"
    return spec + ",equal_share=age" if policy.startswith("finish_time") else spec


def _jct_h(results: Results, policy: str, rate: float) -> float:
    return results.median("tracked_jct_s", policy=policy, rate=rate) / HOUR_S


def _near(results: Results) -> Iterator[Finding]:
    """Check for each policy whether all its cells are near the published values."""
    for policy in results.known("policy"):
        far, count = [], 0
        for rate in RATES:
            value, ours = published(policy, rate), _jct_h(results, policy, rate)
            if value is None or math.isnan(ours):
                continue
            count += 1
            if abs(ours / value - 1) > (NEAR if value < QUEUES_FROM_H else NEAR_IN_QUEUES):
                far.append(f"{rate:g}: {ours:.2f} for {value:.2f}")
        claim = f"every cell within {NEAR:.0%}, from {QUEUES_FROM_H:g} h on within {NEAR_IN_QUEUES:.0%}"
        yield Finding(claim, policy, not far, "; ".join(far) or f"{count} cells")


def _trends(results: Results) -> Iterator[Finding]:
    idle = {policy: _jct_h(results, policy, RATES[0]) for policy in MEAN_JCT_H}
    for policy in ("fifo", "allox", "max_min_fairness_perf", "finish_time_fairness_perf"):
        if not math.isnan(idle[policy]):
            stored = MEAN_JCT_H[policy][0]
            holds = abs(idle[policy] / stored - 1) <= SLACK_AT_LOW_LOAD
            numbers = f"{idle[policy]:.2f} h for {stored} h; alone on V100 {V100_JCT_H:.2f} h"
            yield Finding("idle cluster: everything runs on V100", policy, holds, numbers)
    if not math.isnan(idle["fifo_perf"]):
        holds = LEAST_JCT_H <= idle["fifo_perf"] < V100_JCT_H
        numbers = f"{idle['fifo_perf']:.2f} h; no schedule is below {LEAST_JCT_H:.2f} h"
        yield Finding("idle cluster: the fastest type beats V100", "fifo_perf", holds, numbers)
    busy = [_jct_h(results, policy, OVERLOAD) for policy in ORDER_AT_OVERLOAD]
    if not any(map(math.isnan, busy)):
        claim = f"{OVERLOAD:g} jobs an hour: " + " < ".join(ORDER_AT_OVERLOAD)
        yield Finding(claim, "all", busy == sorted(busy), " ".join(f"{value:.1f}" for value in busy))
