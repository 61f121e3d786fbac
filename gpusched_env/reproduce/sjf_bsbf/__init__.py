"""Programs of the card of SJF-BSBF: its scenarios in rounds, Pollux's workloads that were fetched, further metrics."""

from __future__ import annotations

import dataclasses
from typing import Final

from gpusched_env.reproduce.sjf_bsbf.measuring import measure
from gpusched_env.scenarios import FAMILIES, Scenario, get_scenario
from gpusched_env.traces.downloads.public_files import public_files

__all__ = ["COLUMNS", "in_rounds", "measure", "simulated", "workload_files"]
simulated = FAMILIES["bsbf-sim-240-v1"].plain
ROUND_S: Final = 60.0  # [s] rounds of Tiresias
COLUMNS: Final = (  # heading, metric and format
    ("mean JCT", "mean_jct_s", ",.0f"),
    ("p99 JCT", "p99_jct_s", ",.0f"),
    ("total duration", "makespan_s", ",.0f"),
    ("queueing", "mean_queueing_s", ",.0f"),
    ("JCT, small", "small_jct_s", ",.0f"),
    ("queueing, small", "small_queueing_s", ",.0f"),
    ("JCT, large", "large_jct_s", ",.0f"),
    ("queueing, large", "large_queueing_s", ",.0f"),
    ("in company", "company_share", ".0%"),
    ("accumulate", "accumulating_share", ".0%"),
)


def in_rounds(problem: Scenario | str, rounds: bool) -> Scenario:
    """Return a scenario, or that of a name; with rounds of ROUND_S if ``rounds``."""
    scenario = get_scenario(problem) if isinstance(problem, str) else problem
    if not rounds:
        return scenario
    return scenario.replace(semantics=dataclasses.replace(scenario.semantics, round_s=ROUND_S))


def workload_files() -> list[tuple[int, int, str]]:
    """List Pollux's workloads of 160 and 240 jobs that have been fetched: (jobs, number, path)."""
    found = []
    for public in public_files().values():
        folder, _, name = public.name.rpartition("/")
        jobs = {"pollux/workloads": 160, "pollux/workloads-1.5": 240}.get(folder)
        if jobs is not None and public.file.is_file():
            found.append((jobs, int(name.removeprefix("workload-").removesuffix(".csv")), str(public.file)))
    return sorted(found)
