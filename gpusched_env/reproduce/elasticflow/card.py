"""ElasticFlow against EDF, Chronus and schedulers without deadlines: drawn jobs, and a job list of the authors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpusched_env.metrics import Interval, paired_ratio
from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.drawing import new_figure
from gpusched_env.reproduce.elasticflow.simulator import (
    EDF,
    EDF_ADMISSION,
    LOG,
    MET,
    OWN,
    SETTINGS,
    simulator_findings,
    simulator_runs,
    simulator_table,
)
from gpusched_env.reproduce.report import FEWEST, mean_and_half_width, new_table
from gpusched_env.reproduce.results import Results
from gpusched_env.scenarios import get_scenario
from gpusched_env.scenarios.deadlines import elasticflow
from gpusched_env.support.figures import COLOURS, save, tidy
from gpusched_env.traces.downloads.public_files import find

if TYPE_CHECKING:
    from rich.table import Table

PUBLISHED: Final = (1.46, 7.65)  # deadlines met by ElasticFlow / by the other schedulers, smallest and largest ratio
RIVALS: Final = (EDF, EDF_ADMISSION, "chronus", "optimus", "tiresias", "themis-lite")
WITHOUT_LEASES: Final = tuple(name for name in RIVALS if name != "chronus")
LOADS: Final = (0.8, 1.2, 2.5)
QUICK_LOADS: Final = (1.2,)
FIRST_SEED: Final = 200_000
WINDOWS: Final = 6
SPAN_S: Final = 7_910_536.0  # [s] from the first to the last submission of LOG
MACHINES: Final = (2, 4)  # 16 and 32 GPUs: offered loads 1.22 and 0.61


class ElasticFlowCard(Card):
    """Deadlines met: their ratio beside the published range, their share beside that of the authors' simulator."""

    title = "ElasticFlow: share of deadlines met, means over draws; ratios are paired by draw"

    def runs(self, quick: bool) -> list[Run]:
        """All schedulers by load, and on the authors' job lists that were fetched; ``quick`` = fewer."""
        return [*_drawn(quick), *_listed(quick), *simulator_runs(quick)]

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the deadlines met and admitted, the ratios, and the shares beside those of the authors' simulator."""
        compared = [simulator_table(results)] if set(SETTINGS) & set(results.known("setting")) else []
        return [_shares(results), _ratios(results), *compared]

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check the shares, and that ElasticFlow meets more deadlines than each rival, by a factor as published."""
        found = list(simulator_findings(results))
        for setting in _settings(results):
            for rival in RIVALS:
                interval = ratio(results, setting, rival)
                if interval is None:
                    continue
                numbers = f"{interval.mean:.2f} times as many, published {PUBLISHED[0]} to {PUBLISHED[1]}"
                claim = f"ElasticFlow meets more deadlines than {rival}"
                found.append(Finding(claim, setting, interval.mean > 1.0, numbers))
                claim = f"ratio in the published range: {rival}"
                found.append(Finding(claim, setting, PUBLISHED[0] <= interval.mean <= PUBLISHED[1], numbers))
            kept = results.values("admitted_met", setting=setting, scheduler=OWN)
            claim = "ElasticFlow meets at least 99 % of the deadlines that it admits"
            found.append(Finding(claim, setting, bool(kept.mean() >= 0.99), f"{100 * kept.mean():.1f} %"))
        return found

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw the deadlines met by setting."""
        settings, names = _settings(results), (OWN, *RIVALS)
        figure = new_figure(10, 4)
        axes = figure.subplots()
        for i, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
            values = [results.values(MET, setting=setting, scheduler=name) for setting in settings]
            heights = [100 * value.mean() if len(value) else 0.0 for value in values]
            axes.bar(np.arange(len(settings)) + 0.11 * i, heights, 0.1, color=colour, label=name)
        axes.set_xticks(np.arange(len(settings)) + 0.33, settings)
        axes.set(ylabel="deadlines met [%]")
        tidy(axes)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(names), frameon=False)
        save(figure, folder / "deadlines_met.png")
        return [folder / "deadlines_met.png"]


def ratio(results: Results, setting: str, rival: str) -> Interval | None:
    """Return the deadlines met by ElasticFlow / by a rival; None if there are no runs, or a rival met none."""
    own = results.values(MET, setting=setting, scheduler=OWN)
    other = results.values(MET, setting=setting, scheduler=rival)
    if not len(own) or len(own) != len(other) or not (other > 0).all():
        return None
    return paired_ratio(own, other)


def _drawn(quick: bool) -> Iterator[Run]:
    jobs, seeds = (100, 2) if quick else (300, 10)
    for load in QUICK_LOADS if quick else LOADS:
        problem = get_scenario(f"elasticflow-v0:jobs={jobs},load={load}")
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            for name in (OWN, *RIVALS):
                yield Run(problem, name, seed, _labels(f"drawn, load {load}", name))


def _listed(quick: bool) -> Iterator[Run]:
    """Yield the runs on consecutive windows of the authors' job list; the seed is the number of the window.

    Chronus is left out: leases of four minutes are too many for jobs that run for weeks.
    """
    log = find(LOG).file
    if not log.is_file():
        return
    for machines in MACHINES:
        whole = elasticflow(machines=machines, workload=str(log))
        for window in range(2 if quick else WINDOWS):
            times: dict[str, Any] = {"start_s": window * SPAN_S / WINDOWS, "stop_s": (window + 1) * SPAN_S / WINDOWS}
            problem = whole.replace(workload=dataclasses.replace(whole.workload, jobs=None, **times))
            for name in (OWN, *WITHOUT_LEASES):
                yield Run(problem, name, window, _labels(f"authors' list, {8 * machines} GPUs", name))


def _settings(results: Results) -> list[str]:
    return [setting for setting in results.known("setting") if setting not in SETTINGS]


def _labels(setting: str, name: str) -> dict[str, Any]:
    return {"setting": setting, "scheduler": name}


def _shares(results: Results) -> Table:
    table = new_table("deadlines met, admitted [%]", "scheduler", *_settings(results))
    for name in (OWN, *RIVALS):
        cells = []
        for setting in _settings(results):
            labels = _labels(setting, name)
            met = mean_and_half_width(results, MET, 0.01, **labels)
            cells.append(met and f"{met}, {mean_and_half_width(results, 'admitted_share', 0.01, **labels)}")
        table.add_row(name, *cells)
    return table


def _ratios(results: Results) -> Table:
    table = new_table("deadlines met by ElasticFlow / by the scheduler", "scheduler", *_settings(results))
    for rival in RIVALS:
        cells = []
        for setting in _settings(results):
            interval = ratio(results, setting, rival)
            text = "" if interval is None else f"{interval.mean:.2f}"
            if interval is not None and interval.count >= FEWEST:
                text += f" \\[{interval.low:.2f}, {interval.high:.2f}]"
            cells.append(text)
        table.add_row(rival, *cells)
    table.add_row("published, all rivals", *([f"{PUBLISHED[0]} to {PUBLISHED[1]}"] * len(_settings(results))))
    return table
