"""Scenarios of jobs with deadlines: those of ElasticFlow's simulator, and Philly-like jobs with Amdahl's speed-up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

# Gang sizes of the 876 jobs of the virtual cluster 103959, as ElasticFlow publishes them (511, 35 and 330 jobs)
DEMAND: Final = {"1": 0.583, "2": 0.040, "4": 0.377}
JOBS: Final = 200
LOAD: Final = 1.2
OVERHEAD_S: Final = 8.0  # [s] what the authors charge a gang of four GPUs that gets new GPUs


def _elasticflow(**given: Any) -> Scenario:
    """Build a scenario with machines of eight A100, and jobs with ElasticFlow's measured speeds and deadlines.

    References
    ----------
    Gu et al., ASPLOS 2023; gudiandian/ElasticFlow, ``ElasticFlow/scheduler``.
    """
    p = SimpleNamespace(**given)
    cut: dict[str, Any] = {"profiles": "elasticflow", "jobs": p.jobs, "elastic": {"rule": "elasticflow"}}
    if p.workload is None:
        deadlines = {"least": p.least, "most": p.most, "share": p.share}
        spec = WorkloadSpec(
            "synthetic:philly",
            {"demand": DEMAND, "max_duration_s": 86_400.0},
            load=LOAD if p.load is None else p.load,
            deadlines=deadlines,
            **cut,
        )
    else:
        spec = WorkloadSpec(f"elasticflow:{p.workload}", load=p.load, **cut)
    return Scenario(
        name="elasticflow",
        description="Elastic jobs with deadlines on A100 machines: which jobs should be admitted?",
        groups=(NodeGroup(p.machines, 8, "A100"),),
        workload=spec,
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=p.overhead_s, start_s=p.overhead_s, resize_s=p.overhead_s),
    )


ELASTICFLOW: Final = ScenarioFamily(
    "elasticflow-v0",
    _elasticflow,
    (
        Parameter("jobs", JOBS, "number of jobs", least=1, most=1_000_000, whole=True),
        Parameter("machines", 16, "machines of eight GPUs", least=1, most=10_000, whole=True),
        Parameter(
            "load", None, "offered load of the requested gangs; default: 1.2, or as in the list", least=0.01, most=100
        ),
        Parameter("least", 0.5, "smallest deadline after the arrival / run time", least=0, most=1_000),
        Parameter("most", 1.5, "largest deadline after the arrival / run time", least=0, most=1_000),
        Parameter("share", 1.0, "share of jobs with a deadline", least=0, most=1),
        Parameter("overhead_s", OVERHEAD_S, "seconds without progress after a gang gets GPUs", least=0, most=86_400),
        Parameter("workload", None, "path of a job list of ElasticFlow to play instead", text=True),
    ),
)
elasticflow = ELASTICFLOW.plain
# 8 nodes, 64 GPUs; 200 jobs
SLO: Final = Scenario(
    name="slo-v0",
    description="Bursty elastic jobs like those of Philly with deadlines, on a small cluster; speeds follow Amdahl.",
    groups=(NodeGroup(8, 8, nodes_per_rack=4),),
    workload=WorkloadSpec(
        "synthetic:philly",
        {"max_duration_s": 43_200.0, "demand": {"1": 0.70, "2": 0.10, "4": 0.12, "8": 0.08}},
        profiles="unit",
        jobs=200,
        load=1.2,
        elastic={"rule": "amdahl", "serial": 0.05, "most": 32},
        deadlines={"least": 0.5, "most": 1.5, "share": 0.8},
    ),
    network=Network(model="none"),
    semantics=Semantics(checkpoint_s=0.0, restore_s=30.0, start_s=0.0, resize_s=30.0),
)
