"""The scenario with the set-up of SJF-BCO's evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

# The paper draws the size of each server at random. Here, each size occurs five times, which gives 300 GPUs, the mean
# of such draws.
SERVERS: Final = (4, 8, 16, 32) * 5  # [GPU]


def ring_all_reduce(extra: float = 0.6, servers: Sequence[int] = SERVERS, name: str = "rar-160") -> Scenario:
    """Build the scenario: 160 jobs that all arrive at time 0, servers at one switch, slots of one second.

    Parameters
    ----------
    extra : strength of contention, the extra time by the worst contention and overhead / run time. The paper gives
        0.15, but an independent implementation needs 0.45 to 0.60 to reproduce the ranking of schedulers in the paper's
        figures
    servers : number of GPUs of each server, in the order of the servers
    name : name of the scenario

    Notes
    -----
    Only whole iterations count in a slot (equation 9). The paper does not allow preemption. Here, preemption is allowed
    and takes no time, so results of a preemptive scheduler are not comparable with the paper's. Each server is a rack
    of its own, because all servers are at one switch.

    References
    ----------
    Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with Communication
    Contention", MobiHoc 2022 (arXiv 2207.07817), section 7.
    """
    # The contention model "budget" ignores bytes. So ``extra`` of the workload, which determines gradient sizes, is 0.
    return Scenario(
        name=name,
        description="The ring-all-reduce jobs of SJF-BCO: all at time 0, for makespan; gangs contend for ports.",
        groups=tuple(NodeGroup(1, gpus) for gpus in servers),
        workload=WorkloadSpec("synthetic:ring-all-reduce", {"extra": 0.0}, profiles="own", jobs=160),
        network=Network(
            "topology",
            topology=NETWORK_PRESETS["sjfbco20"].topology,
            contention=Contention("budget", xi1=0.5, alpha=0.2, extra=extra),
        ),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0, slot_s=1.0),
    )
