"""The set-up on which Hadar was evaluated, as far as it is known, as a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpusched_env.cluster import NodeGroup
from gpusched_env.instance import Semantics
from gpusched_env.network import Network
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

TYPES: Final = ("V100", "P100", "K80")


def hadar_cluster(
    nodes: int = 5,
    jobs: int = 480,
    restore_s: float = 10.0,
    parameters: Mapping[str, Any] | None = None,
    name: str = "hadar-60gpu",
) -> Scenario:
    """Build the scenario: machines of four GPUs, as many of each of three types, and jobs of Gavel's models.

    Parameters
    ----------
    nodes : machines of each type
    jobs : number of jobs
    restore_s : seconds for which a resumed gang makes no progress; giving GPUs back is free
    parameters : of ``synthetic:hadar``; by default all jobs are there at time 0. ``{"mean_gap_s": 700}`` gives Poisson
        arrivals, ``"bursty": True`` besides those of Philly; ``{"ignore_placement": True}`` with ``restore_s=0`` is the
        setting of Gavel's simulator, in which spreading and moving a gang cost nothing

    Notes
    -----
    Every rate is measured, in one machine or spread over several, so the network decides nothing. Hadar, Gavel and
    others decide in rounds by themselves: schedulers that do not are asked at every event.

    References
    ----------
    Sultana et al., arXiv 2503.10918 and IPDPS 2024: cluster and job sizes, reconstructed. Narayanan et al., OSDI 2020:
    throughputs.
    """
    return Scenario(
        name=name,
        description="Three GPU types, gangs that run on any of them or on a mix; all jobs at time 0, makespan counts.",
        groups=tuple(NodeGroup(nodes, 4, gpu_type) for gpu_type in TYPES),
        workload=WorkloadSpec("synthetic:hadar", dict(parameters or {}), profiles="own", jobs=jobs),
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=restore_s),
    )
