"""The family of problems without number: cluster, network, jobs and cost of preemption are drawn for each seed."""

from __future__ import annotations

import dataclasses
from typing import Final

from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.scenarios.problems import FAMILY_SEEDS, GENERATOR
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.variation import Variation
from gpusched_env.scenarios.workload_spec import WorkloadSpec

JOBS: Final = 300
PHASES: Final = 6  # quiet and busy phases of the arrivals of an episode
RATE_PER_S: Final = 1.0  # [1/s] before arrival times are scaled to the load


def varying() -> Scenario:
    """Build the scenario that has another problem for each seed."""
    arrivals = {"rate_per_s": RATE_PER_S, "period_s": JOBS / RATE_PER_S / PHASES}
    spec = dataclasses.replace(NETWORK_PRESETS["oversub4"].topology, oversubscription=1.0)
    return Scenario(
        name="family",
        description="Each seed is another problem: cluster, network, load, jobs, GPU types and cost of preemption.",
        groups=(),
        workload=WorkloadSpec(GENERATOR, arrivals, profiles="sia-computed", jobs=JOBS),
        network=Network("topology", topology=spec, contention=Contention("maxmin")),
        seeds=FAMILY_SEEDS,
        variation=Variation(),
    )


def family(problem: int | None) -> Scenario:
    """Build the varying scenario, or the scenario of one of its problems."""
    return varying() if problem is None else varying().problem(problem)
