"""Every column of every observation array, recomputed in plain NumPy from the instance and the event log alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import FREE, mixed_profiles, small_scenario

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.registry import ALWAYS, ARRAYS
from gpusched_env.event_log import COMPLETE, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import job_times, segments
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario, WorkloadSpec

TABLES = {one.name: one.columns for one in ARRAYS if one.group is ALWAYS}

LONGEST = math.log1p(30 * 86_400 / 60)


def squash(seconds: Any) -> Any:
    return np.minimum(np.log1p(np.maximum(seconds, 0.0) / 60.0) / LONGEST, 1.0)


class TwoTypes(Scenario):
    """Two GPU types, nodes of different size, models whose speed differs between the types."""

    def instance(self, seed: int) -> Instance:
        drawn = super().instance(seed).workload
        rng = np.random.default_rng(seed)
        jobs = drawn.jobs.copy()
        jobs["profile"] = rng.integers(0, 3, len(jobs))
        workload = Workload(jobs, mixed_profiles(("A", "B")))
        return Instance(self.cluster, workload, self.network, self.semantics)


def two_types_scenario() -> Scenario:
    demand = {"1": 0.4, "2": 0.2, "4": 0.2, "6": 0.1, "9": 0.1}
    spec = WorkloadSpec(
        "synthetic:poisson",
        {"rate_per_s": 1 / 60, "mean_duration_s": 900.0, "demand": demand},
        profiles="unit",
        jobs=40,
    )
    groups = (NodeGroup(3, 4, "A", 2), NodeGroup(2, 2, "B", 1))
    return TwoTypes("two-types", "", groups, spec, semantics=Semantics(checkpoint_s=20.0, restore_s=50.0))


class Account:
    """State of each job at the current time, from the log."""

    def __init__(self, env: ClusterEnv) -> None:
        self.env, self.instance, self.log = env, env.simulation.instance, env.event_log()
        self.now = env.simulation.now_s
        jobs = self.instance.workload.jobs
        self.gang, self.arrival, self.cluster = jobs["gpus"], jobs["arrival_s"], self.instance.cluster
        self.times = job_times(self.instance, self.log, self.now)
        self.held = {int(s["job"]): s for s in segments(self.instance, self.log, self.now)}  # the last of each job
        fastest = self.instance.iteration_s.min(axis=2)[self.instance.job_class]
        self.ideal_iteration = (
            self.instance.ideal_s / self.instance.iterations
        )  # the ideal: tests/problem/test_gpu_types.py
        # a gang larger than every rack loses nothing by leaving a rack
        self.loss = np.maximum(1 - self.ideal_iteration[:, None] / fastest, 0.0)
        events = self.log.events
        last = {int(e["job"]): int(e["kind"]) for e in events}  # the latest event of each job
        self.holding = [j for j in last if last[j] in (START, RESUME, PREEMPT)]
        self.saving = [j for j in last if last[j] == PREEMPT]
        self.waiting = sorted(j for j in last if last[j] not in (START, RESUME, PREEMPT, COMPLETE))
        self.stopped = {int(e["job"]): float(e["time_s"]) for e in events if e["kind"] == RELEASE}
        self.finished = int((events["kind"] == COMPLETE).sum())
        self.skew = self.instance.workload.profiles.rows["skew"][jobs["profile"]]
        done = np.zeros(len(jobs))  # iterations
        for s in segments(self.instance, self.log, self.now):
            done[s["job"]] += max(s["stop_s"] - s["progress_s"], 0.0) / s["iteration_s"]
        self.left_s = np.maximum(self.instance.iterations - done, 0.0) * self.ideal_iteration

    def queue_row(self, j: int, fits: bool, clairvoyant: bool) -> list[float]:
        gpus, size = self.cluster.gpus, self.cluster.nodes["gpus"].max()
        count, left = self.times["preemptions"][j], self.left_s[j] * clairvoyant
        since = self.stopped.get(j, self.arrival[j])
        return [
            1, self.gang[j] / gpus, min(self.gang[j] / size, 1), squash(self.now - since),
            squash(self.now - self.arrival[j]), squash(self.times["service_s"][j] * self.gang[j] / gpus),
            count / (1 + count), squash(left), squash(left * self.gang[j] / gpus), self.loss[j, 1], self.loss[j, 2],
            self.skew[j], fits,
        ]  # fmt: skip

    def running_row(self, j: int, preemptible: bool, clairvoyant: bool) -> list[float]:
        gpus, held, left = self.cluster.gpus, self.held[j], self.left_s[j] * clairvoyant
        count = self.times["preemptions"][j]
        return [
            1, self.gang[j] / gpus, squash(self.now - held["hold_s"]),
            squash(self.times["service_s"][j] * self.gang[j] / gpus), count / (1 + count), squash(left),
            squash(left * self.gang[j] / gpus), held["tier"] / 2, self.placement_loss(j), j in self.saving, preemptible,
        ]  # fmt: skip

    def placement_loss(self, j: int) -> float:
        return 1 - self.ideal_iteration[j] / self.held[j]["iteration_s"]

    def free_by_node(self) -> np.ndarray:
        holder = self.env.simulation.arrays.holder[: self.cluster.gpus]
        return np.bincount(self.cluster.node_of_gpu[holder == FREE], minlength=len(self.cluster.nodes))

    def nodes(self) -> np.ndarray:
        nodes, racks, free = self.cluster.nodes, self.cluster.racks, self.free_by_node()
        by_rack = np.bincount(nodes["rack"], free, minlength=len(racks)) / racks["gpus"]
        size = nodes["gpus"] / nodes["gpus"].max()
        return np.stack([free / nodes["gpus"], size, by_rack[nodes["rack"]], nodes["rack"] / len(racks)], axis=1)

    def links(self) -> np.ndarray:
        rows = []
        for tier in range(3):
            here = [j for j in self.holding if self.held[j]["tier"] == tier]
            loss = np.mean([self.placement_loss(j) for j in here]) if here else 0.0
            rows.append([self.gang[here].sum() / self.cluster.gpus, len(here) / (1 + len(here)), loss])
        return np.array(rows)

    def whole(self, window: int) -> np.ndarray:
        gpus, nodes, free = self.cluster.gpus, self.cluster.nodes["gpus"], self.free_by_node()
        total, empty = free.sum(), free == nodes
        count, demand = len(self.waiting), int(self.gang[self.waiting].sum())
        beyond = max(count - window, 0)
        return np.array([
            total / gpus, empty.mean(), free.max() / nodes.max(), 1 - free[empty].sum() / total if total else 0.0,
            count / (32 + count), beyond / (32 + beyond), demand / (gpus + demand), len(self.holding) / gpus,
            (self.arrival <= self.now).mean(), self.finished / len(self.gang), self.gang[self.saving].sum() / gpus,
        ])  # fmt: skip


def expected(env: ClusterEnv) -> dict[str, np.ndarray]:
    account, windows = Account(env), env.windows
    queue = np.zeros((windows.queue_window, len(TABLES["queue"])))
    running = np.zeros((windows.running_window, len(TABLES["running"])))
    rules = len(windows.rules)
    for slot, job in enumerate(env.encoder.queue_slots.tolist()):
        if job >= 0:
            queue[slot] = account.queue_row(job, env.mask[slot * rules : (slot + 1) * rules].any(), windows.clairvoyant)
    for slot, job in enumerate(env.encoder.running_slots.tolist()):
        if job >= 0:
            preemptible = bool(env.mask[windows.first_preemption + slot])
            running[slot] = account.running_row(job, preemptible, windows.clairvoyant)
    cluster = account.whole(windows.queue_window)
    return {"queue": queue, "running": running, "nodes": account.nodes(), "links": account.links(), "cluster": cluster}


@pytest.mark.parametrize("clairvoyant", [True, False])
@pytest.mark.parametrize("make", [two_types_scenario, lambda: small_scenario(40)], ids=["two-types", "philly"])
def test_every_column_equals_its_definition(make: Any, clairvoyant: bool) -> None:
    env = ClusterEnv(make(), queue_window=6, running_window=5, rules=("random", "pack"), clairvoyant=clairvoyant)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=5)
    seen: dict[str, list[np.ndarray]] = {key: [] for key in TABLES}
    for _ in range(500):
        for key, value in expected(env).items():
            for number, column in enumerate(TABLES[key]):
                np.testing.assert_allclose(
                    observation[key][..., number],
                    value[..., number],
                    rtol=2e-5,
                    atol=2e-5,
                    err_msg=f"{key}.{column.name}",
                )
            seen[key].append(value)
        observation, _, terminated, truncated, _ = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        if terminated or truncated:
            break
    for key, values in seen.items():  # a constant column would not be tested
        flat = np.concatenate([v.reshape(-1, v.shape[-1]) for v in values])
        still = {column.name for column, spread in zip(TABLES[key], np.ptp(flat, axis=0), strict=True) if not spread}
        constant = set() if clairvoyant else {"remaining", "remaining_service"}
        assert still <= constant | ({"size"} if make is not two_types_scenario else set()), key


@pytest.mark.parametrize("order", ["arrival", "shortest", "longest", "least-attained", "most-attained"])
def test_windows_show_the_right_jobs_in_the_right_order(order: str) -> None:
    env = ClusterEnv(small_scenario(40), queue_window=4, running_window=4, queue_order=order, running_order=order)
    rng = np.random.default_rng(2)
    env.reset(seed=4)
    for _ in range(400):
        account = Account(env)
        attained = account.times["service_s"] * account.gang
        keys = {
            "arrival": np.zeros(len(attained)), "shortest": account.left_s, "longest": -account.left_s,
            "least-attained": attained, "most-attained": -attained,
        }  # fmt: skip
        key = np.round(keys[order], 6)
        best = sorted(account.waiting, key=lambda j: (key[j], j))[:4]
        assert [j for j in env.encoder.queue_slots.tolist() if j >= 0] == best
        shown = [j for j in env.encoder.running_slots.tolist() if j >= 0]
        if order == "arrival":
            assert shown == sorted(account.holding)[:4]
        else:  # ties: by start
            assert key[shown].tolist() == sorted(key[account.holding])[:4]
        _, _, terminated, truncated, _ = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        if terminated or truncated:
            break
