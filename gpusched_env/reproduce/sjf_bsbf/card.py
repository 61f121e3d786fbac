"""SJF-BSBF on 64 GPUs by load and interference, and on 16 GPUs with 30 jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bsbf import measuring
from gpusched_env.reproduce.sjf_bsbf.bands import bands_table
from gpusched_env.reproduce.sjf_bsbf.published import TIRESIAS
from gpusched_env.reproduce.sjf_bsbf.settings import (
    DRAWN,
    EXCLUSIVE,
    FIRST_SEED,
    FULL,
    FULL_BATCH,
    POLICIES,
    POLLUX,
    QUICK,
    ROUND_S,
    SHARING,
    SPANS_S,
    USUAL_XI,
    Extent,
    of_few,
    of_run,
)
from gpusched_env.reproduce.sjf_bsbf.tables import all_tables
from gpusched_env.reproduce.sjf_bsbf.trends import all_trends
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.sjf_bsbf import simulated
from gpusched_env.traces.downloads.public_files import public_files

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance


class SjfBsbfCard(Card):
    """The claims of the abstract and the figures of a prototype beside ours, by load, interference and variant."""

    title = "SJF-BSBF (a reconstruction): means over draws"

    def runs(self, quick: bool) -> list[Run]:
        """All policies by load and xi, on Pollux's own workloads if fetched, and on 30 jobs; ``quick`` = fewer."""
        extent = QUICK if quick else FULL
        return [*_drawn(extent), *_pollux(extent), *_few(extent)]

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Measure small and large jobs separately, and how much is shared."""
        return measuring.measure(instance, log)

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the claims, policies, loads, interference, and each figure of the prototype beside ours."""
        return [*all_tables(results), bands_table(results)]

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check each claim and trend."""
        return all_trends(results)

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw mean JCT by load and by xi, small and large jobs, and the prototype's figures against ours."""
        from gpusched_env.reproduce.sjf_bsbf.figures import draw_all

        return draw_all(results, folder)


def workload_files() -> list[tuple[int, int, Path]]:
    """List Pollux's workloads of 160 and 240 jobs that have been fetched: (jobs, number, path)."""
    found = []
    for public in public_files().values():
        folder, _, name = public.name.rpartition("/")
        jobs = {"pollux/workloads": 160, "pollux/workloads-1.5": 240}.get(folder)
        if jobs is not None and public.file.is_file():
            found.append((jobs, int(name.removeprefix("workload-").removesuffix(".csv")), public.file))
    return sorted(found)


def in_rounds(scenario: Scenario) -> Scenario:
    """Return the scenario with rounds of ROUND_S, for Tiresias."""
    return scenario.replace(semantics=dataclasses.replace(scenario.semantics, round_s=ROUND_S))


def _problems(name: str, xi: float) -> tuple[Scenario, Scenario]:
    """Return a scenario with a given interference, and the same with rounds."""
    scenario = get_scenario(f"{name},xi={xi}")
    return scenario, in_rounds(scenario)


def _drawn(extent: Extent) -> Iterator[Run]:
    for jobs in extent.jobs:
        problems = {xi: _problems(f"bsbf-sim-240-v1:jobs={jobs}", xi) for xi in extent.xis}
        for seed in range(FIRST_SEED, FIRST_SEED + extent.seeds):
            for xi, (plain, _) in problems.items():
                for policy, spec in SHARING.items():
                    yield Run(plain, spec, seed, of_run(DRAWN, jobs, xi, policy))
            plain, rounds = problems[extent.xis[0]]
            for policy, spec in EXCLUSIVE.items():
                yield Run(rounds if policy == TIRESIAS else plain, spec, seed, of_run(DRAWN, jobs, 0.0, policy))


def _pollux(extent: Extent) -> Iterator[Run]:
    """Yield the runs on Pollux's own workloads; the seed is the file's number."""
    for jobs, number, path in workload_files() if extent.files else []:
        problems = {xi: simulated(jobs, xi, workload=str(path)) for xi in extent.xis}
        for xi, problem in problems.items():
            for policy, spec in SHARING.items():
                yield Run(problem, spec, number, of_run(POLLUX, jobs, xi, policy))
        plain = problems[extent.xis[0]]
        for policy, spec in EXCLUSIVE.items():
            problem = in_rounds(plain) if policy == TIRESIAS else plain
            yield Run(problem, spec, number, of_run(POLLUX, jobs, 0.0, policy))


def _few(extent: Extent) -> Iterator[Run]:
    settings = {setting: f"bsbf-physical-30-v1:span_s={span_s}" for setting, span_s in SPANS_S.items()}
    settings[FULL_BATCH] = "bsbf-physical-30-v1:batch=1"
    for setting, name in settings.items():
        xis = (USUAL_XI,) if setting == FULL_BATCH else extent.xis
        problems = {xi: _problems(name, xi) for xi in xis}
        for seed in range(FIRST_SEED, FIRST_SEED + extent.few_seeds):
            for xi, (plain, rounds) in problems.items():
                for policy, spec in POLICIES.items():
                    if policy in SHARING or xi == xis[0]:
                        problem = rounds if policy == TIRESIAS else plain
                        yield Run(problem, spec, seed, of_few(setting, xi, policy))
