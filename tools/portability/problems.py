"""The problems of the battery: a small scenario of each kind, and further variants of schedulers."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from gpusched_env.baselines import list_baselines
from gpusched_env.baselines.domains import needs_met
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.energy import Energy
from gpusched_env.scenarios import Scenario, get_scenario

SEED: Final = 200_000
# Kind of scenario -> a registered scenario with parameters, the number of its jobs that are simulated, and the number
# that are simulated with the kernels as plain Python.
KINDS: Final = {
    "tiers": ("philly-64-v1", 60, 60),
    "links": ("leaf-spine-256-v1", 40, 12),
    "delays": ("dally-poisson-v1", 60, 12),
    "shapes": ("dally-authors-v1", 40, 12),
    "rings": ("rar-160-v0", 30, 20),
    "types": ("hadar-60gpu-v1", 30, 8),
    "rounds": ("gavel-continuous-v1:gangs=mixed", 40, 8),
    "copies": ("hadare-lab-v0", None, 8),
    "sharing": ("bsbf-physical-30-v1", None, 8),
    "sub-batches": ("bsbf-physical-30-v1:batch=1", None, 8),
    "pairs": ("gavel-continuous-v1:sharing=true", 40, 6),
    "overlap": ("leaf-spine-256-v1", 40, 12),
    "sizes": ("pollux-64-v0", 8, 3),
    "sizes and types": ("sia-hetero-v0", 8, 3),
    "deadlines": ("slo-v0", 20, 4),
    "tenants": ("cohort-256-v0", 60, 8),
    "plans": ("llm-1024-h100-v0", 40, 2),  # of gangs that train LLMs; nodes fail, and energy is metered
}
# Variants with arithmetic that the registered schedulers do not use.
MORE: Final = {
    "links": ("learned",),
    "sizes": (
        "max-min",
        "afs",
        "afs-p",
        "optimus",
        "tiresias-elastic",
        "pollux:population=6,generations=4",
        "optimus:fit=2",
        "pollux:population=6,generations=4,power=0",
        "pollux:population=6,generations=4,explores=true,published=true",
        "hadar:elastic=true",
    ),
    "sizes and types": ("sia",),
    "deadlines": ("elasticflow", "edf", "edf-admission", "chronus"),
    "tiers": (
        "sjf:estimator=noisy,sigma=0.5",
        "delay-zaharia:clock=offers",
        "learned",
    ),
    "shapes": ("dally:preset=authors", "dally:preset=authors_published"),
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
    "gpusched/Steady-v0",
    "gpusched/NetworkSensitive-v0",
    "gpusched/RingAllReduce-v0",
    "gpusched/Heterogeneous-v0",
    "gpusched/Sharing-v0",
    "gpusched/Family-v0",
    "gpusched/DelayTimers-v0",
    "gpusched/Elastic-v0",
    "gpusched/Tenants-v0",
    "gpusched/Pretraining-v0",
)
# Together these use every kind of action, observation and reward: name -> the kind of scenario, the number of its jobs
# that are played, and arguments of gpusched/Cluster-v0.
EPISODES: Final[dict[str, tuple[str, int, dict[str, Any]]]] = {
    "rules": ("tiers", 20, dict(
        queue_window=4, running_window=0,
        rules=("count", "pack", "consolidate", "yarn", "rack", "spread", "random", "random-servers", "most-free"),
    )),
    "preemption": ("tiers", 12, dict(
        queue_window=6, running_window=4, rules=("pack", "spread"), queue_order="least-attained",
        running_order="start", reward="slowdown",
    )),
    "migration": ("tiers", 12, dict(
        queue_window=4, running_window=3, migration=True, queue_order="most-attained", running_order="shortest",
        mask_in_observation=True, reward="makespan",
    )),
    "waits": ("tiers", 12, dict(
        queue_window=4, running_window=2, delays_s=(30.0, 600.0), queue_order="longest",
        reward={"jct": 1.0, "slowdown": 0.5, "makespan": 0.25, "fairness": 0.1},
    )),
    "leases": ("tiers", 12, dict(queue_window=4, running_window=4, lease_s=3_600.0, running_order="least-attained")),
    "blind": ("delays", 12, dict(
        queue_window=4, running_window=3, rules=("consolidate", "rack"), delays_s=(600.0,), lease_s=3_600.0,
        clairvoyant=False, reward="fairness",
    )),
    "links": ("links", 12, dict(
        queue_window=4, running_window=4, rules=("contention", "least-busy", "least-busy-servers", "random-servers"),
        running_order="longest",
    )),
    "overlap": ("overlap", 12, dict(queue_window=4, running_window=4, rules=("pack", "spread"), migration=True)),
    "shapes": ("shapes", 12, dict(queue_window=4, running_window=2, rules=("pack", "random"))),
    "rings": ("rings", 12, dict(queue_window=4, running_window=4, rules=("contention", "spread"), reward="makespan")),
    "types": ("types", 12, dict(queue_window=4, running_window=4, rules=("fastest-type", "spread"), lease_s=360.0)),
    "rounds": ("rounds", 12, dict(queue_window=4, running_window=4, rules=("fastest-type", "pack"))),
    "copies": ("copies", 8, dict(queue_window=4, running_window=4, rules=("fork", "fastest-type"), lease_s=360.0)),
    "sharing": ("sharing", 14, dict(
        queue_window=4, running_window=2, rules=("pack", "share-first-fit", "share-best-benefit"), partner_window=3,
        running_order="longest",
    )),
    "sub-batches": ("sub-batches", 14, dict(
        queue_window=4, running_window=0, rules=("share-first-fit", "count"), partner_window=2, sub_batches=3,
        queue_order="shortest", pair_benefit=False,
    )),
    "sizes": ("sizes", 8, dict(queue_window=4, running_window=2)),
    "pairs": ("pairs", 12, dict(
        queue_window=4, running_window=2, rules=("share-best-benefit", "pack"), partner_window=3, lease_s=720.0,
    )),
    "sizes and types": ("sizes and types", 6, dict(queue_window=4, running_window=2, rules=("fastest-type", "pack"))),
    "deadlines": ("deadlines", 6, dict(queue_window=4, running_window=2, sizes=(1, 2, 4))),
    "deadlines met": ("deadlines", 6, dict(
        queue_window=4, running_window=2, extras=("queue_deadlines", "running_deadlines"), more_actions=("refuse",),
        reward="deadlines",
    )),
    "tenants": ("tenants", 12, dict(queue_window=4, running_window=2)),
    "limits": ("tenants", 20, dict(queue_window=6, running_window=4, tenant_window=3, limits=True, migration=True)),
    "plans": ("plans", 12, dict(
        queue_window=4, running_window=2, rules=("rails", "steady"), extras=("crashes",),
        reward={"jct": 1.0, "energy": 0.5, "cost": 0.1, "carbon": 0.1},
    )),
    "resizes": ("sizes", 8, dict(
        queue_window=4, running_window=4, rules=("pack", "random", "rack"), sizes=(1, 2, 3, 6, 12, 16, 48),
        least_run_s=0.0,
    )),
}  # fmt: skip


def small_scenario(kind: str, jobs: int | None = None) -> Scenario:
    """Return the scenario of a kind with ``jobs`` jobs; None = the number in KINDS."""
    name, usual, _ = KINDS[kind]
    scenario = get_scenario(name)
    workload = dataclasses.replace(scenario.workload, jobs=jobs or usual or scenario.workload.jobs)
    if kind == "overlap":  # compute hides part of the communication, and links are shared
        workload = dataclasses.replace(workload, profiles="pollux")
        scenario = scenario.replace(groups=(NodeGroup(32, 8, "T4", nodes_per_rack=8),))
    if kind == "plans":
        scenario = scenario.replace(energy=Energy(price="0.2", carbon="400"))
    return scenario.replace(workload=workload, tracked_window=None)


def schedulers_of(kind: str) -> tuple[str, ...]:
    """Return the specs of the schedulers that run on a kind of scenario."""
    met = needs_met(small_scenario(kind).instance(SEED)) | {"node-gangs"}  # refusals are results, too
    met -= {"sizes", "deadlines"}  # in MORE
    return (*list_baselines(met), *MORE.get(kind, ()))


def mixed_scenarios(count: int) -> list[Scenario]:
    """Return ``count`` scenarios, each with one node more than the previous scenario."""
    scenario = small_scenario("tiers", 12)
    (group,) = scenario.groups
    return [scenario.replace(groups=(dataclasses.replace(group, count=group.count + more),)) for more in range(count)]
