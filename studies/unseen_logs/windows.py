"""The windows of the study: parts of logs, each on a cluster, at a load at which queues form.

``windows.json`` lists all windows. ``python -m studies.unseen_logs.windows LOGS`` makes the list again.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.simulator import Simulation
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import whole
from gpusched_env.traces import ReadReport, read_trace

TRAINING, TEST = "training", "test"
NETWORKS: Final = {
    "tiers": Network(),
    "leaf-spine": Network("topology", topology=NETWORK_PRESETS["oversub4"].topology, contention=Contention("maxmin")),
}
FREE: Final = "free"  # a network on which no placement costs anything, for oracles; windows.json does not use it
NODE_GPUS: Final = 8
RACK_NODES: Final = 8
# Nodes of the clusters of a log's windows, in turn.
SIZES: Final = {
    TRAINING: (8, 16, 32, 8, 16, 64),
    TEST: (8, 16, 32, 8, 16, 32, 8, 16, 64, 128, 8, 16, 32, 8, 16, 32, 8, 16, 64, 256),
}
FEWEST_JOBS: Final = 1_000
# The load of a window is the first of LADDER at which the queue of fifo-skip makes the mean JCT at least so many times
# the mean run time on the ideal placement. The two limits take turns, and so do the two networks. Where jobs of months
# make the mean run time so large that no load reaches the limit, LEAST_STRETCH takes its place.
LADDER: Final = (0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 22.0, 32.0)
STRETCHES: Final = (2.0, 4.0)
LEAST_STRETCH: Final = 1.5
TRIES: Final = 40
FURTHER: Final = 1_000  # distance of the seeds of further windows
BURST_JOBS: Final = 100  # jobs of a burst, see Change
GENERATORS: Final = ("synthetic:philly", "synthetic:helios-venus")


@dataclass(frozen=True)
class Part:
    """A part of a log.

    Parameters
    ----------
    log : format and path below the folder of logs, or a generator
    start_s, stop_s : the part, from the first arrival of the log [s]
    use : TRAINING or TEST
    windows : number of windows
    jobs_per_gpu : jobs of a window for each GPU of its cluster
    most_nodes : nodes of the largest cluster
    """

    log: str
    start_s: float
    stop_s: float
    use: str
    windows: int
    jobs_per_gpu: int = 12
    most_nodes: int = 256


_PHILLY, _VENUS = "philly:philly/philly_jobs.csv.gz", "helios:helios/venus_gpu_jobs_to_2020-07.csv.gz"
_PHILLY_SPLIT_S, _VENUS_SPLIT_S = 4_737_663.0, 7_675_101.0  # 2017-11-01 and 2020-06-15
PARTS: Final = {
    "philly-before": Part(_PHILLY, 0.0, _PHILLY_SPLIT_S, TRAINING, 24),
    "venus-before": Part(_VENUS, 0.0, _VENUS_SPLIT_S, TRAINING, 24),
    "philly-drawn": Part(GENERATORS[0], 0.0, 0.0, TRAINING, 12),
    "venus-drawn": Part(GENERATORS[1], 0.0, 0.0, TRAINING, 12),
    "philly-after": Part(_PHILLY, _PHILLY_SPLIT_S, 9_171_737.0, TEST, 20),
    "venus-after": Part(_VENUS, _VENUS_SPLIT_S, 11_735_845.0, TEST, 20),
    "pai": Part("pai:alibaba/pai2020_gpu_tasks_days00-31.csv.gz", 0.0, 2_747_980.0, TEST, 20),
    "kalos": Part("acme:acme/kalos_gpu_jobs_first800.csv.gz", 0.0, 1_703_641.0, TEST, 20, most_nodes=64),
    "muri-2": Part("muri:muri/trace2.csv.gz", 0.0, 8_572_284.0, TEST, 10),
    "muri-3": Part("muri:muri/trace3.csv.gz", 0.0, 8_166_050.0, TEST, 10),
    "openb": Part(
        "openb:alibaba/openb_pod_list_default.csv.gz", 0.0, 12_901_762.0, TEST, 20, jobs_per_gpu=32, most_nodes=16
    ),
}
# The study calls the two parts of one collection one log.
LOGS: Final = {
    "philly-after": "philly", "venus-after": "venus", "pai": "pai", "kalos": "kalos", "muri-2": "muri",
    "muri-3": "muri", "openb": "openb",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """What is changed about windows, to ask how robust a result is; the jobs stay the same.

    Parameters
    ----------
    load : factor on the offered load
    cost : factor on the times of checkpoints and restores
    nodes : factor on the number of nodes, a whole number. The offered load stays, so jobs arrive as much faster
    burst : factor on the rate of arrivals in bursts of BURST_JOBS jobs; nothing arrives between the bursts, so the
        offered load stays

    Raises
    ------
    ScenarioError : a factor that is not above 0, or below 1 for nodes and burst
    """

    load: float = 1.0
    cost: float = 1.0
    nodes: int = 1
    burst: float = 1.0

    def __post_init__(self) -> None:
        """Check the factors."""
        for name, least in (("load", 0.0), ("cost", 0.0), ("nodes", 1), ("burst", 1)):
            value = getattr(self, name)
            if not least <= value < np.inf or not value > 0:
                raise ScenarioError(
                    f"{name} factor is {value!r}: it must be above 0, and for nodes and burst at least 1"
                )

    @property
    def suffix(self) -> str:
        """What distinguishes the name of a file of results; "" = nothing is changed."""
        changed = {name: value for name, value in dataclasses.asdict(self).items() if value != 1}
        return "".join(f"-{name}-x{value:g}" for name, value in changed.items())


UNCHANGED: Final = Change()


@dataclass(frozen=True)
class Window:
    """A number of jobs of a log, on a cluster.

    Parameters
    ----------
    part : a key of PARTS
    start_s : arrival of its first job, from the first arrival of the log [s]; 0 for a generator
    jobs : number of jobs that arrive from ``start_s`` on
    nodes : number of nodes of NODE_GPUS GPUs
    network : a key of NETWORKS, or FREE
    load : offered load to which the arrivals are scaled
    seed : seed of the models of the jobs, and of a generator
    """

    part: str
    start_s: float
    jobs: int
    nodes: int
    network: str
    load: float
    seed: int

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.part}/{self.seed}"

    def scenario(self, logs: Path, change: Change = UNCHANGED) -> Scenario:
        """Return the scenario; only :meth:`instance` makes arrivals burstier.

        Parameters
        ----------
        logs : folder of the logs
        change : what is changed about the window
        """
        part = PARTS[self.part]
        source = part.log
        cuts: dict[str, float | bool] = {}
        if not part.log.startswith("synthetic:"):
            file_format, _, path = part.log.partition(":")
            source = f"{file_format}:{logs / path}"
            cuts = {"start_s": self.start_s, "stop_s": part.stop_s, "ignore_types": True, "ignore_nodes": True}
        spec = WorkloadSpec(
            source,
            jobs=self.jobs,
            max_gpus=self.nodes * NODE_GPUS // 2,
            load=self.load * change.load,
            **cuts,  # type: ignore[arg-type]
        )
        return Scenario(
            name=f"unseen-{self.part}-{self.seed}",
            description="A window of the study of unseen logs.",
            groups=(NodeGroup(self.nodes * change.nodes, NODE_GPUS, nodes_per_rack=RACK_NODES),),
            workload=spec,
            network=Network("none") if self.network == FREE else NETWORKS[self.network],
            semantics=Semantics(
                checkpoint_s=change.cost * Semantics.checkpoint_s, restore_s=change.cost * Semantics.restore_s
            ),
        )

    def instance(self, logs: Path, change: Change = UNCHANGED) -> Instance:
        """Return the problem instance; the parameters are those of :meth:`scenario`."""
        scenario = self.scenario(logs, change)
        return scenario.instance(self.seed, bursty(_jobs(scenario.workload, self.seed), change.burst))


def bursty(workload: Workload, factor: float) -> Workload:
    """Return the workload with burstier arrivals, see :class:`Change`."""
    if factor == 1:
        return workload
    jobs = workload.jobs.copy()
    order = np.argsort(jobs["arrival_s"], kind="stable")
    arrival_s = jobs["arrival_s"][order]
    first_s = arrival_s[np.arange(len(jobs)) // BURST_JOBS * BURST_JOBS]
    jobs["arrival_s"][order] = first_s + (arrival_s - first_s) / factor
    return dataclasses.replace(workload, jobs=jobs)


def list_windows(use: str) -> tuple[Window, ...]:
    """Return the windows for TRAINING or TEST.

    Raises
    ------
    ScenarioError : an unknown use
    """
    if use not in (TRAINING, TEST):
        raise ScenarioError(f"windows for {use!r}: choose {TRAINING} or {TEST}")
    text = resources.files(__package__).joinpath("windows.json").read_text(encoding="utf-8")
    return tuple(window for window in (Window(**one) for one in json.loads(text)) if PARTS[window.part].use == use)


@lru_cache(maxsize=16)
def _whole(source: str) -> Workload:
    return read_trace(source)[0]


def _jobs(spec: WorkloadSpec, seed: int) -> Workload:
    """Draw the jobs, or cut them out of their log, which is read once; without models, and at no particular load."""
    if spec.synthetic:
        return dataclasses.replace(spec, load=None, profiles="own").draw(seed, None, 0, ())
    return spec.cut(_whole(spec.source), ReadReport("", ""))[0]


@lru_cache(maxsize=16)
def _arrivals(source: str) -> np.ndarray:
    return np.sort(_whole(source).jobs["arrival_s"])


def training_run_times_s(logs: Path) -> list[np.ndarray]:
    """Return the run times of all jobs of the training part of each log [s]."""
    found = []
    for part in PARTS.values():
        if part.use == TRAINING and part.log not in GENERATORS:
            file_format, _, path = part.log.partition(":")
            jobs = _whole(f"{file_format}:{logs / path}").jobs
            inside = (jobs["arrival_s"] >= part.start_s) & (jobs["arrival_s"] < part.stop_s)
            found.append(jobs["duration_s"][inside])
    return found


def make_windows(
    logs: Path, parts: Sequence[str] = tuple(PARTS), most_nodes: int = 256, further: int = 0
) -> Iterator[Window]:
    """Yield the windows of parts, evenly spread over each part.

    If no load of LADDER makes queues in a window, because one job runs longer than all others together, the window
    begins a number of jobs later.

    Parameters
    ----------
    most_nodes : larger clusters are left out
    further : k = windows with other models that begin k quarters of the way from one of the study to its next; if k is
        odd, networks are exchanged

    Raises
    ------
    ScenarioError : no window of a part has queues
    """
    for name, number in ((part, number) for part in parts for number in range(PARTS[part].windows)):
        part, sizes = PARTS[name], SIZES[PARTS[name].use]
        nodes = min(sizes[number % len(sizes)], part.most_nodes)
        if nodes <= most_nodes:
            jobs = max(FEWEST_JOBS, part.jobs_per_gpu * nodes * NODE_GPUS)
            starts_s, seeds = [0.0], range(number, number + part.windows * TRIES, part.windows)
            if part.log not in GENERATORS:
                file_format, _, path = part.log.partition(":")
                arrivals = _arrivals(f"{file_format}:{logs / path}")
                mine = arrivals[(arrivals >= part.start_s) & (arrivals < part.stop_s)]
                jobs = min(jobs, len(mine))
                later = len(mine) - jobs
                first = later * (4 * number + further) // max(4 * part.windows - 4 + further, 1)
                starts_s = [float(mine[(first + jobs * i // 4) % (later + 1)]) for i in range(TRIES)]
                seeds = range(number + FURTHER * further, number + FURTHER * further + 1)
            limits = (STRETCHES[number // 2 % 2], LEAST_STRETCH)
            for stretch, start_s, seed in itertools.product(limits, starts_s, seeds):
                window = Window(name, start_s, jobs, nodes, tuple(NETWORKS)[(number + further) % 2], LADDER[0], seed)
                load = _load_with_queues(window, logs, stretch)
                if load is not None:
                    yield dataclasses.replace(window, load=load)
                    break
            else:
                raise ScenarioError(f"window {window.name}: no load up to {LADDER[-1]} makes queues")


def _load_with_queues(window: Window, logs: Path, stretch: float) -> float | None:
    for load in LADDER:
        if has_queues(dataclasses.replace(window, load=load).instance(logs), stretch):
            return load
    return None


def has_queues(instance: Instance, stretch: float, last: int = 0) -> bool:
    """Return whether fifo-skip makes the mean JCT ``stretch`` times the mean run time.

    ``last`` : number of the last jobs that count; 0 = all do
    """
    simulation = Simulation(instance)
    simulation.run(make_scheduler("fifo-skip"))
    jobs = simulation.arrays.jobs[-last:]
    return bool((jobs["finish_s"] - jobs["arrival_s"]).mean() >= stretch * jobs["ideal_s"].mean())


def write_windows(windows: Iterable[Any], output: Path) -> None:
    """Print each window when it is made, and write all of them as JSON, one in a line."""
    lines = []
    for window in windows:
        lines.append(json.dumps(dataclasses.asdict(window)))
        print(lines[-1], flush=True)
    with whole(output) as partial:
        partial.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


@dataclass
class Settings:
    """Make the list of windows again."""

    logs: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    output: Path = Path(str(resources.files(__package__))) / "windows.json"
    """File to write."""


def main(options: Settings) -> None:
    """Write ``windows.json``."""
    write_windows(make_windows(options.logs), options.output)


if __name__ == "__main__":
    run_script(main)
