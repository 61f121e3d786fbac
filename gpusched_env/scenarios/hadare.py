"""Scenarios with the two small clusters of HadarE's evaluation, as far as the clusters are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.traces.generators.hadare_jobs import AWS_SPEEDS, LAB_SPEEDS, type_names


def hadare_cluster(lab: bool, jobs: int, speeds: str, copies: int, restore_s: float, merge_s: float) -> Scenario:
    """Build a scenario with one-GPU nodes of different GPU types and jobs that may run in several copies.

    References
    ----------
    Sultana et al., arXiv 2503.10918, reconstructed (docs/hadar.md).
    """
    types = type_names(LAB_SPEEDS if lab else AWS_SPEEDS)
    return Scenario(
        name="hadare",
        description=f"A few jobs on {len(types)} nodes of different speeds; a job may train in several copies.",
        groups=tuple(NodeGroup(1, 1, gpu_type) for gpu_type in types),
        workload=WorkloadSpec(
            "synthetic:hadare", {"lab": lab, "varied": speeds == "varied"}, profiles="own", jobs=jobs
        ),
        network=Network(model="none"),
        semantics=Semantics(
            checkpoint_s=0.0, restore_s=restore_s, start_s=restore_s, merge_s=merge_s, max_copies=copies
        ),
    )


def _family(name: str, lab: bool, speeds: str) -> ScenarioFamily:
    nodes = len(LAB_SPEEDS if lab else AWS_SPEEDS)
    build: Callable[..., Scenario] = partial(hadare_cluster, lab)
    return ScenarioFamily(
        name,
        build,
        (
            Parameter(
                "jobs", 5, "jobs of the mix; the paper has 1, 3, 4, 5, 8, 10, 12", least=1, most=1_000, whole=True
            ),
            Parameter(
                "speeds", speeds, "speeds of jobs on a GPU type; varied = x 0.8 to 1.25", values=("alike", "varied")
            ),
            Parameter("copies", nodes, "most copies of a job at the same time", least=1, most=nodes, whole=True),
            Parameter("restore_s", 10.0, "seconds without progress after each start", least=0, most=86_400),
            Parameter("merge_s", 5.0, "more such seconds if a job has several copies", least=0, most=86_400),
        ),
    )


HADARE: Final = (_family("hadare-aws-v0", False, "alike"), _family("hadare-lab-v0", True, "varied"))
