"""Scenarios with the set-ups of SJF-BSBF's evaluation, as far as the set-ups are known; jobs share GPUs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.elastic import pollux_jobs
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.sharing import Sharing

GPU_TYPE: Final = "T4"  # the paper uses RTX 2080 Ti, for which the iteration times are not known


def simulated(**given: Any) -> Scenario:
    """Build a scenario with 16 machines of four GPUs and eight hours of jobs like those of Pollux's workloads.

    References
    ----------
    Luo et al., IWQoS 2024, arXiv 2407.13088, reconstructed (docs/sjf_bsbf.md). Qiao et al., OSDI 2021: jobs and
    iteration times.
    """
    p = SimpleNamespace(**given)
    if p.workload is not None and (p.load is not None or p.gangs != "tuned"):
        raise ScenarioError(f"workload={p.workload} has arrivals and gangs of its own: leave out load and gangs")
    spec = pollux_jobs(p, "pollux-sharing", {"sharing": True} | ({"realistic": True} if p.gangs == "log" else {}))
    description = "Jobs may share GPUs of 16 machines; an eight-hour workload like Pollux's."
    return _scenario(description, 16, spec, p.xi, p.limit, p.restore_s)


def physical(**given: Any) -> Scenario:
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
