"""The measurements of rows.py: each function returns samples by name, and compiles kernels before it measures.

CPU seconds throughout.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import growth
import gymnasium
from environment import cartpole_rate, cluster_rates, episode_seconds, interval_rate, random_play, rate_of, ratios
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from memory import array_bytes, growth_bytes, long_run
from poisson_jobs import poisson
from vector import batch_rate, family_rates, first_feasible_rate, rollout_share

from gpusched_env import make_scheduler, simulate
from gpusched_env.metrics import mean_jct_bound, summarise, validate
from gpusched_env.network import TopologySpec, build_topology
from gpusched_env.problem.cluster import Cluster
from gpusched_env.scenarios import get_scenario

Samples = dict[str, list[float]]
CARTPOLE_STEPS: Final = 10_000  # per sample


def single(steps: int, repeats: int) -> Samples:
    """One environment and CartPole-v1, alternately; the samples ``chosen`` include the time to choose actions."""
    cluster_rates(200)
    found: Samples = {"cartpole": [], "rate": [], "chosen": []}
    for _ in range(repeats):
        found["cartpole"].append(cartpole_rate(steps))
        alone, chosen = cluster_rates(steps)
        found["rate"].append(alone)
        found["chosen"].append(chosen)
    return found | {
        "ratio": ratios(found["rate"], found["cartpole"]),
        "chosen_ratio": ratios(found["chosen"], found["cartpole"]),
    }


def batch(scenario: str, steps: int, repeats: int, environments: int = 256) -> Samples:
    """A batch on one thread and CartPole-v1, alternately."""
    batch_rate(scenario, 2, 2)
    found: Samples = {"cartpole": [], "rate": []}
    for _ in range(repeats):
        found["cartpole"].append(cartpole_rate(CARTPOLE_STEPS))
        found["rate"].append(batch_rate(scenario, environments, steps))
    return found | {"ratio": ratios(found["rate"], found["cartpole"])}


def resets(steps: int, repeats: int, running_window: int, environments: int = 256) -> Samples:
    """Milliseconds per reset, and steps per second of episodes that end and are reset."""
    first_feasible_rate(2, 2, running_window=running_window)
    pairs = [first_feasible_rate(environments, steps, running_window=running_window) for _ in range(repeats)]
    return {"reset_ms": [1e3 * reset_s for reset_s, _ in pairs], "rate": [rate for _, rate in pairs]}


def family(steps: int, problems: int, repeats: int, environments: int = 256) -> Samples:
    """Milliseconds per reset and steps per second of Family-v0, beside the same problems as fixed scenarios."""
    family_rates(2, 2, range(1))
    first = get_scenario("family-v1").seeds.report[0]
    found: Samples = {"reset_ms": [], "rate": [], "fixed": [], "ratio": []}
    for begin in range(first, first + repeats * problems, problems):
        reset_s, rate, fixed = family_rates(environments, steps, range(begin, begin + problems))
        for name, value in (("reset_ms", 1e3 * reset_s), ("rate", rate), ("fixed", fixed), ("ratio", rate / fixed)):
            found[name].append(value)
    return found


def rollout(steps: int, repeats: int) -> Samples:
    """The environment's share of the time of MaskablePPO's rollouts [%]."""
    rollout_share(2)
    return {"percent": [100 * rollout_share(steps) for _ in range(repeats)]}


def replay(case: dict[str, Any], repeats: int) -> Samples:
    """Replays of a case of growth.py, alternately with replays of a tenth of its jobs if it has ``tenth``."""
    found = growth.measure(growth.Case(**case), repeats)
    pairs = zip(found["seconds"], found["tenth_s"], strict=False)
    return {
        "seconds": found["seconds"],
        "tenth_s": found["tenth_s"],
        "growth": [whole / tenth for whole, tenth in pairs],
        "event_growth": [found["events"] / found["tenth_events"]] if found["tenth_events"] else [],
        "peak_GB": [found["peak_bytes"] / 1e9],
    }


def agent(jobs: int, repeats: int) -> Samples:
    """Episodes of the agent of environment.py."""
    episode_seconds(50)
    episodes = [episode_seconds(jobs) for _ in range(repeats)]
    return {
        "seconds": [episode["reset"] + episode["steps"] for episode in episodes],
        "reset_s": [episode["reset"] for episode in episodes],
        "summary_s": [episode["summary"] for episode in episodes],
        "steps": [episode["number"] for episode in episodes],
    }


def intervals(repeats: int) -> Samples:
    """Intervals of DelayTimers-v0."""
    interval_rate()
    return {"rate": [interval_rate() for _ in range(repeats)]}


def accounts(jobs: int, bounded: int, repeats: int) -> Samples:
    """Metrics and validation of a log with three events per job, and the bound on the mean JCT of other jobs."""
    instance, other = (poisson(count, 2_000, seed=0) for count in (jobs, bounded))
    log = simulate(instance, make_scheduler("fifo"))
    columns = other.workload.jobs["arrival_s"], other.workload.jobs["gpus"], other.ideal_s
    return {
        "summary_s": seconds(lambda: summarise(instance, log), repeats),
        "validation_s": seconds(lambda: validate(instance, log), repeats),
        "bound_s": seconds(lambda: mean_jct_bound(*columns, 2_000), repeats),
        "events": [len(log.events)],
    }


def topologies(repeats: int) -> Samples:
    """Compiling the links and routes of networks of 10,000 and 8,192 GPUs."""
    leaves, tree = Cluster.parse("1250x8/32"), Cluster.parse("1024x8/8")
    return {
        "leaf_spine_s": seconds(lambda: build_topology(TopologySpec(), leaves), repeats),
        "fat_tree_s": seconds(lambda: build_topology(TopologySpec("fat-tree"), tree), repeats),
    }


def seconds(call: Callable[[], object], repeats: int) -> list[float]:
    """Return the CPU seconds of ``repeats`` calls; one call before them, which imports modules, is not counted."""
    taken = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        call()
        taken.append(time.process_time() - begin)
    return taken[1:]


def wrappers(steps: int, repeats: int) -> Samples:
    """Microseconds per step, and those that each default wrapper of ``gymnasium.make`` adds, measured alternately."""
    stacks: dict[str, Callable[[Any], Any]] = {
        "none": lambda env: env,
        "checker": PassiveEnvChecker,
        "order": OrderEnforcing,
        "both": lambda env: OrderEnforcing(PassiveEnvChecker(env)),
    }
    bare = gymnasium.make("gpusched/Cluster-v0", scenario="philly-256-v1", queue_window=32).unwrapped
    actions, _ = random_play(bare, steps)
    taken: Samples = {name: [] for name in stacks}
    for _ in range(repeats):
        for name, stack in stacks.items():
            taken[name].append(1e6 / rate_of(stack(bare), actions))
    added = {
        f"{name}_us": [us - base for us, base in zip(taken[name], taken["none"], strict=True)]
        for name in ("checker", "order", "both")
    }
    return {"none_us": taken["none"]} | added


def memory(scenario: str = "philly-256-v1", environments: int = 256) -> Samples:
    """Kilobytes per environment of a batch: its arrays, and the growth of the process."""
    grown = growth_bytes(scenario, environments)  # first: later it could reuse memory that another batch has freed
    return {
        "arrays_kB": [array_bytes(scenario, environments) / environments / 1e3],
        "resident_kB": [grown / environments / 1e3],
    }


def flat(decisions: int) -> Samples:
    """Megabytes by which a process with a batch of 256 grows after a tenth of the decisions, and its final size."""
    sizes = [resident for _, resident, _ in long_run("philly-256-v1", 256, decisions)]
    return {"grown_MB": [(sizes[-1] - sizes[0]) / 1e6], "resident_MB": [sizes[-1] / 1e6]}
