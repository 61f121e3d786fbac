"""Scenarios for delay scheduling, in which it matters whether a gang waits for a better placement; Dally's own."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from gpusched_env.network import NETWORK_PRESETS, Contention, Network, NetworkChange
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec

# Numbers without a source are choices; docs/scenarios.md gives the reasons.
MEAN_DURATION_S: Final = 18_000.0  # [s] ideal run time, exponential: median 3.5 h, so most jobs need several 1 h leases
JOBS: Final = 800  # number of jobs for 256 GPUs, about a week of arrivals
VENUS_JOBS: Final = 1_600  # number of jobs like those of Venus for 256 GPUs; more, because most take only minutes
LARGEST_GANG: Final = 64  # [GPU] number of GPUs of a rack
# These are shares of GPU time: 73 % for gangs of 8 to 32 GPUs; 33 % for gangs of 2 to 8 GPUs, which fit into a machine;
# 2 % for single GPUs.
DEMAND: Final = {
    "1": 0.18, "2": 0.14, "3": 0.04, "4": 0.16, "6": 0.06, "8": 0.16, "12": 0.06, "16": 0.11, "24": 0.04, "32": 0.04,
    "64": 0.01,
}  # fmt: skip
# In the first half, gangs are medium-sized; in the second half, there are single GPUs and a few large gangs. The mean
# gang has 7.4 GPUs in both halves, so the load stays the same.
EARLY_DEMAND: Final = {"1": 0.10, "2": 0.15, "4": 0.25, "8": 0.30, "16": 0.15, "24": 0.05}
LATE_DEMAND: Final = {
    "1": 0.46, "2": 0.15, "4": 0.12, "8": 0.07, "16": 0.09, "32": 0.08, "48": 0.02, "64": 0.01,
}  # fmt: skip
SWING: Final = 0.5  # the arrival rate alternates between 0.5 and 1.5 times its mean
PERIOD_S: Final = 86_400.0  # [s] period of that alternation: half a day at each rate
SLOWDOWN: Final = 8.0  # divisor of the rate of racks' uplinks in the second half of the scenario "drift"
CONGESTION: Final = 5.0  # divisor of the rate of racks' uplinks with a congested spine
FREE: Final = "free"  # communication costs nothing
BELOW, ABOVE = "below", "above"
# Racks have 32 GPUs. Most gangs fill neither machines nor racks, so waiting for one rack leaves GPUs idle: a rack holds
# only one gang of 20 GPUs.
GANGS: Final = {
    BELOW: {"4": 0.10, "8": 0.20, "12": 0.30, "20": 0.25, "24": 0.15},
    ABOVE: {"6": 0.20, "8": 0.20, "20": 0.30, "40": 0.20, "48": 0.10},
}
# The authors' number is not known. A step of the slowest model (0.01178 s per iteration) takes 177 s, a twentieth of a
# lease of one hour; a job can exceed its lease by one step.
STEP_ITERATIONS: Final = 15_000
MEAN_GAP_S: Final = 1_461.0  # [s] that of the authors' generator, 59 jobs a day


def leaf_spine(oversubscription: float, top: str) -> Network:
    """Build a leaf-spine network of servers with eight V100 and a 100 Gb/s port; gangs share links max-min fairly.

    With ``top`` "congested" and an oversubscription of 4, a gang that is alone on the network and is spread over racks
    communicates at 0.4 times the rate inside a rack. This is the ratio of 10 to 25 GB/s in an earlier revision of
    ArtISt-sim. The latency of that revision, 50 ms per step, is left out, because it would slow every model down
    regardless of the size of its gradient.
    """
    factor = CONGESTION if top == "congested" else 1.0
    spec = NETWORK_PRESETS["oversub4"].topology
    return Network(
        "topology",
        topology=dataclasses.replace(spec, oversubscription=oversubscription * factor),
        contention=Contention("maxmin"),
    )


def batch(gpus: int, oversubscription: float, top: str, jobs: int | None) -> Scenario:
    """Build a scenario in which all jobs arrive at time 0, for studies of makespan and job order."""
    spec = WorkloadSpec("synthetic:batch", _mix(), jobs=_jobs(jobs, gpus), max_gpus=LARGEST_GANG)
    return _scenario("Network-sensitive gangs that all arrive at time 0.", gpus, oversubscription, top, spec)


def poisson(gpus: int, oversubscription: float, top: str, load: float, jobs: int | None) -> Scenario:
    """Build a scenario with Poisson arrivals, the stationary case."""
    spec = WorkloadSpec("synthetic:poisson", _mix(), jobs=_jobs(jobs, gpus), max_gpus=LARGEST_GANG, load=load)
    return _scenario("Network-sensitive gangs that arrive as a Poisson process.", gpus, oversubscription, top, spec)


def trace(gpus: int, oversubscription: float, top: str, load: float, jobs: int | None) -> Scenario:
    """Build a scenario with arrivals, gang sizes and run times like those of Helios Venus."""
    spec = WorkloadSpec("synthetic:helios-venus", jobs=_jobs(jobs, gpus, VENUS_JOBS), max_gpus=LARGEST_GANG, load=load)
    return _scenario("Jobs like those of Helios Venus on an oversubscribed network.", gpus, oversubscription, top, spec)


def drift(gpus: int, oversubscription: float, top: str, load: float, jobs: int | None) -> Scenario:
    """Build a scenario in which arrival rate, gang sizes and network change, so that no fixed delay timers suit it.

    The mean arrival rate is computed from the load and the mean GPU time of a job. Arrival times are not scaled to the
    load, so the period of the arrival rate stays a day. Gang sizes and network change at the time by which half of the
    jobs are expected to have arrived.
    """
    count = _jobs(jobs, gpus)
    rate_per_s = float(f"{load * gpus / (_mean_gang(EARLY_DEMAND) * MEAN_DURATION_S):.6g}")
    middle_s = float(round(count / rate_per_s / 2))
    parameters = {
        "rate_per_s": rate_per_s,
        "mean_duration_s": MEAN_DURATION_S,
        "demand": EARLY_DEMAND,
        "late_demand": LATE_DEMAND,
        "shift_s": middle_s,
        "swing": SWING,
        "period_s": PERIOD_S,
    }
    spec = WorkloadSpec("synthetic:drift", parameters, jobs=count, max_gpus=LARGEST_GANG)
    found = _scenario("Gangs whose rate, sizes and network change over time.", gpus, oversubscription, top, spec)
    change = NetworkChange(middle_s, tier="rack", slowdown=SLOWDOWN)
    return found.replace(network=dataclasses.replace(found.network, changes=(change,)))


def cells(network: str | float, load: float, gangs: str, jobs: int) -> Scenario:
    """Build a scenario in which the right delay timers differ: Poisson arrivals on 256 GPUs in eight racks."""
    parameters = {"mean_duration_s": MEAN_DURATION_S, "demand": GANGS[gangs]}
    return Scenario(
        name="dally-cells",
        description="Gangs below or above a rack, on a network from free to heavily oversubscribed.",
        groups=(NodeGroup(32, 8, nodes_per_rack=4),),
        workload=WorkloadSpec("synthetic:poisson", parameters, jobs=jobs, load=load),
        network=Network("none") if network == FREE else leaf_spine(float(network), "normal"),
    )


def authors(mean_gap_s: float, links: str, jobs: int) -> Scenario:
    """Build the scenario of Dally's authors (Sharma et al., arXiv 2401.16492).

    Parameters with default values are left out of the workload, whose fingerprint is older.
    """
    return Scenario(
        name="dally-authors",
        description="Dally's simulator: cost by placement shape, work in whole steps, free preemption.",
        groups=(NodeGroup(32, 8, nodes_per_rack=8, slots=2),),
        workload=WorkloadSpec(
            "synthetic:dally",
            {} if mean_gap_s == MEAN_GAP_S else {"mean_gap_s": mean_gap_s},
            profiles="dally" if links == "nvswitch" else f"dally-{links}",
            jobs=jobs,
        ),
        network=Network("dimensions"),
        semantics=Semantics(checkpoint_s=0.0, restore_s=0.0, step_iterations=STEP_ITERATIONS),
    )


def _mix() -> dict[str, Any]:
    return {"mean_duration_s": MEAN_DURATION_S, "demand": DEMAND}


def _jobs(given: int | None, gpus: int, usual: int = JOBS) -> int:
    return usual * gpus // 256 if given is None else given


def _mean_gang(demand: dict[str, float]) -> float:
    return sum(int(size) * share for size, share in demand.items())


def _scenario(description: str, gpus: int, oversubscription: float, top: str, workload: WorkloadSpec) -> Scenario:
    return Scenario(
        name="network-sensitive",
        description=description,
        groups=(NodeGroup(gpus // 8, 8, nodes_per_rack=8),),
        workload=workload,
        network=leaf_spine(oversubscription, top),
    )
