"""Programs of the card of SJF-BSBF: its scenarios in rounds, Pollux's workloads that were fetched, further metrics."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import FAMILIES, Scenario, get_scenario
from gpusched_env.traces.downloads.public_files import public_files

SMALL_GPUS: Final = 4  # [GPU] the largest gang of a small job, in the paper's tables


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure mean JCT and queueing of small and large jobs [s], and how many jobs shared GPUs.

    Returns
    -------
    small_jct_s, large_jct_s, small_queueing_s, large_queueing_s : means [s]; 0 if there are no such jobs
    company_share : fraction of jobs that started on a GPU that another job held
    accumulating_share : fraction of jobs that started with more sub-steps than they need alone
    """
    times, small = job_times(instance, log), instance.workload.jobs["gpus"] <= SMALL_GPUS
    found: dict[str, float] = {}
    for size, rows in (("small", small), ("large", ~small)):
        for name in ("jct_s", "queueing_s"):
            found[f"{size}_{name}"] = float(times[name][rows].mean()) if rows.any() else 0.0
    jobs = len(instance.workload)
    starts = log.events[np.isin(log.events["kind"], (START, RESUME))]
    more = starts["sub_steps"] > instance.passes[instance.job_class[starts["job"]]]
    found["company_share"] = len(joined(instance, log)) / jobs
    found["accumulating_share"] = len(np.unique(starts["job"][more])) / jobs
    return found


def joined(instance: Instance, log: EventLog) -> set[int]:
    """Return the rows of the jobs that took a GPU that another job held."""
    holders = np.zeros(instance.cluster.gpus, np.int64)
    gangs: dict[int, np.ndarray] = {}
    found = set()
    for number in np.flatnonzero(np.isin(log.events["kind"], (START, RESUME, COMPLETE, RELEASE))).tolist():
        job = int(log.events["job"][number])
        if log.events["kind"][number] in (START, RESUME):
            gang = gangs[job] = log.gang(number)
            if holders[gang].any():
                found.add(job)
            holders[gang] += 1
        else:
            holders[gangs.pop(job)] -= 1
    return found


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
