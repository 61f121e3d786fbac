"""Scenarios with tenants: the virtual clusters of Philly and of Venus, and a cohort of three queues."""

from __future__ import annotations

from typing import Final

from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

NODE_GPUS: Final = 8  # [GPU]
# Nodes of each virtual cluster of the processed Philly log: a quarter of those of HeliosArtifact's philly_vc.csv (an
# assumption of an earlier simulator, not part of the log). That file lacks the last four, which get one node (choice).
# The second number is the number of jobs in the processed log (62,861 in all).
PHILLY: Final[dict[str, tuple[int, int]]] = {
    "6214e9": (16, 41_226), "6c71a0": (8, 9_953), "b436b2": (16, 7_423), "103959": (2, 1_934), "ee9e8c": (16, 1_511),
    "2869ce": (4, 422), "e13805": (4, 374), "23dbec": (1, 8), "51b7ef": (1, 4), "795a4c": (1, 3), "925e2b": (1, 3),
}  # fmt: skip
# Nodes of each virtual cluster of Venus (Helios; HeliosData, venus_vc_config.csv). The log at hand does not name the
# virtual clusters of jobs, so jobs are drawn in proportion to the nodes (choice).
VENUS: Final = {
    "vcJsw": 32, "vcvGl": 20, "vcKeu": 12, "vcYVn": 11, "vcefl": 10, "vcEwI": 9, "vcHvQ": 8, "vcLTP": 8, "vc8Gr": 6,
    "vcWoR": 5, "vcKrE": 4, "vchbv": 4, "vchA3": 3, "vcvlY": 2, "vcgkz": 1,
}  # fmt: skip
HALF_DAY: Final = {"max_duration_s": 43_200.0}  # [s]


def philly(jobs: int, load: float) -> Scenario:
    """Build the scenario of Philly's eleven virtual clusters."""
    tree = [Tenant(name, quota=NODE_GPUS * nodes, demand=float(count)) for name, (nodes, count) in PHILLY.items()]
    nodes = sum(count for count, _ in PHILLY.values())
    return Scenario(
        name="tenants-philly",
        description="The eleven virtual clusters of Philly share one cluster; quotas are their nodes.",
        groups=(NodeGroup(nodes, NODE_GPUS, nodes_per_rack=10),),
        workload=WorkloadSpec("synthetic:philly", HALF_DAY, jobs=jobs, load=load, max_gpus=NODE_GPUS),
        tenants=Tenants(tuple(tree), by="virtual_cluster"),
    )


def venus(jobs: int, load: float) -> Scenario:
    """Build the scenario of Venus' fifteen virtual clusters."""
    tree = tuple(Tenant(name, quota=NODE_GPUS * nodes, demand=float(nodes)) for name, nodes in VENUS.items())
    return Scenario(
        name="tenants-venus",
        description="The fifteen virtual clusters of Venus share one cluster; quotas are their nodes.",
        groups=(NodeGroup(sum(VENUS.values()), NODE_GPUS, nodes_per_rack=15),),
        workload=WorkloadSpec("synthetic:helios-venus", HALF_DAY, jobs=jobs, load=load, max_gpus=NODE_GPUS),
        tenants=Tenants(tree, by="virtual_cluster"),
    )


def cohort(jobs: int, load: float, burst: float) -> Scenario:
    """Build the scenario of three queues that borrow from each other; jobs come in bursts of one queue."""
    tree = (
        Tenant("research", quota=128, demand=2.0),
        Tenant("product", quota=96, demand=1.0, lend=64),
        Tenant("students", quota=32, demand=1.0, borrow=96),
    )
    return Scenario(
        name="cohort-256",
        description="Three queues lend GPUs to each other, and each sends its jobs in bursts.",
        groups=(NodeGroup(32, NODE_GPUS, nodes_per_rack=8),),
        workload=WorkloadSpec("synthetic:philly", HALF_DAY, jobs=jobs, load=load, max_gpus=32),
        tenants=Tenants(tree, burst=burst),
    )
