"""What the battery plays: a small scenario of each kind, and schedulers beside the registered ones."""

from __future__ import annotations

import dataclasses
from typing import Final

from gpusched_env.baselines import list_baselines
from gpusched_env.cluster import NodeGroup
from gpusched_env.scenarios import Scenario, get_scenario

SEED: Final = 200_000
# Kind of scenario -> a registered scenario, with parameters, and how many of its jobs are played.
KINDS: Final = {
    "tiers": ("philly-64-v1", 60),
    "links": ("leaf-spine-256-v1", 40),
    "delays": ("dally-poisson-v1", 60),
    "shapes": ("dally-authors-v1", 40),
    "rings": ("rar-160-v0", 30),
    "types": ("hadar-60gpu-v1", 30),
    "rounds": ("gavel-continuous-v1:gangs=mixed", 40),
    "copies": ("hadare-lab-v0", None),
    "sharing": ("bsbf-physical-30-v1", None),
    "sub-batches": ("bsbf-physical-30-v1:batch=1", None),
    "pairs": ("gavel-continuous-v1:sharing=true", 40),
    "overlap": ("leaf-spine-256-v1", 40),
}
# Variants whose arithmetic the registered names do not reach.
MORE: Final = {
    "tiers": (
        "sjf:estimator=noisy,sigma=0.5",
        "themis-lite:auction=true",
        "themis-lite:maxmin=true",
        "delay-zaharia:clock=offers",
    ),
    "delays": ("dally:preset=authors", "dally:preset=authors_published", "dally:preemption=victim"),
    "types": ("hadar:utility=inverse_remaining", "hadar:utility=effective_throughput_raw"),
    "rounds": (
        "gavel:policy=max_min_fairness_water_filling_perf",
        "gavel:policy=max_sum_throughput_perf",
        "gavel:policy=isolated",
        "gavel:policy=fifo",
        "gavel:tie_break=two_stage",
    ),
    "pairs": ("gavel:policy=max_min_fairness_packed", "gavel:policy=fifo_packed", "gavel:policy=gandiva"),
}
ENVIRONMENTS: Final = (
    "gpusched/Cluster-v0",
    "gpusched/NetworkSensitive-v0",
    "gpusched/RingAllReduce-v0",
    "gpusched/Heterogeneous-v0",
    "gpusched/Sharing-v0",
    "gpusched/DelayTimers-v0",
)


def small_scenario(kind: str) -> Scenario:
    """Give the scenario of a kind with few jobs."""
    name, jobs = KINDS[kind]
    scenario = get_scenario(name)
    workload = dataclasses.replace(scenario.workload, jobs=jobs or scenario.workload.jobs)
    if kind == "overlap":  # models whose compute hides a part of their communication, on links that are shared
        workload = dataclasses.replace(workload, profiles="pollux")
        scenario = scenario.replace(groups=(NodeGroup(32, 8, "T4", nodes_per_rack=8),))
    return scenario.replace(workload=workload, tracked_window=None)


def schedulers_of(kind: str) -> tuple[str, ...]:
    """Specs of the schedulers that play a kind."""
    scenario = small_scenario(kind)
    links, types = scenario.network.topology is not None, len(scenario.cluster.gpu_types) > 1
    return (*list_baselines(links, types, sharing=scenario.sharing is not None), *MORE.get(kind, ()))
