"""Scenarios with the set-ups of SJF-BSBF's evaluation, as far as the set-ups are known; jobs share GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.sharing import Sharing
from gpusched_env.traces.generators.pollux_jobs import JOBS

GPU_TYPE: Final = "T4"  # the paper uses RTX 2080 Ti, for which the iteration times are not known
GANGS: Final = ("tuned", "log")


def _simulated(**given: Any) -> Scenario:
    """Build a scenario with 16 machines of four GPUs and eight hours of jobs like those of Pollux's workloads.

    References
    ----------
    Luo et al., IWQoS 2024, arXiv 2407.13088, reconstructed (docs/sjf_bsbf.md). Qiao et al., OSDI 2021: jobs and
    iteration times.
    """
    p = SimpleNamespace(**given)
    if p.workload is None:
        parameters: dict[str, Any] = {"sharing": True, "relative_load": p.jobs / JOBS if p.load is None else p.load}
        if p.gangs == "log":
            parameters["realistic"] = True
        spec = WorkloadSpec("synthetic:pollux", parameters, profiles="own", jobs=p.jobs)
    elif p.load is not None or p.gangs != "tuned":
        raise ScenarioError(f"workload={p.workload} has arrivals and gangs of its own: leave out load and gangs")
    else:
        spec = WorkloadSpec(f"pollux-sharing:{p.workload}", profiles="own", jobs=p.jobs)
    description = "Jobs may share GPUs of 16 machines; an eight-hour workload like Pollux's."
    return _scenario(description, 16, spec, p.xi, p.limit, p.restore_s)


def _physical(**given: Any) -> Scenario:
    """Build a scenario with 4 machines of four GPUs; two thirds of the jobs take 1 to 8 GPUs, the others 12 or 16.

    References
    ----------
    Luo et al., IWQoS 2024, section on the physical cluster, reconstructed (docs/sjf_bsbf.md).
    """
    p = SimpleNamespace(**given)
    spec = WorkloadSpec("synthetic:bsbf", {"span_s": p.span_s, "batch_share": p.batch}, profiles="own", jobs=p.jobs)
    return _scenario("Jobs may share the 16 GPUs of a small cluster.", 4, spec, p.xi, p.limit, p.restore_s)


def _scenario(
    description: str, nodes: int, workload: WorkloadSpec, xi: float, limit: int, restore_s: float
) -> Scenario:
    """Build a scenario of one of the two families; iteration times are measured, so there is no network model."""
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
        "bsbf-sim-240-v1",
        _simulated,
        (
            Parameter("jobs", 240, "jobs of an episode of eight hours", least=1, most=1_000_000, whole=True),
            *_SHARING,
            Parameter("load", None, "arrival rate / 160 jobs in 8 h; default: all jobs in 8 h", least=0.01, most=100),
            Parameter("gangs", "tuned", "gang sizes and batches: tuned by Pollux, or of Philly's log", values=GANGS),
            _RESTORE,
            Parameter("workload", None, "path of a Pollux workload file to play instead", text=True),
        ),
    ),
    ScenarioFamily(
        "bsbf-physical-30-v1",
        _physical,
        (
            Parameter("jobs", 30, "jobs of an episode", least=1, most=1_000_000, whole=True),
            *_SHARING,
            Parameter("span_s", 1_200.0, "seconds over which jobs arrive; also try 7200", least=0, most=1e9),
            Parameter("batch", 0.5, "samples on a GPU / samples that fill its memory", least=1e-6, most=1),
            _RESTORE,
        ),
    ),
)
simulated, physical = (family.plain for family in SJF_BSBF)
