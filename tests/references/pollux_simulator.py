"""Pollux's published simulator in plain Python, for its Tiresias and Optimus, which draw no random numbers.

``PYTHONPATH=tests/support python tests/references/pollux_simulator.py``
prints the mean JCT of the first workload at each load under Tiresias, with the
measured times of each placement, and with those of the fewest machines that hold the gang. Then it prints the mean JCT
of the first and the third workload under Optimus, as published, and with the exact remaining work, and how close two
gains come that are not equal (docs/portability.md, Rounded keys).

petuum/adaptdl, branch osdi21-artifact, simulator/{simulator,applications,tiresias,optimus,utils}.py. All constants,
orders and rounded numbers are those of that code: the first job or node among equals is that of ``max`` and of
``Counter.most_common`` there, and a gain is (step time - next step time) x remaining iterations, unrounded.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from published import TRACES
from scipy.interpolate import LinearNDInterpolator

TICK_S, RESTART_S = 60, 30
NODES, NODE_GPUS = 16, 4
QUEUE_GPU_S = 57_600  # [GPU s] attained by a job that moves to the second queue
MOST_NODES = 16  # a gang of more nodes is looked up as one of 16
LARGEST = {"yolov3": 8}  # [samples] in a pass on one GPU, where it is not the largest measured batch
LEAST = {"bert": 4, "cifar10": 32, "deepspeech2": 10, "imagenet": 20, "ncf": 32, "yolov3": 4}  # [samples] in a pass
EPOCHS = {"bert": 2, "cifar10": 100, "deepspeech2": 80, "imagenet": 90, "ncf": 10, "yolov3": 50}
Placement = tuple[int, ...]  # GPUs on each node of a gang


def read(path: Path) -> list[dict[str, float | str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Application:
    """What was measured of an application: its trainings by Pollux, and times in files with a suffix of a folder."""

    def __init__(self, name: str, times: Path | None = None, suffix: str = "") -> None:
        folder = TRACES / "pollux" / "measured" / name
        rows = {int(path.stem.split("-")[1]): read(path) for path in folder.glob("validation-*.csv")}
        self.trained = dict(sorted(rows.items()))  # batch of the gang -> a row for each epoch
        self.first, self.last = min(self.trained), max(self.trained)
        self.epochs = EPOCHS[name]
        self.name = name
        self.placed: dict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        means: dict[tuple[int, int, int], list[tuple[float, float]]] = defaultdict(list)
        for row in read((times or folder) / f"placements{suffix}.csv"):
            place, samples = str(row["placement"]), int(row["local_bsz"])
            took = float(row["step_time"]), float(row["sync_time"])
            if took[0] > 0:
                self.placed[place][samples] = took
                means[len(place), sum(map(int, place)), samples].append(took)
        self.most = LARGEST.get(name, max(samples for each in self.placed.values() for samples in each))
        points = [(*key, *np.mean(each, axis=0)) for key, each in means.items()]
        columns = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        scaled = [tuple(float(row[c]) for c in columns) for row in read((times or folder) / f"scalability{suffix}.csv")]
        self.scaled = [(int(n), int(r), int(m)) for n, r, m, *_ in scaled]
        points += scaled
        table = np.array([point for point in points if point[3] > 0])
        self.between = LinearNDInterpolator(table[:, :3], table[:, 3:])

    @cache  # noqa: B019 - there are six applications
    def step_s(self, placement: Placement, samples: int) -> tuple[float, float]:
        """Time of a step, and the part of it that synchronises."""
        placement = min(placement[i:] + placement[:i] for i in range(len(placement)))
        known = sorted(self.placed.get("".join(map(str, placement)), {}).items())
        if known:
            batches = [batch for batch, _ in known]
            assert batches[0] <= samples <= batches[-1]
            step, sync = (np.interp(samples, batches, [times[k] for _, times in known]) for k in (0, 1))
        else:
            step, sync = self.between([min(len(placement), MOST_NODES), sum(placement), samples])[0]
        return float(step), float(sync)

    @cache  # noqa: B019
    def gain(self, batch: int, epoch: int) -> float:
        """What an iteration is worth, in iterations at the smallest batch."""
        square, variance = self.gradient(batch, epoch)
        return (variance + square) / (variance * self.first / batch + square)

    @cache  # noqa: B019
    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient at the smallest batch, in an epoch of a training at ``batch``."""
        low = max(known for known in self.trained if known <= batch)
        high = min(known for known in self.trained if known >= batch)
        share = (batch - low) / (high - low) if high > low else 0.0
        square, variance = (
            share * float(self.trained[high][epoch][c]) + (1 - share) * float(self.trained[low][epoch][c])
            for c in ("grad_sqr", "grad_var")
        )
        return square, variance

    @cache  # noqa: B019
    def iteration(self, batch: int, epoch: int) -> float:
        """Iterations until the end of an epoch at a batch, linear between trained batches."""
        low = max(known for known in self.trained if known <= batch)
        high = min(known for known in self.trained if known >= batch)
        share = (batch - low) / (high - low) if high > low else 0.0
        ends = [float(self.trained[known][epoch]["iteration"]) for known in (low, high)]
        return share * ends[1] + (1 - share) * ends[0]

    @cache  # noqa: B019
    def progress(self, epoch: int) -> float:
        """Progress at the beginning of an epoch."""
        return min(float(rows[epoch - 1]["progress"]) for rows in self.trained.values()) if epoch else 0.0


@dataclass
class Job:
    """A job, and how far it is."""

    trains: Application
    arrival_s: float
    gpus: int
    batch: int
    finish_s: float = math.inf
    placement: Placement = ()
    restart_s: float = 0.0
    progress: float = 0.0
    epoch: int = 0
    held_s: float = 0.0

    def pass_of(self, gpus: int) -> tuple[int, int]:
        """Return the samples of a pass on each of ``gpus`` GPUs, and the number of passes of an iteration."""
        share = math.ceil(self.batch / gpus - 1e-8)
        passes = math.ceil(share / self.trains.most - 1e-8)
        if gpus == 1 and self.batch > self.trains.first:
            passes = max(passes, 2)
        return min(math.ceil(share / passes - 1e-8), self.trains.last // (gpus * passes)), passes

    def iteration_s(self, placement: Placement) -> float:
        """Time of an iteration on a placement."""
        samples, passes = self.pass_of(sum(placement))
        step, sync = self.trains.step_s(placement, samples)
        return step + (step - sync) * (passes - 1)

    def play(self, now_s: float, fewest: bool) -> None:
        """Play one tick."""
        paused = min(self.restart_s, TICK_S)
        self.restart_s -= paused
        at, left = now_s + paused, TICK_S - paused
        samples, passes = self.pass_of(self.gpus)
        iteration_s = self.iteration_s(fewest_nodes(self.gpus) if fewest else self.placement)
        while left > 0 and math.isinf(self.finish_s):
            rate = self.trains.gain(self.gpus * samples * passes, self.epoch) / iteration_s
            end = self.trains.progress(self.epoch + 1)
            if self.progress + rate * left < end:
                self.progress += rate * left
                return
            spent = round((end - self.progress) / rate)
            self.progress, self.epoch, at, left = end, self.epoch + 1, at + spent, left - spent
            if self.epoch == self.trains.epochs:
                self.finish_s = at


def fewest_nodes(gpus: int) -> Placement:
    """Return the placement of a gang on as few nodes as hold it."""
    return (*[NODE_GPUS] * (gpus // NODE_GPUS), *([gpus % NODE_GPUS] if gpus % NODE_GPUS else []))


class Tiresias:
    """Two queues by entry; a job moves to the second one for good, and what does not fit is skipped."""

    def __init__(self) -> None:
        self.queues: tuple[list[int], list[int]] = ([], [])
        self.running: set[int] = set()
        self.nodes: dict[int, list[int]] = {}  # job -> the node of each GPU

    def decide(self, jobs: list[Job], active: list[int]) -> None:
        """Allocate the GPUs, and restart the jobs whose GPUs change."""
        for queue in self.queues:
            queue[:] = [job for job in queue if job in active]
        self.queues[0].extend(job for job in active if job not in self.queues[0] + self.queues[1])
        for job in active:
            if job in self.running:
                jobs[job].held_s += TICK_S
                if job in self.queues[0] and jobs[job].held_s * jobs[job].gpus >= QUEUE_GPU_S:
                    self.queues[0].remove(job)
                    self.queues[1].append(job)
        before = {job: nodes for job, nodes in self.nodes.items() if job in active}
        left = NODES * NODE_GPUS
        self.running = set()
        for job in self.queues[0] + self.queues[1]:
            if jobs[job].gpus <= left:
                self.running.add(job)
                left -= jobs[job].gpus
        self.nodes = {job: nodes for job, nodes in before.items() if job in self.running}
        free = [NODE_GPUS] * NODES
        for nodes in self.nodes.values():
            for node in nodes:
                free[node] -= 1
        for job in self.queues[0] + self.queues[1]:
            if job in self.running and job not in self.nodes:
                self.nodes[job] = place(free, jobs[job].gpus)
        for job in active:
            if self.nodes.get(job) != before.get(job):
                nodes = self.nodes.get(job, [])
                jobs[job].placement = tuple(nodes.count(node) for node in dict.fromkeys(nodes))
                jobs[job].restart_s = RESTART_S


@dataclass
class Optimus:
    """GPUs one by one to the largest gain in time; small gangs choose their nodes first.

    ``exact`` False = as published: the remaining iterations are those after the epoch that a job is in, 1 in the last.
    """

    exact: bool = False
    closest: float = math.inf  # least relative distance of the largest gain to a smaller one
    nodes: dict[int, list[int]] = field(default_factory=dict)  # job -> the node of each GPU

    def left(self, job: Job) -> float:
        """Iterations that a job has left."""
        trains, epoch = job.trains, job.epoch
        last, end = trains.iteration(job.batch, trains.epochs - 1), trains.iteration(job.batch, epoch)
        if not self.exact:
            return max(last - end, 1.0)
        begin = trains.iteration(job.batch, epoch - 1) if epoch else 0.0
        first, following = trains.progress(epoch), trains.progress(epoch + 1)
        return last - begin - (end - begin) * (job.progress - first) / (following - first)

    def decide(self, jobs: list[Job], active: list[int]) -> None:
        """Allocate the GPUs, and restart the jobs whose GPUs change."""
        total = NODES * NODE_GPUS
        counts = {job: 1 if at < total else 0 for at, job in enumerate(active)}
        free = total - sum(counts.values())
        left = {job: self.left(jobs[job]) for job in active}

        def gain(job: int) -> float:
            trains, count = jobs[job].trains, counts[job]
            most = 1 if trains.name == "ncf" else min(jobs[job].batch // LEAST[trains.name], total)
            if count in (0, max(most, 1)):
                return 0.0
            return left[job] * (
                jobs[job].iteration_s(fewest_nodes(count)) - jobs[job].iteration_s(fewest_nodes(count + 1))
            )

        gains = {job: gain(job) for job in active}
        while free > 0 and max(gains.values(), default=0.0) > 0:
            best = max(gains, key=lambda job: gains[job])
            below = max((value for value in gains.values() if value < gains[best]), default=0.0)
            self.closest = min(self.closest, 1 - below / gains[best])
            counts[best] += 1
            free -= 1
            gains[best] = gain(best)
        before = {job: nodes for job, nodes in self.nodes.items() if job in active}
        self.nodes = {job: nodes for job, nodes in before.items() if counts[job] == len(nodes)}
        room = [NODE_GPUS] * NODES
        for nodes in self.nodes.values():
            for node in nodes:
                room[node] -= 1
        for job in sorted(active, key=lambda job: counts[job]):
            if counts[job] and job not in self.nodes:
                self.nodes[job] = place(room, counts[job])
        for job in active:
            if self.nodes.get(job) != before.get(job):
                nodes = self.nodes.get(job, [])
                jobs[job].gpus = max(len(nodes), 1)
                jobs[job].placement = tuple(nodes.count(node) for node in dict.fromkeys(nodes))
                jobs[job].restart_s = RESTART_S


def place(free: list[int], gpus: int) -> list[int]:
    """Take GPUs from the node with the most free ones, again and again."""
    nodes: list[int] = []
    while len(nodes) < gpus:
        node = free.index(max(free))
        taken = min(free[node], gpus - len(nodes))
        nodes += [node] * taken
        free[node] -= taken
    return nodes


def mean_jct_s(workload: Path, fewest: bool = False, policy: Tiresias | Optimus | None = None) -> float:
    """Return the mean JCT of a published workload under a policy, by default Tiresias [s].

    Parameters
    ----------
    fewest : True = gangs take the times of the fewest nodes that hold them, as in pollux-64-v0:speeds=measured
    """
    of_name: dict[str, Application] = {}
    jobs = []
    for row in read(workload):
        cells: dict[str, Any] = row
        name = cells["application"]
        application = of_name.setdefault(name, of_name.get(name) or Application(name))
        jobs.append(Job(application, float(cells["time"]), int(cells["num_replicas"]), int(cells["batch_size"])))
    policy, now_s = policy or Tiresias(), 0
    while any(math.isinf(job.finish_s) for job in jobs):
        for job in jobs:
            if job.placement and math.isinf(job.finish_s):
                job.play(now_s, fewest)
        now_s += TICK_S
        policy.decide(jobs, [j for j, job in enumerate(jobs) if job.arrival_s <= now_s and math.isinf(job.finish_s)])
    return math.fsum(job.finish_s - job.arrival_s for job in jobs) / len(jobs)


def workload_at(load: float, number: int = 1) -> Path:
    """Return the path of a published workload at a load."""
    return TRACES / "pollux" / ("workloads" if load == 1 else f"workloads-{load}") / f"workload-{number}.csv"


if __name__ == "__main__":
    for load in (0.5, 1.0, 1.5, 2.0):
        times = [mean_jct_s(workload_at(load), fewest) for fewest in (False, True)]
        print(f"load {load}: {times[0]:,.1f} s, with the times of the fewest machines {times[1]:,.1f} s")
    for number in (1, 3):
        policies = Optimus(), Optimus(exact=True)
        times = [mean_jct_s(workload_at(1, number), policy=policy) for policy in policies]
        print(f"Optimus, workload {number}: {times[0]:,.1f} s, with the exact remaining work {times[1]:,.1f} s")
        print(f"  two gains that are not equal differ by at least {policies[0].closest:.1g} of their value")
