"""Random runs on random networks: the rates in the log equal rates that NumPy computes from the gangs in the log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from helpers import mixed_profiles, two_types
from network_replay import instants, price

from gpusched_env.event_log import PREEMPT, RATE, EventLog
from gpusched_env.metrics import validate
from gpusched_env.network import COLLECTIVES, Contention, Network, NetworkChange, TopologySpec
from gpusched_env.network.collectives import MEASURED
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import MEASURED_DTYPE, Workload
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Start, Wait, simulate

MODELS = ("none", "maxmin", "maxmin", "maxmin", "maxmin", "kway", "flat", "table", "budget")
CLUSTERS = (Cluster.parse("6x4/2"), two_types((3, 2), (4, 2), 2), Cluster.parse("8x4/2"))


class Restless(Scheduler):
    """Start, preempt and wait at random; after 200 decisions only start, so that all jobs finish."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.decisions = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        rng = self.rng
        self.decisions += 1
        wild = self.decisions < 200
        running = view.running[~view.checkpointing]
        if not wild and view.semantics.slot_s:
            yield from map(Preempt, running[view.network.iteration_s(running) > view.semantics.slot_s].tolist())
        elif wild and rng.random() < 0.3:
            yield from map(Preempt, running[rng.random(len(running)) < 0.3].tolist())
        for job in rng.permutation(view.waiting).tolist():
            if rng.random() < 0.8:
                yield Start(job, str(rng.choice(["random", "spread", "pack"])) if wild else "pack")
                if rng.random() < 0.3 and len(view.running):
                    view.network.loads_Bps()  # questions change nothing
        yield Wait(view.now_s + float(rng.exponential(50.0)))


def three_spines(folder: Path) -> str:
    """A graph that is no tree:
    every leaf is joined to three spines, which carry a third of its bytes each; links differ.
    """
    graph = nx.Graph()
    for server in range(6):
        graph.add_edge(f"s{server}", f"leaf{server // 2}", GBps=1.0 + 0.1 * server)
        graph.nodes[f"s{server}"]["server"] = server
    for leaf in range(3):
        for spine in range(3):
            graph.add_edge(f"leaf{leaf}", f"spine{spine}", GBps=0.2 + 0.1 * spine, latency_s=1e-4)
    path = folder / "spines.json"
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    return str(path)


def draw(seed: int, folder: Path, jobs: int = 25) -> Instance:
    rng = np.random.default_rng(seed)
    kind = ("leaf-spine", "single-switch", "three-tier", "rail-optimised", "graph", "fat-tree")[seed % 6]
    ecmp = str(rng.choice(["ideal", "hashed"]))
    fields: dict[str, Any] = dict(nic_GBps=0.5, gpu_GBps=2.0, nics=int(rng.choice([1, 1, 2])))
    cluster = CLUSTERS[rng.integers(2)]
    if kind in ("leaf-spine", "three-tier", "rail-optimised"):
        fields |= dict(oversubscription=float(rng.choice([1, 2, 3, 4])), uplinks=int(rng.integers(1, 4)))
    if kind == "three-tier":
        fields |= dict(racks_per_pod=2, pod_oversubscription=2.0, pod_uplinks=2, hop_latency_s=1e-3)
    if kind == "rail-optimised":
        fields["nics"] = 2
    if kind == "graph":
        cluster, ecmp = CLUSTERS[0], "ideal"
        fields |= dict(path=three_spines(folder), nics=1)
    if kind == "fat-tree":
        cluster = Cluster.parse("16x2/2")
    if rng.random() < 0.4:
        fields["host_bus_GBps"] = 1.2
    fields["switch_share"] = (0.0, 0.8)[seed % 5 > 0]
    if seed % 4 == 1:
        fields |= dict(latency="measured", gpu_depth_s=2e-3, nic_depth_s=1e-2)
    model = str(rng.choice(MODELS))
    ratios = folder / "ratios.csv"
    names = "abc"
    rows = [f"{x},{y},{0.3 + 0.07 * (3 * i + j)}" for i, x in enumerate(names) for j, y in enumerate(names)]
    ratios.write_text("\n".join(["model_a,model_b,ratio", *rows]) + "\n")
    contention = Contention(
        model,
        duty=str(rng.choice(["always", "const", "solo"])),
        ecmp=ecmp,
        path_seed=seed,
        xi1=float(rng.choice([0.5, 1.0])),
        k_mode=str(rng.choice(["clamp", "affine", "raw"])),
        shared_loss=0.25,
        extra=0.6,
        ratios=str(ratios) if model == "table" else "",
    )
    measured = "latency" in fields
    network = Network(
        "topology",
        topology=TopologySpec(kind, **fields),
        contention=contention,
        collective=str(
            rng.choice(
                [
                    name
                    for name in (MEASURED if measured else COLLECTIVES)
                    if name != "nvls" or fields["switch_share"] > 0.0
                ]
            )
        ),
        profile_collectives=(("b", "nccl-tree" if measured else "hierarchical"),) if rng.random() < 0.3 else (),
        reduction_GBps=None if rng.random() < 0.5 else 10.0,
        machine_overhead_s=float(rng.choice([0.0, 0.01])),
        changes=draw_changes(seed, kind),
    )
    rules = Semantics(
        round_s=float(rng.choice([0.0, 0.0, 60.0])),
        checkpoint_s=float(rng.choice([0.0, 20.0])),
        restore_s=float(rng.choice([0.0, 30.0])),
        slot_s=float(rng.choice([0.0, 0.0, 60.0])),
        time_limit_s=float(rng.choice([np.inf, np.inf, 1500.0])),
    )
    profiles = mixed_profiles(cluster.gpu_types)
    if rng.random() < 0.3:  # the second model has been measured on two GPUs of two machines of a rack
        measured = [(1, gpu_type, 2, 1, 0.4, 0.5) for gpu_type in range(len(cluster.gpu_types))]
        profiles = replace(profiles, measured=np.array(measured, MEASURED_DTYPE))
    workload = Workload.from_columns(
        np.cumsum(rng.exponential(40.0, jobs) * (rng.random(jobs) < 0.7)),
        rng.choice([1, 2, 3, 4, 6, 8], jobs),
        iterations=rng.integers(20, 300, jobs).astype(float),
        profiles=profiles,
        profile=rng.integers(0, 3, jobs),
    )
    return Instance(cluster, workload, network, rules)


def draw_changes(seed: int, kind: str) -> tuple[NetworkChange, ...]:
    """In half of the runs links become slower, then faster again."""
    rng = np.random.default_rng([seed, 1])
    tier = "nic" if kind in ("single-switch", "graph") else str(rng.choice(["nic", "rack"]))
    times = rng.uniform(0.0, 3_000.0, 2)
    changes = (NetworkChange(times.max(), tier, float(rng.choice([1.0, 3.0]))), NetworkChange(times.min(), tier, 8.0))
    return changes if rng.random() < 0.5 else ()


def check(instance: Instance, log: EventLog) -> int:
    """Compare every interval of a log; return the number of rates logged after the first of each gang."""
    slot_s, maxmin = instance.semantics.slot_s, instance.network.contention.model == "maxmin"
    changes = 0
    for now in instants(instance, log):
        seconds, rates = price(instance, now.gangs, now.capacity)
        expected = {gang.job: options for gang, options in zip(now.gangs, seconds, strict=True)}
        for job, options in expected.items():
            found = now.told[job]
            assert any(found == pytest.approx(whole(pace, slot_s), rel=1e-9) for pace in options), (now.time_s, job)
        for rate in now.rates:
            job = int(rate["job"])
            assert job in expected, "a rate of a gang that does not run"
            assert now.before.get(job) != rate["value"], "a rate that has not changed"
            changes += job in now.before
        assert len(set(now.rates["job"].tolist())) == len(now.rates)
        assert {gang.job for gang in now.gangs} <= set(now.told)
        if maxmin:
            check_bottlenecks(instance, now, rates)
    return changes


def whole(iteration_s: float, slot_s: float) -> float:
    """Seconds of one iteration if only whole ones count in a slot."""
    if not slot_s:
        return iteration_s
    count = np.floor(slot_s / iteration_s)
    return slot_s / count if count else np.inf


def check_bottlenecks(instance: Instance, now: Any, rates: np.ndarray) -> None:
    capacity = now.capacity
    use = np.zeros_like(capacity)
    for gang, rate in zip(now.gangs, rates, strict=True):
        for link, weight in gang.use.items():
            use[link] += weight * rate
    assert (use <= capacity * (1 + 1e-9)).all()
    row_of = {gang.job: i for i, gang in enumerate(now.gangs)}
    for told in now.rates:
        i, link = row_of[int(told["job"])], int(told["gpu_at"])
        gang = now.gangs[i]
        if link < 0:
            assert rates[i] == pytest.approx(gang.solo_Bps, rel=1e-9)
            continue
        assert gang.use.get(link, 0) > 0
        assert use[link] == pytest.approx(capacity[link], rel=1e-9)
        there = [rate for other, rate in zip(now.gangs, rates, strict=True) if other.use.get(link)]
        assert rates[i] >= max(there) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(36))
def test_rates_follow_from_the_log_alone(seed: int, tmp_path: Path) -> None:
    instance = draw(seed, tmp_path)
    log = simulate(instance, Restless(seed), seed=seed)
    validate(instance, log)
    check(instance, log)


def test_the_replay_sees_contention_and_preemption(tmp_path: Path) -> None:
    """The test above would be vacuous if rates never changed."""
    changes = preempted = 0
    models = set()
    for seed in range(12):
        instance = draw(seed, tmp_path)
        log = simulate(instance, Restless(seed), seed=seed)
        preempted += int((log.events["kind"] == PREEMPT).sum())
        changes += check(instance, log)
        models.add(instance.network.contention.model)
    assert changes > 200
    assert preempted > 50
    assert (log.events["kind"] == RATE).any()
