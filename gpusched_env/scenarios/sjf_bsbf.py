"""The set-ups on which SJF-BSBF was evaluated, as far as they are known, as scenarios in which jobs share GPUs."""

from __future__ import annotations

from typing import Any, Final

from gpusched_env.cluster import NodeGroup
from gpusched_env.instance import Semantics
from gpusched_env.network import Network
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.sharing import Sharing
from gpusched_env.traces.generators.pollux_jobs import JOBS

GPU_TYPE: Final = "T4"  # the paper has RTX 2080 Ti, whose iteration times are not known
GANGS: Final = ("tuned", "log")


def simulated(
    jobs: int = 240,
    xi: float = 1.5,
    limit: int = 2,
    load: float | None = None,
    gangs: str = "tuned",
    restore_s: float = 30.0,
) -> Scenario:
    """Build a scenario: 16 machines of four GPUs, and eight hours of jobs like those of Pollux's workloads.

    Parameters
    ----------
    jobs : of the eight hours; Pollux publishes such workloads with 80, 160, 240 and 320
    xi : slowdown of every pair
    limit : jobs that may hold a GPU
    load : arrival times are scaled to it; None = eight hours, whatever the number of jobs
    gangs : "tuned" = gangs and batches as Pollux tuned them, "log" = those of Philly's log
    restore_s : seconds without progress after a preemption; only rivals preempt

    References
    ----------
    Luo et al., IWQoS 2024, arXiv 2407.13088, reconstructed (docs/sharing.md). Qiao et al., OSDI 2021: jobs and
    iteration times.
    """
    parameters: dict[str, Any] = {"sharing": True, "relative_load": jobs / JOBS}
    if gangs == "log":
        parameters["realistic"] = True
    workload = WorkloadSpec("synthetic:pollux", parameters, profiles="own", jobs=jobs, load=load)
    return _scenario("Jobs may share GPUs of 16 machines; an eight-hour workload like Pollux's.", 16, workload, xi,
                     limit, restore_s)  # fmt: skip


def _scenario(
    description: str, nodes: int, workload: WorkloadSpec, xi: float, limit: int, restore_s: float
) -> Scenario:
    """Build one of either family: iteration times are measured, so that the network decides nothing."""
    return Scenario(
        name="sjf-bsbf",
        description=description,
        groups=(NodeGroup(nodes, 4, GPU_TYPE),),
        workload=workload,
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=restore_s),
        sharing=Sharing(limit, xi),
    )


_SHARING: Final = (
    Parameter("xi", 1.5, "slowdown of every pair of jobs that share a GPU", least=1, most=100),
    Parameter("limit", 2, "jobs that may hold a GPU at the same time", least=1, most=8, whole=True),
)
_RESTORE: Final = Parameter("restore_s", 30.0, "seconds without progress after a preemption", least=0, most=86_400)
SJF_BSBF: Final = (
    ScenarioFamily(
        "bsbf-sim-240-v0",
        simulated,
        (
            Parameter("jobs", 240, "jobs of eight hours", least=1, most=1_000_000, whole=True),
            *_SHARING,
            Parameter("load", None, "offered load; eight hours of arrivals if not given", least=0.01, most=100),
            Parameter("gangs", "tuned", "sizes and batches: Pollux's, or Philly's log", values=GANGS),
            _RESTORE,
        ),
    ),
)
