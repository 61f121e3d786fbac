"""What sharing is worth to a sharing index: it beside the same order of jobs that never shares, on report seeds.

python -m studies.index_search.sharing_effect seed-0.npz
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from gpusched_env.agents.sharing_index import SharingIndex, SharingRule
from gpusched_env.event_log import COMPLETE, START, EventLog
from gpusched_env.metrics import job_times, paired_ratio
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script
from studies.index_search.sharing_index import SCENARIO

NEVER: Final = (-1e9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # weights with which no job joins another


def shared_starts(log: EventLog, gpus: int) -> float:
    """Return the share of starts on GPUs of which other jobs hold some; nobody is preempted."""
    holders, shared, starts = np.zeros(gpus, np.int64), 0, 0
    gang_of: dict[int, np.ndarray] = {}
    for number, event in enumerate(log.events):
        if event["kind"] == START:
            gang = gang_of[int(event["job"])] = log.gang(number)
            shared += bool(holders[gang].any())
            starts += 1
            holders[gang] += 1
        elif event["kind"] == COMPLETE:
            holders[gang_of.pop(int(event["job"]))] -= 1
    return shared / starts


@dataclass
class Settings:
    """Compare a sharing index with its own order of jobs without sharing."""

    model: Annotated[Path, typer.Argument()]
    """File that the search has written."""
    seeds: int = 20
    """Number of report seeds."""


def main(options: Settings) -> None:
    """Print the share of starts beside other jobs, and the ratio of mean JCTs."""
    rule, scenario = SharingRule.load(options.model), get_scenario(SCENARIO)
    first, _ = scenario.seeds.report
    shares, means = [], []
    for seed in range(first, first + options.seeds):
        instance = scenario.instance(seed)
        logs = [simulate(instance, SharingIndex.playing(one)) for one in (rule, replace(rule, weights=NEVER))]
        shares.append(shared_starts(logs[0], instance.cluster.gpus))
        means.append([float(job_times(instance, log)["jct_s"].mean()) for log in logs])
    ratio = paired_ratio(*np.array(means).T)
    print(
        f"{100 * np.mean(shares):.0f} % of starts share GPUs; mean JCT / that of the same order without sharing: ",
        end="",
    )
    print(f"{ratio.mean:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")


if __name__ == "__main__":
    run_script(main)
