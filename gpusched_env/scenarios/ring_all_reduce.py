"""Scenario with the set-up of SJF-BCO's evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpusched_env.cluster import NodeGroup
from gpusched_env.instance import Semantics
from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

# The paper draws each server's size at random. Here every size occurs five times: 300 GPUs, the mean of such draws.
SERVERS: Final = (4, 8, 16, 32) * 5  # [GPU]


def ring_all_reduce(extra: float = 0.6, servers: Sequence[int] = SERVERS, name: str = "rar-160") -> Scenario:
    """Build the scenario: 160 jobs that all arrive at time 0, servers at one switch, slots of one second.

    Parameters
    ----------
    extra : strength of contention: extra time by contention and overhead / run time, where both are worst. The paper
        says 0.15; an independent implementation needs 0.45 to 0.60 to get the order of the paper's figures
    servers : GPUs of each server, in the order of their indices

    Notes
    -----
    Only whole iterations count in a slot (equation 9). The paper has no preemption; here it is free, so a scheduler
    that preempts plays by other rules than the paper's. Each server is its own rack, because all are at one switch.

    References
    ----------
    Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with Communication
    Contention", MobiHoc 2022 (arXiv 2207.07817), section 7.
    """
    # The "budget" contention model ignores bytes, so the jobs' own ``extra``, which sizes their gradients, is 0.
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
