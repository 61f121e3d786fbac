"""Scenarios with the set-up of Hadar's evaluation, as far as the set-up is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

TYPES: Final = ("V100", "P100", "K80")
GANGS: Final[dict[str, dict[str, Any]]] = {
    "gavel": {},  # the default gang sizes of the generator "hadar"
    "large": {"demand": {"1": 0.1, "2": 0.2, "4": 0.4, "8": 0.3}},  # 90 % of the jobs need several GPUs (choice)
}


def _hadar_cluster(**given: Any) -> Scenario:
    """Build a scenario with equally many machines of three GPU types and jobs that train Gavel's models.

    Notes
    -----
    All rates are measured, so there is no network model. The schedulers Hadar and Gavel implement rounds themselves;
    other schedulers decide at every event.

    References
    ----------
    Sultana et al., arXiv 2503.10918 and IPDPS 2024: cluster and job sizes, reconstructed (docs/hadar.md). Narayanan et
    al., OSDI 2020: throughputs.
    """
    p = SimpleNamespace(**given)
    parameters: dict[str, Any] = dict(GANGS[p.gangs])
    if p.arrivals != "static":
        parameters |= {"mean_gap_s": p.mean_gap_s, "bursty": p.arrivals == "philly"}
    if p.spread == "free":
        parameters["ignore_placement"] = True
    return Scenario(
        name="hadar",
        description="Three GPU types; gangs run on any of them, or on a mix. All jobs arrive at time 0.",
        groups=tuple(NodeGroup(p.nodes, 4, gpu_type) for gpu_type in TYPES),
        workload=WorkloadSpec("synthetic:hadar", parameters, profiles="own", jobs=p.jobs),
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=p.restore_s),
    )


HADAR: Final = ScenarioFamily(
    "hadar-60gpu-v1",
    _hadar_cluster,
    (
        Parameter("nodes", 5, "machines of four GPUs of each type", least=1, most=10_000, whole=True),
        Parameter("jobs", 480, "jobs of an episode", least=1, most=1_000_000, whole=True),
        Parameter("arrivals", "static", "static = all at time 0", values=("static", "poisson", "philly")),
        Parameter("mean_gap_s", 600.0, "mean seconds between arrivals, if not static", least=1e-3, most=1e9),
        Parameter("gangs", "gavel", "distributed jobs; large = 90 % need several GPUs", values=tuple(GANGS)),
        Parameter("spread", "measured", "rates of gangs on several machines", values=("measured", "free")),
        Parameter("restore_s", 10.0, "seconds without progress after a preemption", least=0, most=86_400),
    ),
)
hadar_cluster = HADAR.plain
