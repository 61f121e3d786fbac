"""Pollux without interference avoidance, in its published simulator, with the package's search for allocations.

``PYTHONPATH=tests/support:tests/references python -m studies.pollux_crowding [WORKLOAD ...]``
prints the mean JCT of published workloads, by default all six, where
a job of several nodes loses half of its rate while one of them hosts another such job: as published, of the package,
and of this reference. In the reference, jobs measure step times and fit a model, as in the published simulator; the
search is that of the package (``published=true``). So it tells whether a difference comes from the search, or from what
the search is told and how jobs run. The last row has the times of the fewest nodes that hold a gang.

Written from petuum/adaptdl, branch osdi21-artifact, ``simulator/`` (simulator.py, pollux.py, goodput.py, speedup.py).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
import typer
from pollux_simulator import LEAST, NODE_GPUS, NODES, RESTART_S, Application, Placement, fewest_nodes, read, workload_at
from published import TRACES
from rich.console import Console
from rich.table import Table
from sia_simulator import BATCHES, Job, Rules, Simulator, Trained, gain_of, log_step, network

from gpusched_env.baselines.elastic.pollux.scheduler import Pollux, cost_terms
from gpusched_env.baselines.elastic.pollux.search import SEARCH_DTYPE, Search, search
from gpusched_env.metrics import job_times
from gpusched_env.scenarios import FAMILIES
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script

GPUS, POPULATION, GENERATIONS, LOSS = NODES * NODE_GPUS, 100, 100, 0.5
FIXED_BATCH = {"ncf": 32_768}  # of applications that have one GPU


class OnT4(Trained):  # type: ignore[misc]
    """What was measured of an application on T4, in Pollux's simulator."""

    def __init__(self, name: str, fewest: bool) -> None:
        Application.__init__(self, name)
        self.least, self.fewest = LEAST[name], fewest

    def most_on(self, placement: Placement) -> int:
        """Return the largest batch of a pass."""
        return self.most

    def most_of(self, gpus: int) -> float:
        """Return inf: the simulator cuts no batch to those that were measured."""
        return math.inf

    def step_s(self, placement: Placement, samples: int) -> tuple[float, float]:
        """Time of a step, and the part of it that synchronises."""
        if self.fewest and len(placement) > 1:
            placement = fewest_nodes(sum(placement))
        return Application.step_s(self, placement, samples)


@cache
def on_t4(name: str, fewest: bool) -> OnT4:
    """Return an application."""
    return OnT4(name, fewest)


@dataclass
class CrowdedJob(Job):  # type: ignore[misc]
    """A job of Pollux's cluster."""

    fewest: bool = False
    nodes: tuple[int, ...] = ()  # the node of each GPU
    attained_gpu_s: float = 0.0
    kind: str | None = "aws"

    def app(self, kind: str | None = None) -> Trained:
        """Return its application."""
        return on_t4(self.model, self.fewest)


class Crowded(Simulator):  # type: ignore[misc]
    """Pollux's cluster, in which gangs on a common node slow each other down."""

    def __init__(self, jobs: list[CrowdedJob], loss: float, seed: int) -> None:
        super().__init__(list(jobs), Rules())
        self.crowd, self.loss, self.seed, self.searches, self.kept = jobs, loss, seed, 0, 1
        self.states: dict[int, np.ndarray] = {}  # job -> its rows in the last front

    def play(self, job: Job) -> None:
        """Play one tick of a job, slower if one of its nodes hosts another gang of several nodes."""
        assert isinstance(job, CrowdedJob)
        if job is next(each for each in self.crowd if math.isinf(each.finish_s)):
            spread = [set(each.nodes) for each in self.crowd if len(each.placement) > 1]
            self.shared = {node for node in range(NODES) if sum(node in nodes for nodes in spread) > 1}
        lost = self.loss if len(job.placement) > 1 and self.shared & set(job.nodes) else 0.0
        job.slow = 1.0 / (1.0 - lost)
        job.attained_gpu_s += 60.0 * len(job.nodes)
        super().play(job)

    def choose_batch(self, job: Job) -> None:
        """Choose the batch of a job."""
        if job.model in FIXED_BATCH:
            job.m, job.extra = FIXED_BATCH[job.model] // 2, 1  # one GPU accumulates above the smallest batch
        else:
            super().choose_batch(job)

    def decide(self, active: list[Job]) -> None:
        """Search for an allocation, and restart the jobs whose nodes change."""
        jobs = [job for job in self.crowd if job in active]
        for job in self.crowd:
            if not math.isinf(job.finish_s):
                job.nodes, job.placement = (), ()
        if not jobs:
            return
        jobs.sort(key=lambda job: (job.attained_gpu_s, job.arrival_s))
        front = self.searched(jobs)
        for i, job in enumerate(jobs):
            nodes = tuple(int(node) for node in np.repeat(np.arange(NODES), front[0, i]))
            if nodes != job.nodes:
                job.nodes, job.placement = nodes, tuple(int(count) for count in front[0, i] if count)
                if nodes:
                    self.choose_batch(job)
                    job.restart_s = RESTART_S
                    job.restarts += 1

    def searched(self, jobs: list[CrowdedJob]) -> np.ndarray:
        """Return the front of Pareto of the search, int32 [F, jobs, nodes], the best allocation first."""
        present = np.array([[job.nodes.count(node) for node in range(NODES)] for job in jobs], np.int32)
        ages = np.array([self.now_s - job.arrival_s for job in jobs])
        restarts = np.array([max(job.restarts, 0) for job in jobs])
        changed = np.maximum(ages - RESTART_S * restarts, 0) / (ages + RESTART_S)
        speed_up = np.stack([speed_ups(job, math.ceil(GPUS / len(jobs))) for job in jobs]) * (NODES / GPUS)
        states = np.zeros((2 * POPULATION, len(jobs), NODES), np.int32)
        for i, job in enumerate(jobs):
            states[: self.kept, i] = self.states.get(id(job), 0)
        control = np.zeros((), SEARCH_DTYPE)
        seed = np.random.SeedSequence((self.seed, self.searches)).generate_state(1)[0]
        control["jobs"], control["nodes"], control["population"], control["random"] = len(jobs), NODES, 100, seed or 1
        control["survivors"], control["published"] = self.kept, 1
        task = Search(
            search=control,
            capacity=np.full(NODES, NODE_GPUS, np.int32),
            present=present,
            most=np.array([most_gpus(job) for job in jobs], np.int32),
            speed_up=speed_up,
            term=cost_terms(np.stack([speed_up, speed_up * changed[:, None, None]], axis=1), -1.0),
            states=states,
            cost=np.zeros(2 * POPULATION),
            waste=np.zeros(2 * POPULATION),
            front=np.zeros(2 * POPULATION, np.int32),
            gap=np.zeros(2 * POPULATION),
            last=np.zeros(2 * POPULATION, np.int32),
            order=np.arange(2 * POPULATION, dtype=np.int32),
            shuffled=np.zeros(NODES, np.int32),
            used=np.zeros(NODES, np.int32),
            there=np.zeros(NODES, np.int32),
        )
        search(task, GENERATIONS)
        order = task.order[: control["survivors"]]
        front: np.ndarray = task.states[order[task.front[order] == 0]]
        self.searches, self.kept = self.searches + 1, len(front)
        self.states = {id(job): front[:, i].copy() for i, job in enumerate(jobs)}
        return front


def most_gpus(job: CrowdedJob) -> int:
    """Return the largest number of GPUs that a job may have."""
    tried = max((gpus for seen in job.seen.values() for _, gpus, _ in seen), default=0)
    app = job.app()
    return 1 if job.model in FIXED_BATCH else min(max(2 * tried, 1), GPUS, app.last // app.least)


def speed_ups(job: CrowdedJob, fair: int) -> np.ndarray:
    """float64 [2, GPUS + 1]: goodput on one node and on several / that on a fair number of GPUs of one node."""
    if "aws" not in job.fits or job.stats is None:
        return np.tile(np.arange(GPUS + 1) / fair, (2, 1))
    app, p = job.app(), job.fits["aws"]
    gpus = np.arange(1, max(min(GPUS, app.last // app.least), 1) + 1)[:, None]
    low = np.maximum(app.first, app.least * gpus)
    share = low * (app.last / low) ** np.linspace(0, 1, BATCHES) / gpus
    extra = np.ceil(share / app.most - 1e-8) - 1
    extra[0] = np.where(share[0] > app.first + 1e-8, np.maximum(extra[0], 1), extra[0])
    m = np.ceil(share / (extra + 1) - 1e-8)
    compute, worth = p[0] + p[1] * m, app.first * gain_of(job.stats, app.first)(gpus * m * (extra + 1))
    found = np.zeros((2, GPUS + 1))
    for several in (0, 1):
        net = np.broadcast_to(network(p, 1.0 + several, gpus.astype(float)), compute.shape)
        goodput = worth / (extra * compute + np.exp(log_step(p, compute, net)))
        found[several, gpus[:, 0]] = np.where((app.least <= m) & (m <= app.most), goodput, 0.0).max(axis=1)
    return found / (found[0, fair] or found[0].max())


def mean_jct_s(
    workload: int, seed: int = 0, fewest: bool = False, loss: float = LOSS, count: int | None = None
) -> float:
    """Return the mean JCT of a published workload in the reference [s]."""
    rows = read(workload_at(1, workload))[:count]
    jobs = [CrowdedJob(str(row["application"]), float(row["time"]), 0, fewest=fewest) for row in rows]
    jcts = Crowded(jobs, LOSS, seed).run()
    return math.fsum(jcts) / len(jcts)


def package_s(workload: int, seed: int = 0) -> float:
    """Return the mean JCT of a published workload in the package [s]."""
    path = str(workload_at(1, workload))
    instance = (
        FAMILIES["pollux-64-v0"].plain(jobs=1_000, workload=path, speeds="measured", interference=LOSS).instance(0)
    )
    scheduler = Pollux(explores=True, published=True, avoidance=False, seed=seed)
    return float(job_times(instance, simulate(instance, scheduler))["jct_s"].mean())


def published_s(workload: int) -> float:
    """Return the published mean JCT [s]."""
    path = TRACES / "pollux" / "published" / "results-inter" / "inter50" / "summary.json"
    return float(json.loads(path.read_text(encoding="utf-8"))["avgs"][f"workload-{workload}"])


def main(workloads: Annotated[list[int], typer.Argument(show_default=False)] = [1, 2, 3, 4, 5, 6]) -> None:  # noqa: B006
    """Print the table."""
    table = Table("mean JCT \\[s]", *map(str, workloads), "mean", "difference")
    told = [published_s(workload) for workload in workloads]
    rows = {
        "published": told,
        "the package": [package_s(workload) for workload in workloads],
        "reference, seed 0": [mean_jct_s(workload) for workload in workloads],
        "reference, seed 1": [mean_jct_s(workload, 1) for workload in workloads],
        "reference, fewest nodes": [mean_jct_s(workload, fewest=True) for workload in workloads],
    }
    for name, values in rows.items():
        change = f"{100 * (sum(values) / sum(told) - 1):+.1f} %"
        table.add_row(name, *(f"{value:,.0f}" for value in values), f"{np.mean(values):,.0f}", change)
    Console(width=130).print(table)


if __name__ == "__main__":
    run_script(main)
