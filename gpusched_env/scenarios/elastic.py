"""Scenarios of elastic jobs: those of the simulators of Pollux, Sia and ElasticFlow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.traces.generators.pollux_jobs import JOBS

MOST_REQUESTED: Final = 16  # [GPU] largest gang that every GPU type of Sia's cluster can hold
# Factors by which Sia's authors slow jobs down to what they measured on their clusters (SLOWDOWNS, simulator_config.py)
CALIBRATION: Final = {"cifar10": 1.8, "ncf": 1.5, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2}
# Gang sizes of the 876 jobs of the virtual cluster 103959, as ElasticFlow publishes them (511, 35 and 330 jobs)
DEMAND: Final = {"1": 0.583, "2": 0.040, "4": 0.377}
LOAD: Final = 1.2  # of ElasticFlow's generated jobs


def pollux(**given: Any) -> Scenario:
    """Build a scenario with 16 machines of four T4 GPUs and eight hours of elastic jobs like those of Pollux.

    References
    ----------
    Qiao et al., OSDI 2021; petuum/adaptdl, branch osdi21-artifact, ``simulator/``.
    """
    p = SimpleNamespace(**given)
    network = Network(model="none")
    if p.interference:
        spread = Contention("flat", shared_loss=p.interference)
        network = Network("topology", topology=TopologySpec("single-switch"), contention=spread)
    return Scenario(
        name="pollux-64",
        description="Elastic jobs on 16 machines: how many GPUs should each job have?",
        groups=(NodeGroup(16, 4, "T4"),),
        workload=pollux_jobs(p, "pollux", elastic=_elastic(p, f"{p.batch}-batch")),
        network=network,
        semantics=_rounds(p),
    )


def sia(**given: Any) -> Scenario:
    """Build a scenario with the cluster of Sia's simulator and eight hours of elastic jobs like those of Pollux.

    The cluster has 6 x 4 T4, 3 x 8 RTX 2080 Ti and 2 x 8 A100. At each size and on each GPU type, a job has the batch
    with the largest goodput.

    Notes
    -----
    Larger requests than 16 GPUs are cut to 16, so that schedulers that know nothing of sizes can run every job on GPUs
    of one type. Deviation: Sia's simulator has a restart cost for each application.

    References
    ----------
    Jayaram Subramanya et al., SOSP 2023; siasosp23/artifacts, ``sia-simulator/``.
    """
    p = SimpleNamespace(**given)
    elastic = _elastic(p, "adaptive-batch")
    if p.calibration == "published":
        elastic["slowdowns"] = dict(CALIBRATION)
    return Scenario(
        name="sia-hetero",
        description="Elastic jobs on three GPU types: how many GPUs of which type should each job have?",
        groups=(NodeGroup(6, 4, "T4"), NodeGroup(3, 8, "RTX2080Ti"), NodeGroup(2, 8, "A100")),
        workload=pollux_jobs(p, "sia", {"mixed_types": True}, max_gpus=MOST_REQUESTED, clip=True, elastic=elastic),
        network=Network(model="none"),
        semantics=_rounds(p),
    )


def pollux_jobs(p: SimpleNamespace, form: str, parameters: dict[str, Any] | None = None, **fields: Any) -> WorkloadSpec:
    """Return jobs like those of Pollux's workloads, or those of a file.

    ``p`` : ``jobs``, ``load`` (arrival rate / 160 jobs in 8 h) and ``workload``, the path of the file or None.
    ``form``, ``parameters`` : format of the file, and further parameters of the generator.
    """
    if p.workload is None:
        rate = p.jobs / JOBS if p.load is None else p.load
        parameters = {"relative_load": rate} | (parameters or {})
        return WorkloadSpec("synthetic:pollux", parameters, profiles="own", jobs=p.jobs, **fields)
    if p.load is not None:
        raise ScenarioError(f"workload={p.workload} has arrivals of its own: leave out load")
    return WorkloadSpec(f"{form}:{p.workload}", profiles="own", jobs=p.jobs, **fields)


def _elastic(p: SimpleNamespace, rule: str) -> dict[str, Any]:
    return {"rule": rule} | ({"speeds": p.speeds} if p.speeds != "fitted" else {})


def _rounds(p: SimpleNamespace) -> Semantics:
    """Return decisions at rounds, and a restart whenever a gang gets GPUs."""
    restart_s = p.restart_s
    return Semantics(round_s=p.round_s, checkpoint_s=0.0, restore_s=restart_s, start_s=restart_s, resize_s=restart_s)


def elasticflow(**given: Any) -> Scenario:
    """Build a scenario with machines of eight A100, and jobs with ElasticFlow's measured speeds and deadlines.

    References
    ----------
    Gu et al., ASPLOS 2023; gudiandian/ElasticFlow, ``ElasticFlow/scheduler``.
    """
    p = SimpleNamespace(**given)
    cut: dict[str, Any] = {"profiles": "elasticflow", "jobs": p.jobs, "elastic": {"rule": "elasticflow"}}
    if p.workload is None:
        drawn = {"demand": DEMAND, "max_duration_s": 86_400.0}
        deadlines = {"least": p.least, "most": p.most, "share": p.share}
        load = LOAD if p.load is None else p.load
        spec = WorkloadSpec("synthetic:philly", drawn, load=load, deadlines=deadlines, **cut)
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
