"""A small reference scheduler that makes event logs for tests of metrics, independent of the simulator.

It is no published system. Completions come before arrivals, and equal jobs go by row (docs/architecture.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpusched_env.event_log import ARRIVAL, COMPLETE, EVENT_DTYPE, PREEMPT, RELEASE, RESUME, START, EventLog
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload

Key = Callable[["Player", int], float]


class Player:
    """List scheduling: at every event start the jobs that fit in order of (key, row);
    preempt the others if asked to.
    """

    def __init__(self, instance: Instance, key: Key, preemptive: bool, strict: bool, seed: int | None) -> None:
        self.instance, self.key, self.preemptive, self.strict = instance, key, preemptive, strict
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.gang = instance.workload.jobs["gpus"].tolist()
        self.arrival = instance.workload.jobs["arrival_s"].tolist()
        self.left = instance.iterations.tolist()
        self.free = set(range(instance.cluster.gpus))
        self.waiting: set[int] = set()
        self.running: dict[int, dict] = {}  # job -> gang, when it progresses, when it stops, whether it is saving
        self.started: set[int] = set()
        self.replicas = set(range(instance.cluster.gpus))
        self.events: list[tuple] = []
        self.gpus: list[int] = []
        self.clock = 0.0

    def write(
        self, kind: int, job: int, value: float = 0.0, replica: int = -1, gang: tuple = (), tier: int = -1
    ) -> None:
        at = len(self.gpus) if gang else -1
        self.gpus.extend(gang)
        self.events.append((self.clock, value, at, kind, job, replica, len(gang), tier, 1))

    def play(self) -> EventLog:
        rules, arrived = self.instance.semantics, 0
        while True:
            times = [r["until"] for r in self.running.values()] + self.arrival[arrived : arrived + 1]
            if not times or min(times) > rules.time_limit_s:
                return EventLog(np.array(self.events, EVENT_DTYPE), np.array(self.gpus, np.int32))
            self.clock = min(times)
            for job in sorted(j for j, r in self.running.items() if r["until"] == self.clock):
                r = self.running.pop(job)
                self.free |= set(r["gang"])
                self.replicas.add(r["replica"])
                self.write(RELEASE if r["saving"] else COMPLETE, job, replica=r["replica"])
                if r["saving"]:
                    self.waiting.add(job)
            while arrived < len(self.arrival) and self.arrival[arrived] == self.clock:
                self.write(ARRIVAL, arrived)
                self.waiting.add(arrived)
                arrived += 1
            self.decide()

    def decide(self) -> None:
        active = [j for j, r in self.running.items() if not r["saving"]] if self.preemptive else []
        room = len(self.free) + sum(self.gang[j] for j in active)
        chosen = []
        for job in sorted([*active, *self.waiting], key=lambda j: (self.key(self, j), j)):
            if self.gang[job] <= room:
                chosen.append(job)
                room -= self.gang[job]
            elif self.strict:
                break
        for job in active:
            if job not in chosen:
                self.preempt(job)
        for job in chosen:
            if job in self.waiting and self.gang[job] <= len(self.free):
                self.start(job)

    def remaining(self, job: int) -> float:
        r = self.running.get(job)
        return self.left[job] - (max(self.clock - r["since"], 0.0) / r["iteration"] if r else 0.0)

    def preempt(self, job: int) -> None:
        r = self.running[job]
        self.left[job] = self.remaining(job)
        self.write(PREEMPT, job, self.left[job], r["replica"])
        r["saving"], r["until"] = True, self.clock + self.instance.semantics.checkpoint_s
        if r["until"] == self.clock:
            del self.running[job]
            self.free |= set(r["gang"])
            self.replicas.add(r["replica"])
            self.waiting.add(job)
            self.write(RELEASE, job, replica=r["replica"])

    def start(self, job: int) -> None:
        cluster = self.instance.cluster
        free = sorted(self.free)
        if self.rng is not None:
            self.rng.shuffle(free)
        gang = tuple(free[: self.gang[job]])
        nodes = {int(cluster.node_of_gpu[g]) for g in gang}
        racks = {int(cluster.nodes["rack"][n]) for n in nodes}
        tier = MACHINE if len(nodes) == 1 else RACK if len(racks) == 1 else NETWORK
        per_type = self.instance.iteration_s[self.instance.job_class[job], tier]
        iteration = max(per_type[cluster.nodes["gpu_type"][n]] for n in nodes)
        since = self.clock + (self.instance.semantics.restore_s if job in self.started else 0.0)
        replica = min(self.replicas)
        self.write(RESUME if job in self.started else START, job, since, replica, gang, tier)
        self.free -= set(gang)
        self.replicas.remove(replica)
        self.waiting.remove(job)
        self.started.add(job)
        until = since + self.left[job] * iteration
        self.running[job] = dict(
            gang=gang, since=since, iteration=iteration, until=until, saving=False, replica=replica
        )  # fmt: skip


def fifo(player: Player, job: int) -> float:
    return 0.0


def shortest_remaining(player: Player, job: int) -> float:
    return player.remaining(job) * player.instance.ideal_s[job] / player.instance.iterations[job]


def play(
    instance: Instance, key: Key = fifo, preemptive: bool = False, strict: bool = False, seed: int | None = None
) -> EventLog:
    """Make a log; ``seed`` shuffles the GPUs so that gangs spread over tiers."""
    return Player(instance, key, preemptive, strict, seed).play()


def unit_instance(arrival: list, gpus: list, duration: list, cluster: str = "1x4", **semantics: float) -> Instance:
    """An instance with the same durations on every placement; preemption is free unless ``semantics`` say otherwise."""
    rules = Semantics(**({"checkpoint_s": 0.0, "restore_s": 0.0} | semantics))
    return Instance(Cluster.parse(cluster), Workload.from_columns(arrival, gpus, duration), Network("none"), rules)


def communicating_profiles() -> Profiles:
    rows = [
        dict(name="a", batch=1, gradient_bytes=5e8, memory_bytes=0.0, skew=0.1, overlap=1.0, compute_s=0.25),
        dict(name="b", batch=1, gradient_bytes=2e9, memory_bytes=0.0, skew=0.1, overlap=2.0, compute_s=0.5),
        dict(name="c", batch=1, gradient_bytes=1e9, memory_bytes=0.0, skew=0.1, overlap=math.inf, compute_s=0.1),
    ]
    return Profiles.from_rows(rows)


def random_instance(seed: int, jobs: int = 60, cluster: str = "4x4/2", **semantics: float) -> Instance:
    """Jobs of three models that communicate, on a cluster of two racks."""
    rng = np.random.default_rng(seed)
    workload = Workload.from_columns(
        np.cumsum(rng.exponential(100.0, jobs)),
        rng.choice([1, 2, 3, 4, 8, 16], jobs, p=[0.4, 0.2, 0.1, 0.15, 0.1, 0.05]),
        rng.lognormal(5.0, 1.0, jobs),
        profiles=communicating_profiles(),
        profile=rng.integers(0, 3, jobs),
    )
    network = Network(bandwidth_GBps=(12.0, 3.0, 0.75), latency_s=(6e-6, 5e-5, 1e-4))
    return Instance(Cluster.parse(cluster), workload, network, Semantics(**semantics))


def instance_i() -> Instance:
    return unit_instance([0, 0, 1, 2, 3], [2, 4, 1, 2, 1], [10, 4, 6, 2, 20])
