"""The scenario of Dally's authors (Sharma et al., arXiv 2401.16492), and its other rates and links."""

from __future__ import annotations

from typing import Final

from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

# Choice, because the authors' number is not known. A step of the slowest model (0.01178 s per iteration) takes 177 s, a
# twentieth of a lease of one hour; a job can exceed its lease by one step.
STEP_ITERATIONS: Final = 15_000
MEAN_GAP_S: Final = 1_461.0  # [s] that of the generator, 59 jobs a day
NVSWITCH: Final = "nvswitch"
LINKS: Final = (NVSWITCH, "rings", "congested-25", "congested-50", "congested-100")


def build(mean_gap_s: float, links: str, jobs: int) -> Scenario:
    """Build the scenario; parameters with default values are left out of the workload, whose fingerprint is older."""
    return Scenario(
        name="dally-authors",
        description="Dally's simulator: cost by placement shape, work in whole steps, free preemption.",
        groups=(NodeGroup(32, 8, nodes_per_rack=8, slots=2),),
        workload=WorkloadSpec(
            "synthetic:dally",
            {} if mean_gap_s == MEAN_GAP_S else {"mean_gap_s": mean_gap_s},
            profiles="dally" if links == NVSWITCH else f"dally-{links}",
            jobs=jobs,
        ),
        network=Network("dimensions"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0, step_iterations=STEP_ITERATIONS),
    )


# 32 nodes of two slots, 256 GPUs, 4 racks; 411 jobs
AUTHORS: Final = ScenarioFamily(
    "dally-authors-v1",
    build,
    (
        Parameter(
            "mean_gap_s", MEAN_GAP_S, "mean time between arrivals [s]; 0 = all jobs at time 0", least=0, most=1_000_000
        ),
        Parameter("links", NVSWITCH, "links of each dimension, as in the profile rule dally-LINKS", values=LINKS),
        Parameter("jobs", 411, "jobs of an episode", least=2, most=1_000_000, whole=True),
    ),
)
