"""The runs of rows.py: each function returns samples by name, and compiles before it measures.

CPU seconds throughout. Replays are those of growth.py, at load .95 with preemption that costs nothing.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, Final

import gymnasium
import numpy as np
from environment import cartpole_rate, cluster_rate
from growth import poisson
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from memory import array_bytes, growth_bytes
from vector import batch_rate, rollout_share

from gpusched_env import Scheduler, Start, make_scheduler, simulate
from gpusched_env.cluster import Cluster
from gpusched_env.instance import Instance, Semantics
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.scenarios.registry import MANY_SIZES
from gpusched_env.traces import assign_profiles
from gpusched_env.workload import Workload

Samples = dict[str, list[float]]
CARTPOLE_STEPS: Final = 10_000  # of each sample
MACHINE: Final = 8  # [GPU]
RACK: Final = 25  # [machine]
LOAD: Final = 0.95
MAX_MIN: Final = Network("topology", topology=NETWORK_PRESETS["oversub4"].topology, contention=Contention("maxmin"))
# The gang sizes of leaf-spine-2048-v0, which share machines and racks. At load .95 FIFO's queue would grow for ever:
# contention makes jobs longer than their ideal run times (choice).
DEMAND: Final = {int(gang): share for gang, share in MANY_SIZES["demand"].items()}
CONTENDED_LOAD: Final = 0.8


def contended(jobs: int, gpus: int, seed: int = 0, load: float = CONTENDED_LOAD) -> Instance:
    """Draw jobs like ``poisson``, with larger gangs that train nine networks below a leaf-spine, max-min fair."""
    rng = np.random.default_rng(seed)
    gangs = rng.choice(list(DEMAND), jobs, p=list(DEMAND.values()))
    duration_s = np.ceil(rng.lognormal(7.0, 1.5, jobs))
    gap_s = (gangs * duration_s).mean() / (load * gpus)
    workload = Workload.from_columns(np.cumsum(rng.exponential(gap_s, jobs)), gangs, duration_s)
    cluster = Cluster.homogeneous(gpus // MACHINE, MACHINE, RACK)
    return Instance(cluster, assign_profiles(workload, "mix", rng), MAX_MIN, Semantics(checkpoint_s=0.0, restore_s=0.0))


def cpu_s(function: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds of a call [s]."""
    begin = time.process_time()
    function(*arguments)
    return time.process_time() - begin


def single(steps: int, repeats: int) -> Samples:
    """One environment and CartPole-v1 in turns."""
    cluster_rate(200)
    found: Samples = {"cartpole": [], "rate": []}
    for _ in range(repeats):
        found["cartpole"].append(cartpole_rate(steps))
        found["rate"].append(cluster_rate(steps))
    return found | {"ratio": [ours / theirs for ours, theirs in zip(found["rate"], found["cartpole"], strict=True)]}


def batch(scenario: str, steps: int, repeats: int, environments: int = 256) -> Samples:
    """A batch on one thread and CartPole-v1 in turns."""
    batch_rate(scenario, 2, 2)
    found: Samples = {"cartpole": [], "rate": []}
    for _ in range(repeats):
        found["cartpole"].append(cartpole_rate(CARTPOLE_STEPS))
        found["rate"].append(batch_rate(scenario, environments, steps))
    return found | {"ratio": [ours / theirs for ours, theirs in zip(found["rate"], found["cartpole"], strict=True)]}


def rollout(steps: int, repeats: int) -> Samples:
    """The environment's part of MaskablePPO's rollouts [%]."""
    rollout_share(2)
    return {"percent": [100 * rollout_share(steps) for _ in range(repeats)]}


def replay(scheduler: str, jobs: int, gpus: int, contended: bool, repeats: int) -> Samples:
    """Replays of all jobs and of a tenth of them in turns, their events, and the peak memory of the process."""
    draw = globals()["contended"] if contended else poisson
    whole, tenth, small = (draw(count, gpus, 0) for count in (jobs, jobs // 10, 50))
    simulate(small, make_scheduler(scheduler))
    found: Samples = {name: [] for name in ("seconds", "tenth_s", "events", "tenth_events")}
    for _ in range(repeats):
        for instance, name, events in ((tenth, "tenth_s", "tenth_events"), (whole, "seconds", "events")):
            begin = time.process_time()
            log = simulate(instance, make_scheduler(scheduler))
            found[name].append(time.process_time() - begin)
            found[events].append(len(log.events))
            del log  # before the next: the peak is that of one replay
    growth = [long / short for long, short in zip(found["seconds"], found["tenth_s"], strict=True)]
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # as Linux counts
    return found | {"growth": growth, "peak_GB": [peak_bytes / 1e9]}


class SmallestFirst(Scheduler):
    """The scheduler of README.md: plain Python, one decision after the other."""

    def decide(self, view: Any) -> Any:
        """Start whatever fits, smallest first."""
        for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
            yield Start(job, "pack")


def plain(jobs: int, gpus: int, repeats: int) -> Samples:
    """Replays by a scheduler in plain Python."""
    whole = poisson(jobs, gpus, 0)
    simulate(poisson(50, gpus, 0), SmallestFirst())
    return {"seconds": [cpu_s(simulate, whole, SmallestFirst()) for _ in range(repeats)]}


def agent(jobs: int, gpus: int, repeats: int) -> Samples:
    """Episodes of an agent that takes the first feasible action: the oldest job that fits, else wait."""
    spec = WorkloadSpec("synthetic:philly", {"max_duration_s": 43_200.0}, jobs=jobs, max_gpus=32, load=LOAD)
    cluster = Cluster.homogeneous(gpus // MACHINE, MACHINE, RACK)
    env = gymnasium.make("gpusched/Cluster-v0", scenario=Scenario("agent", "", cluster.groups, spec), running_window=0)
    found: Samples = {"seconds": [], "reset_s": [], "steps": []}
    for repeat in range(-1, repeats):  # the first compiles
        begin = time.process_time()
        _, info = env.reset(seed=200_000)
        begun = time.process_time()
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, info = env.step(int(info["action_mask"].argmax()))
            over, steps = terminated or truncated, steps + 1
        if repeat >= 0:
            found["reset_s"].append(begun - begin)
            found["seconds"].append(time.process_time() - begun)
            found["steps"].append(steps)
    return found


def wrappers(steps: int, repeats: int) -> Samples:
    """Microseconds of a step, and how many each wrapper of ``gymnasium.make`` adds, all in turns."""
    stacks: dict[str, Callable[[Any], Any]] = {
        "none": lambda env: env,
        "checker": PassiveEnvChecker,
        "order": OrderEnforcing,
        "both": lambda env: OrderEnforcing(PassiveEnvChecker(env)),
    }
    bare = gymnasium.make("gpusched/Cluster-v0", scenario="philly-256-v0", queue_window=32).unwrapped
    draws = np.random.default_rng(0).random(steps).tolist()

    def microseconds(env: Any) -> float:
        _, info = env.reset(seed=0)
        begin = time.process_time()
        for draw in draws:
            feasible = info["action_mask"].nonzero()[0]
            _, _, terminated, truncated, info = env.step(int(feasible[int(draw * len(feasible))]))
            if terminated or truncated:
                _, info = env.reset()
        return 1e6 * (time.process_time() - begin) / steps

    microseconds(bare)
    taken: Samples = {name: [] for name in stacks}
    for _ in range(repeats):
        for name, stack in stacks.items():
            taken[name].append(microseconds(stack(bare)))
    added = {
        f"{name}_us": [us - base for us, base in zip(taken[name], taken["none"], strict=True)]
        for name in ("checker", "order", "both")
    }
    return {"none_us": taken["none"]} | added


def memory(scenario: str = "philly-256-v0", environments: int = 256) -> Samples:
    """Kilobytes of an environment of a batch: its arrays, and what the process grows by."""
    return {
        "arrays_kB": [array_bytes(scenario, environments) / environments / 1e3],
        "resident_kB": [growth_bytes(scenario, environments) / environments / 1e3],
    }
