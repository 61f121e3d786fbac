"""Shared by tests of simulator, baselines and environment:
small instances, scripted schedulers, recounts of the state.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import PREEMPT, EventLog
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.failures import Burst, Failures
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.scenarios import Scenario, WorkloadSpec, get_scenario, scenario_from_dict
from gpusched_env.simulator import ClusterView, Decision, Outcome, Scheduler, Simulation, Start, simulate

FREE_PREEMPTION = {"checkpoint_s": 0.0, "restore_s": 0.0}
FREE, UNUSABLE = -1, -3


def plain_python_digests(module: str) -> list[str]:
    """Result of ``digests()`` of a test module in a fresh process without compilation (NUMBA_DISABLE_JIT)."""
    tests = Path(__file__).parents[1]
    paths = [tests.parent, tests / "support", tests / "references"]
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import {module} as t; print(*t.digests())"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def asked(scheduler: Any) -> Any:
    """The scheduler, played by its ``decide``, without its compiled loop."""
    scheduler.player = lambda _: None
    return scheduler


def check_refused_or_built(data: dict[str, Any]) -> None:
    """Check that a scenario file builds a scenario or raises a ScenarioError that names the file."""
    complaint = "ScenarioError: file.json"
    try:
        scenario_from_dict(data, "file.json").fingerprint()
    except GpuschedError as error:
        complaint = f"{type(error).__name__}: {error}"
    assert complaint.startswith("ScenarioError: file.json")


def unit_instance(
    arrival: Sequence[float],
    gpus: Sequence[int],
    duration: Sequence[float],
    cluster: str | Cluster = "1x4",
    **rules: Any,
) -> Instance:
    """An instance with the same durations on every placement; preemption is free unless ``rules`` say otherwise."""
    machines = Cluster.parse(cluster) if isinstance(cluster, str) else cluster
    workload = Workload.from_columns(arrival, gpus, duration)
    return Instance(machines, workload, Network("none"), Semantics(**(FREE_PREEMPTION | rules)))


def instance_i(**rules: Any) -> Instance:
    """Five jobs on four GPUs; tests/baselines/test_examples.py has their schedules by hand."""
    return unit_instance([0, 0, 1, 2, 3], [2, 4, 1, 2, 1], [10, 4, 6, 2, 20], "1x4", **rules)


def play(instance: Instance, scheduler: Scheduler | str, seed: int = 0, **parameters: Any) -> EventLog:
    """Run, validate, and return the log."""
    chosen = make_scheduler(scheduler, **parameters) if isinstance(scheduler, str) else scheduler
    log = simulate(instance, chosen, seed=seed)
    validate(instance, log)
    return log


def play_both(instance: Instance, spec: str) -> EventLog:
    """Run, validate, and return the log, which the compiled loop and ``decide`` must both give."""
    log = play(instance, spec)
    assert simulate(instance, asked(make_scheduler(spec))).digest() == log.digest()
    return log


def finish(instance: Instance, scheduler: Scheduler | str, **parameters: Any) -> list[float]:
    """Finish times [s] by job row."""
    times: list[float] = job_times(instance, play(instance, scheduler, **parameters))["finish_s"].tolist()
    return times


def first_starts(instance: Instance, scheduler: Scheduler | str, **parameters: Any) -> list[float]:
    """Times [s] of the first starts by job row."""
    times: list[float] = job_times(instance, play(instance, scheduler, **parameters))["first_start_s"].tolist()
    return times


def mean_jct(instance: Instance, scheduler: Scheduler | str, **parameters: Any) -> float:
    return float(job_times(instance, play(instance, scheduler, **parameters))["jct_s"].mean())


def preemptions(log: EventLog) -> int:
    return int((log.events["kind"] == PREEMPT).sum())


def two_types(
    counts: tuple[int, int] = (2, 2), sizes: tuple[int, int] = (4, 2), per_rack: int | None = None
) -> Cluster:
    """Two node groups of different size and GPU type."""
    return Cluster([NodeGroup(counts[0], sizes[0], "A", per_rack), NodeGroup(counts[1], sizes[1], "B", 1)])


def mixed_profiles(gpu_types: tuple[str, ...] = ("V100",)) -> Profiles:
    """Three models that communicate; the fastest model differs between GPU types."""
    compute = ((0.25, 0.6), (0.5, 0.5), (0.3, 0.1))
    rows = [
        dict(name="a", batch=1, gradient_bytes=5e8, memory_bytes=0.0, skew=0.6, overlap=1.0),
        dict(name="b", batch=1, gradient_bytes=2e9, memory_bytes=0.0, skew=0.1, overlap=2.0),
        dict(name="c", batch=1, gradient_bytes=1e9, memory_bytes=0.0, skew=0.0, overlap=np.inf),
    ]
    rows = [row | {"compute_s": times[: len(gpu_types)]} for row, times in zip(rows, compute, strict=True)]
    return Profiles.from_rows(rows, gpu_types)


def random_workload(
    rng: np.random.Generator, jobs: int, largest: int, gpu_types: tuple[str, ...] = ("V100",), spacing_s: float = 100.0
) -> Workload:
    """Jobs of three models; some arrive together."""
    gaps = rng.exponential(spacing_s, jobs) * (rng.random(jobs) < 0.8)
    return Workload.from_columns(
        np.cumsum(gaps), rng.integers(1, largest + 1, jobs), rng.lognormal(5.0, 1.0, jobs),
        profiles=mixed_profiles(gpu_types), profile=rng.integers(0, 3, jobs),
    )  # fmt: skip


def random_instance(seed: int, jobs: int = 40, cluster: Cluster | None = None, **rules: Any) -> Instance:
    machines = cluster or Cluster.parse("4x4/2")
    rng = np.random.default_rng(seed)
    return Instance(machines, random_workload(rng, jobs, machines.gpus, machines.gpu_types), None, Semantics(**rules))


def tied_instance(seed: int, jobs: int = 24, cluster: str = "2x4") -> Instance:
    """Jobs of few sizes and lengths, some of which arrive together; many keys tie but for their last bits."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.integers(0, 6, jobs) * 33.1)
    duration = rng.integers(1, 5, jobs) * rng.choice([33.1, 100.7, 700.3], jobs)
    return unit_instance(arrival.tolist(), rng.choice([1, 2, 4], jobs).tolist(), duration.tolist(), cluster)


def small_scenario(jobs: int = 60, **changes: Any) -> Any:
    """philly-64-v1 with fewer jobs."""
    scenario = get_scenario("philly-64-v1")
    spec = scenario.workload
    return scenario.replace(workload=dataclasses.replace(spec, jobs=jobs), **changes)


def thirty_jobs(name: str) -> Scenario:
    """A registered scenario with thirty jobs."""
    whole = get_scenario(name)
    return whole.replace(workload=dataclasses.replace(whole.workload, jobs=30), tracked_window=None)


def failing(scenario: Scenario | str, gap_s: float = 1000.0, until_s: float | None = None) -> Scenario:
    """The scenario with a crash of any node every ``gap_s`` seconds, racks that fail less often, until ``until_s``."""
    plain = get_scenario(scenario) if isinstance(scenario, str) else scenario
    rate = 86_400_000.0 / gap_s / (sum(group.count for group in plain.groups) or 8)
    rules = dict(checkpoint_interval_s=gap_s / 3, checkpoint_cost_s=gap_s / 50, detection_s=gap_s / 30)
    bursts = (Burst(rate / 4, repair_s=gap_s / 5),)
    failures = Failures(rate, repair_s=gap_s / 2, repair_sigma=1.0, bursts=bursts, until_s=until_s)
    return plain.replace(semantics=dataclasses.replace(plain.semantics, **rules), failures=failures)


def linked_scenario(contention: str = "maxmin", jobs: int = 40, **fields: Any) -> Scenario:
    """Two racks of two machines below a spine, gangs of up to eight
    GPUs, and links slow enough for placement to matter.
    """
    demand = {"1": 0.2, "2": 0.2, "3": 0.2, "5": 0.2, "8": 0.2}
    spec = WorkloadSpec(
        "synthetic:poisson", {"rate_per_s": 1 / 60, "mean_duration_s": 600.0, "demand": demand}, jobs=jobs
    )
    topology = TopologySpec(nic_GBps=1.0, oversubscription=4.0, uplinks=2)
    network = Network("topology", topology=topology, contention=Contention(contention, **fields))
    return Scenario("linked", "", (NodeGroup(4, 4, nodes_per_rack=2),), spec, network)


class Script(Scheduler):
    """Play decisions at given times; ``refusals`` has the simulator's answer to each."""

    def __init__(self, script: dict[float, list[Decision]], then: str = "") -> None:
        self.script, self.then = script, then
        self.called_at: list[float] = []
        self.refusals: list[str] = []

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        self.called_at.append(view.now_s)
        for decision in self.script.get(view.now_s, []):
            yield decision
            self.refusals.append(view.refusal)
        if self.then:
            for job in view.waiting.tolist():
                yield Start(job, self.then)


def begin(instance: Instance, seed: int = 0) -> Simulation:
    """A simulation at its first decision point."""
    simulation = Simulation(instance, seed)
    assert simulation.advance() is Outcome.DECIDE
    return simulation


def state_bytes(simulation: Simulation) -> list[bytes]:
    """The state as bytes, without scratch fields and the fill level of the log buffer."""
    state, log = simulation.arrays, simulation.log()
    world, replicas, nodes = state.world.copy(), state.replicas.copy(), state.nodes.copy()
    for name in ("events", "event_gpus", "gpus_before"):
        world[name] = 0
    for name in ("benefit_s", "option", "offers"):
        replicas[name] = 0
    for name in ("gangs", "following", "hidden"):
        nodes[name] = 0
    apart = ("world", "replicas", "nodes", "chosen", "events", "event_gpus")
    kept = [name for name in state.fields if name not in apart]
    arrays = [world, replicas, nodes, log.events, log.gpus, *(getattr(state, name) for name in kept)]
    return [array.tobytes() for array in arrays]


def check_counts(simulation: Simulation) -> None:
    """Check that free counts and lists of the state equal a recount from ``holder``."""
    state, cluster = simulation.arrays, simulation.instance.cluster
    world = state.world
    holder = state.holder[: cluster.gpus * simulation.instance.gpu_jobs]
    assert (state.holder[len(holder) :] == FREE).all()
    layers = holder.reshape(-1, cluster.gpus)
    down = np.isin(cluster.node_of_gpu, np.flatnonzero(state.down))
    assert ((layers == UNUSABLE) == down & (layers < 0)).all(), "free GPUs of nodes that are down, and no others"
    assert world["down_gpus"] == (layers[0] == UNUSABLE).sum()
    assert ((layers[:-1] >= 0) | (layers[1:] < 0)).all(), "a layer is taken, and the one below it free"
    by_node = np.bincount(cluster.node_of_gpu[layers[0] == FREE], minlength=len(cluster.nodes))
    by_rack = np.bincount(cluster.nodes["rack"], by_node, minlength=len(cluster.racks))
    first_rack = len(cluster.nodes)
    assert state.free[: len(by_node)].tolist() == by_node.tolist()
    assert state.free[first_rack : first_rack + len(by_rack)].tolist() == by_rack.tolist()
    assert world["free_gpus"] == by_node.sum()
    running = state.running[: world["running"]].tolist()
    assert sorted(set(holder[holder >= 0].tolist())) == sorted(running)
    assert sorted(state.running.tolist()) == list(range(len(state.running)))
    for replica in running:
        row = state.replicas[replica]
        assert (holder == replica).sum() == row["gpus"]
        assert state.jobs[row["job"]]["replica"] == replica
        chain, gpu = [], row["first_gpu"]
        while gpu >= 0:
            chain.append(int(gpu))
            gpu = state.gpu_next[gpu]
        assert sorted(chain) == np.flatnonzero(holder == replica).tolist()
        assert len({gpu % cluster.gpus for gpu in chain}) == len(chain), "twice on one GPU"
    replicas = state.replicas[running]
    assert world["leases_over"] == replicas["lease_over"].sum()
    waiting = waiting_rows(state).tolist()
    assert waiting == sorted(set(waiting))
    assert len(waiting) + len(running) + world["finished"] == world["next_arrival"]


def ink(path: Path) -> float:
    """Share of the pixels of a saved picture (.png) that differ from its top left corner; 0 = nothing is drawn."""
    from matplotlib.image import imread

    pixels = imread(path)[:, :, :3]
    return float((pixels != pixels[0, 0]).any(axis=2).mean())
