"""Scenarios with several GPU types whose relative speeds depend on the model."""

from __future__ import annotations

from typing import Final

from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.sharing import GavelPairs, Sharing

GAVEL_WINDOW: Final = (4_000, 5_000)  # arrival ranks of the jobs that Gavel's authors measure, in steady state
# [h] time for which jobs arrive after the measured jobs, so that the cluster stays full while the measured jobs run.
# The longest job takes 167 h alone on a V100, and several times as long on a full cluster.
TAIL_H: Final = 400.0


def gavel_continuous(rate: float, gangs: str, jobs: int | None, sharing: str) -> Scenario:
    """Build the scenario of Gavel's continuous experiment: 36 V100, 36 P100 and 36 K80, Poisson arrivals.

    Preemption takes no time. With sharing, two one-GPU jobs may share a GPU at the rates that Gavel measured, and a job
    keeps its rate until its next lease.
    """
    shares = sharing == "true"
    count = GAVEL_WINDOW[1] + round(TAIL_H * rate) if jobs is None else jobs
    parameters = {"mean_gap_s": 3_600.0 / rate, "multi_gpu": gangs == "mixed", "ignore_placement": True}
    return Scenario(
        name="gavel-continuous",
        description="Jobs of Gavel's 26 models on three GPU types, measured in steady state.",
        groups=tuple(NodeGroup(9, 4, name) for name in ("V100", "P100", "K80")),
        workload=WorkloadSpec("synthetic:gavel", parameters, profiles="own", jobs=count),
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0, pace_until_lease=shares),
        sharing=Sharing(limit=2, interference=GavelPairs()) if shares else None,
        tracked_window=GAVEL_WINDOW if count >= GAVEL_WINDOW[1] else None,
    )


HETEROGENEOUS: Final = (
    ScenarioFamily(
        "gavel-continuous-v1",
        gavel_continuous,
        (
            Parameter("rate", 4.0, "jobs per hour; about 5 overload most schedulers", least=0.01, most=100),
            Parameter(
                "gangs", "single", "single = one-GPU jobs; mixed = 1, 2, 4 and 8 GPUs", values=("single", "mixed")
            ),
            Parameter(
                "jobs",
                None,
                f"jobs of an episode; default: {GAVEL_WINDOW[1]} and {TAIL_H:g} h of arrivals. With at least "
                f"{GAVEL_WINDOW[1]} jobs, ranks {GAVEL_WINDOW[0]} to {GAVEL_WINDOW[1]} are measured, else all",
                least=1,
                most=1_000_000,
                whole=True,
            ),
            Parameter(
                "sharing",
                "false",
                "true = two one-GPU jobs may share a GPU, at the rates that Gavel measured",
                values=("false", "true"),
            ),
        ),
    ),
)
