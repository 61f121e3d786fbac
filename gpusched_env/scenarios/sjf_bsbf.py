"""Scenarios with the set-ups of SJF-BSBF's evaluation, as far as the set-ups are known; jobs share GPUs."""

from __future__ import annotations

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


def simulated(
    jobs: int = 240,
    xi: float = 1.5,
    limit: int = 2,
    load: float | None = None,
    gangs: str = "tuned",
    restore_s: float = 30.0,
    workload: str | None = None,
) -> Scenario:
    """Build a scenario with 16 machines of four GPUs and eight hours of jobs like those of Pollux's workloads.

    Parameters
    ----------
    jobs : number of jobs; Pollux publishes eight-hour workloads of 80, 160, 240 and 320 jobs
    xi : slowdown of every pair of jobs that share a GPU
    limit : largest number of jobs that share a GPU
    load : arrival rate in units of 160 jobs per eight hours; None = ``jobs`` jobs arrive in eight hours
    gangs : "tuned" = gang sizes and batches that Pollux tuned; "log" = gang sizes of the Philly log, initial batches
    restore_s : time without progress after a preemption [s]; the scheduler SJF-BSBF never preempts
    workload : path of one of Pollux's workload files, whose first ``jobs`` jobs are used; None = draw similar jobs

    Raises
    ------
    ScenarioError : ``load`` or ``gangs`` is given together with ``workload``, which determines both

    References
    ----------
    Luo et al., IWQoS 2024, arXiv 2407.13088, reconstructed (docs/sjf_bsbf.md). Qiao et al., OSDI 2021: jobs and
    iteration times.
    """
    if workload is None:
        parameters: dict[str, Any] = {"sharing": True, "relative_load": jobs / JOBS if load is None else load}
        if gangs == "log":
            parameters["realistic"] = True
        spec = WorkloadSpec("synthetic:pollux", parameters, profiles="own", jobs=jobs)
    elif load is not None or gangs != "tuned":
        raise ScenarioError(f"workload={workload} has arrivals and gangs of its own: leave out load and gangs")
    else:
        spec = WorkloadSpec(f"pollux-sharing:{workload}", profiles="own", jobs=jobs)
    description = "Jobs may share GPUs of 16 machines; an eight-hour workload like Pollux's."
    return _scenario(description, 16, spec, xi, limit, restore_s)


def physical(
    jobs: int = 30,
    xi: float = 1.5,
    limit: int = 2,
    span_s: float = 1_200.0,
    batch: float = 0.5,
    restore_s: float = 30.0,
) -> Scenario:
    """Build a scenario with 4 machines of four GPUs; two thirds of the jobs take 1 to 8 GPUs, the others 12 or 16.

    Parameters
    ----------
    jobs, xi, limit, restore_s : as in :func:`simulated`
    span_s : length of the interval over which arrivals are uniform [s]
    batch : batch per GPU / largest batch that fits into its memory; with 1, two jobs fit on a GPU only with gradient
        accumulation

    References
    ----------
    Luo et al., IWQoS 2024, section on the physical cluster, reconstructed (docs/sjf_bsbf.md).
    """
    spec = WorkloadSpec("synthetic:bsbf", {"span_s": span_s, "batch_share": batch}, profiles="own", jobs=jobs)
    return _scenario("Jobs may share the 16 GPUs of a small cluster.", 4, spec, xi, limit, restore_s)


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
        simulated,
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
        physical,
        (
            Parameter("jobs", 30, "jobs of an episode", least=1, most=1_000_000, whole=True),
            *_SHARING,
            Parameter("span_s", 1_200.0, "seconds over which jobs arrive; also try 7200", least=0, most=1e9),
            Parameter("batch", 0.5, "samples on a GPU / samples that fill its memory", least=1e-6, most=1),
            _RESTORE,
        ),
    ),
)
