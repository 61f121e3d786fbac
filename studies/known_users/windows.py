"""The windows of the study: jobs of logs that tell users and limits, each after the jobs before it, which are played.

``windows.json`` lists all windows. ``python -m studies.known_users.windows USERS`` makes the list again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.support.commands import run_script
from gpusched_env.traces import assign_profiles, read_trace, up_to_gpus
from gpusched_env.traces.generators.synthetic import random_stream
from gpusched_env.traces.transform import offered_load
from studies.unseen_logs.windows import (
    LADDER,
    NETWORKS,
    NODE_GPUS,
    RACK_NODES,
    STRETCHES,
    TEST,
    TRAINING,
    has_queues,
    write_windows,
)

# Log -> processors of the machine, as the head of its file tells; of CTC's 430, 338 were for batch jobs.
LOGS: Final = {"kth": 100, "ctc": 338, "sdsc": 128}
NODES: Final = 16
GPUS: Final = NODES * NODE_GPUS
REPORTED: Final = 1_536  # jobs of a window that are scored
WARM_UP: Final = 1_536  # jobs before them that are played
SPLIT: Final = 0.25  # part of the time of a log that is for training
NUMBERS: Final = {TRAINING: 8, TEST: 16}  # windows of each log
# What jobs tell -> the columns that are taken away.
TOLD: Final = {"limits": (), "users": ("limit",), "nothing": ("limit", "user", "queue")}


@dataclass(frozen=True)
class Window:
    """Jobs of a log that are scored, on a cluster of NODES nodes.

    Parameters
    ----------
    log : a key of LOGS
    use : TRAINING or TEST
    first : number of jobs of the log before the first that is scored, gangs above half of the cluster aside
    network : a key of NETWORKS
    load : offered load of the jobs that are scored; all arrivals are scaled by the factor that gives it
    """

    log: str
    use: str
    first: int
    network: str
    load: float

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.log}/{self.first}"

    def warm_up(self, jobs: int = WARM_UP) -> int:
        """Return the number of jobs that are played before the window: so many, or all that the log has."""
        return min(jobs, self.first)

    def workload(self, users: Path, told: str = "limits", warm_up: int = WARM_UP) -> Workload:
        """Return the jobs that are played; the last REPORTED of them are scored.

        Parameters
        ----------
        users : folder of the logs
        told : what the jobs tell, a key of TOLD
        warm_up : jobs before the window

        Raises
        ------
        ScenarioError : what jobs tell is no key of TOLD
        """
        if told not in TOLD:
            raise ScenarioError(unknown_name("version", told, TOLD))
        log = log_jobs(users, self.log)
        stop = self.first + REPORTED
        scored = log.select(np.arange(self.first, stop))
        scored = scored.unchecked_columns(arrival_s=scored.jobs["arrival_s"] - scored.jobs["arrival_s"][0])
        factor = offered_load(scored, GPUS) / self.load
        workload = log.select(np.arange(self.first - self.warm_up(warm_up), stop))
        arrival_s = workload.jobs["arrival_s"]
        workload = workload.unchecked_columns(arrival_s=(arrival_s - arrival_s[0]) * factor)
        if "limit" in TOLD[told]:
            workload = workload.unchecked_columns(estimate_s=np.full(len(workload), np.nan))
        kept = {name: column for name, column in workload.attributes.items() if name not in TOLD[told]}
        return workload.unchecked_replace(attributes=kept)

    def instance(self, workload: Workload) -> Instance:
        """Return the problem of :meth:`workload`, or of its jobs with other columns."""
        scenario = Scenario(
            name=f"users-{self.log}-{self.first}",
            description="A window of the study of known users.",
            groups=(NodeGroup(NODES, NODE_GPUS, nodes_per_rack=RACK_NODES),),
            workload=WorkloadSpec(f"swf:{self.log}", profiles="own"),  # not read: the jobs are given
            network=NETWORKS[self.network],
        )
        return scenario.instance(0, workload)


@lru_cache(maxsize=8)
def log_jobs(users: Path, log: str) -> Workload:
    """Return the jobs of a log by arrival: processors are GPUs, and gangs are scaled to the cluster and rounded up.

    Gangs above half of the cluster are left out. Each job has one model in all windows; models tell nothing.
    """
    workload, _ = read_trace(f"swf:{users / log}_sp2.swf.gz")
    machine = LOGS[log]
    gpus = -(-workload.jobs["gpus"].astype(np.int64) * GPUS // machine)
    workload = up_to_gpus(workload.unchecked_columns(gpus=gpus), GPUS // 2)
    workload = workload.select(np.argsort(workload.jobs["arrival_s"], kind="stable"))
    return assign_profiles(workload, "mix", random_stream(0, 1), ())


def list_windows(use: str) -> tuple[Window, ...]:
    """Return the windows for TRAINING or TEST."""
    text = resources.files(__package__).joinpath("windows.json").read_text(encoding="utf-8")
    return tuple(window for window in (Window(**one) for one in json.loads(text)) if window.use == use)


def make_windows(users: Path) -> Iterator[Window]:
    """Yield the windows: those for training in the first quarter of each log's time, those for the test after it.

    Both are spread evenly. The load is the first of LADDER at which ``fifo-skip`` makes the mean JCT of the scored jobs
    2 or 4 times their mean run time, in turn.

    Raises
    ------
    ScenarioError : no load makes queues
    """
    for log in LOGS:
        arrival_s = log_jobs(users, log).jobs["arrival_s"]
        split = int(np.searchsorted(arrival_s, arrival_s[0] + SPLIT * (arrival_s[-1] - arrival_s[0])))
        for use, begin, end in ((TRAINING, WARM_UP, split), (TEST, split, len(arrival_s))):
            for number in range(NUMBERS[use]):
                first = begin + (end - REPORTED - begin) * number // (NUMBERS[use] - 1)
                network = tuple(NETWORKS)[number % 2]
                yield _with_queues(Window(log, use, first, network, 0.0), users, STRETCHES[number // 2 % 2])


def _with_queues(window: Window, users: Path, stretch: float) -> Window:
    for load in LADDER:
        found = dataclasses.replace(window, load=load)
        if has_queues(found.instance(found.workload(users)), stretch, REPORTED):
            return found
    raise ScenarioError(f"window {window.name}: no load up to {LADDER[-1]} makes queues")


@dataclass
class Settings:
    """Make the list of windows again."""

    users: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    output: Path = Path(str(resources.files(__package__))) / "windows.json"
    """File to write."""


def main(options: Settings) -> None:
    """Write ``windows.json``."""
    write_windows(make_windows(options.users), options.output)


if __name__ == "__main__":
    run_script(main)
