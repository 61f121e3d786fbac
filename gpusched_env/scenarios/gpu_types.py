"""Scenarios with several GPU types, whose relative speeds depend on the model: those of Hadar, HadarE and Gavel."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, Final

from gpusched_env.network import NETWORK_PRESETS, Contention, Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.sharing import MEASURED, GavelPairs, Sharing, synthetic
from gpusched_env.traces.generators.hadare_jobs import AWS_SPEEDS, LAB_SPEEDS, type_names

TYPES: Final = ("V100", "P100", "K80")
GANGS: Final[dict[str, dict[str, Any]]] = {
    "gavel": {},  # the default gang sizes of the generator "hadar"
    "large": {"demand": {"1": 0.1, "2": 0.2, "4": 0.4, "8": 0.3}},  # 90 % of the jobs need several GPUs (choice)
}
GAVEL_WINDOW: Final = (4_000, 5_000)  # arrival ranks of the jobs that Gavel's authors measure, in steady state
# [h] time for which jobs arrive after the measured jobs, so that the cluster stays full while the measured jobs run.
# The longest job takes 167 h alone on a V100, and several times as long on a full cluster.
TAIL_H: Final = 400.0
# The racks of the common cell. Ids say nothing about speed: on average, all types have the same.
COMMON_RACKS: Final = ("RTX2080Ti", "QuadroRTX6000", "T4", "T4", "QuadroRTX6000", "RTX2080Ti")
COMMON_DEMAND: Final = {"1": 0.40, "2": 0.20, "4": 0.15, "8": 0.18, "16": 0.07}
# Of the seeds 0 to 9, that with which the median xi of the cell's six models is nearest to 1 + MEASURED.median
COMMON_XI: Final = dataclasses.replace(MEASURED, seed=3)
COMMON_WINDOW: Final = (200, 500)  # arrival ranks of the jobs that are measured, of 600


def hadar(**given: Any) -> Scenario:
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


def hadare(lab: bool, jobs: int, speeds: str, copies: int, restore_s: float, merge_s: float) -> Scenario:
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


def gavel_continuous(rate: float, gangs: str, jobs: int | None, sharing: str) -> Scenario:
    """Build the scenario of Gavel's continuous experiment: 36 V100, 36 P100 and 36 K80, Poisson arrivals.

    Preemption takes no time. With sharing, two one-GPU jobs may share a GPU at the rates that Gavel measured, and a job
    keeps its rate until its next lease.
    """
    shares = sharing == "true"
    count = GAVEL_WINDOW[1] + round(TAIL_H * rate) if jobs is None else jobs
    parameters = {"mean_gap_s": 3_600.0 / rate, "multi_gpu": gangs == "mixed", "ignore_placement": True}
    return Scenario(
        name="gavel-continuous",
        description="Jobs of Gavel's 26 models on three GPU types, measured in steady state.",
        groups=tuple(NodeGroup(9, 4, name) for name in TYPES),
        workload=WorkloadSpec("synthetic:gavel", parameters, profiles="own", jobs=count),
        network=Network(model="none"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0, pace_until_lease=shares),
        sharing=Sharing(limit=2, interference=GavelPairs()) if shares else None,
        tracked_window=GAVEL_WINDOW if count >= GAVEL_WINDOW[1] else None,
    )


def common(arrivals: str, load: float, measured: bool) -> Scenario:
    """Build the cell of docs/cells.md with GPU types, shared links and shared GPUs at once; its numbers are choices.

    ``measured`` : slowdowns of pairs are drawn as measured ones are distributed
    """
    parameters: dict[str, Any] = {
        "mean_duration_s": 7_200.0,
        "durations": "lognormal",  # heavy tails, so that attained service tells something about what remains
        "log_sigma": 1.5,
        "max_duration_s": 43_200.0,
        "demand": COMMON_DEMAND,
    }
    stream = arrivals == "stream"
    spec = dataclasses.replace(NETWORK_PRESETS["oversub4"].topology, gpu_GBps=12.0, nic_GBps=5.0, oversubscription=2.0)
    return Scenario(
        name="common",
        description="GPU types, shared links and shared GPUs at once, to compare schedulers of different papers.",
        groups=tuple(NodeGroup(4, 4, gpu_type, nodes_per_rack=4) for gpu_type in COMMON_RACKS),
        workload=WorkloadSpec(
            "synthetic:poisson" if stream else "synthetic:batch",
            parameters,
            profiles="sia-shared",
            jobs=600 if stream else 300,
            load=load if stream else None,
        ),
        network=Network("topology", topology=spec, contention=Contention("maxmin")),
        sharing=Sharing(limit=2, interference=COMMON_XI if measured else synthetic(0)),
        tracked_window=COMMON_WINDOW if stream else None,
    )
