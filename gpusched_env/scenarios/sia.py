"""The scenario of Sia's simulator: elastic jobs on 64 GPUs of three types, decisions every minute."""

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
from gpusched_env.traces.generators.pollux_jobs import JOBS

MOST_REQUESTED: Final = 16  # [GPU] largest gang that every GPU type of the cluster can hold
# [s] mean of the restart costs in Sia's simulator (cifar10 50, ncf 15, deepspeech2 25, bert 120, yolov3 80, imagenet
# 250), weighted by the shares of the applications in the generator
RESTART_S: Final = 45.0
SPEEDS: Final = ("fitted", "robust")
# Factors by which the authors slow jobs down to what they measured on their clusters (SLOWDOWNS, simulator_config.py)
CALIBRATION: Final = {"cifar10": 1.8, "ncf": 1.5, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2}
CALIBRATIONS: Final = ("none", "published")


def _sia(**given: Any) -> Scenario:
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
    elastic: dict[str, Any] = {"rule": "adaptive-batch"} | ({"speeds": p.speeds} if p.speeds != "fitted" else {})
    if p.calibration == "published":
        elastic["slowdowns"] = dict(CALIBRATION)
    common: dict[str, Any] = dict(profiles="own", jobs=p.jobs, max_gpus=MOST_REQUESTED, clip=True, elastic=elastic)
    if p.workload is None:
        parameters = {"relative_load": p.jobs / JOBS if p.load is None else p.load, "mixed_types": True}
        spec = WorkloadSpec("synthetic:pollux", parameters, **common)
    elif p.load is not None:
        raise ScenarioError(f"workload={p.workload} has arrivals of its own: leave out load")
    else:
        spec = WorkloadSpec(f"sia:{p.workload}", **common)
    return Scenario(
        name="sia-hetero",
        description="Elastic jobs on three GPU types: how many GPUs of which type should each job have?",
        groups=(NodeGroup(6, 4, "T4"), NodeGroup(3, 8, "RTX2080Ti"), NodeGroup(2, 8, "A100")),
        workload=spec,
        network=Network(model="none"),
        semantics=Semantics(
            round_s=p.round_s, checkpoint_s=0.0, restore_s=p.restart_s, start_s=p.restart_s, resize_s=p.restart_s
        ),
    )


SIA: Final = ScenarioFamily(
    "sia-hetero-v0",
    _sia,
    (
        Parameter("jobs", JOBS, "jobs of an episode of eight hours", least=1, most=1_000_000, whole=True),
        Parameter("load", None, "arrival rate / 160 jobs in 8 h; default: all jobs in 8 h", least=0.01, most=100),
        Parameter("round_s", 60.0, "seconds between decisions", least=1, most=86_400),
        Parameter("restart_s", RESTART_S, "seconds without progress after a gang gets its GPUs", least=0, most=86_400),
        Parameter("speeds", "fitted", "step times: of the fitted models, or of the robust fits", values=SPEEDS),
        Parameter("calibration", "none", "published = slower, as calibrated by Sia's authors", values=CALIBRATIONS),
        Parameter("workload", None, "path of a Sia workload file to play instead", text=True),
    ),
)
sia = SIA.plain
