"""Kernels that count what a tuner of delay timers observes, from new events and from the state of the run."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.state import Run
from gpusched_env.delay_timers.columns import CLASS, CLUSTER, MACHINE_SIZES
from gpusched_env.envs.observation.column import DAY_S
from gpusched_env.envs.observation.jobs import observed_tier
from gpusched_env.event_log import ARRIVAL, COMPLETE, EVENT_DTYPE, RELEASE, RESUME, START
from gpusched_env.problem.cluster import RACK

RECENT_S: Final = DAY_S  # [s] older placements are dropped
SPREADS: Final = 3  # machine, rack, network; a slot counts as its machine

GANG_DTYPE: Final = np.dtype(
    [
        ("demand_class", "<i8"),  # -1 = one GPU
        ("gpus", "<i8"),  # [GPU]
        ("best", "<i8"),  # tightest tier that can hold it
        ("best_iteration_s", "<f8"),  # [s] on the best placement of the empty cluster
        ("idle_since_s", "<f8"),  # [s] arrival, or time of its last release
    ]
)
PLACEMENT_DTYPE: Final = np.dtype([("time_s", "<f8"), ("waited_s", "<f8"), ("cell", "<i8")])  # class x 3 + spread

_SIZES: Final = len(MACHINE_SIZES)  # the sizes are powers of two from 1 on


class Tally(Handle):
    """Inputs and results of the counts."""

    news = array(EVENT_DTYPE, "news")  # events since the last observation
    gangs = array(GANG_DTYPE, "jobs")
    placements = array(PLACEMENT_DTYPE, "placements")  # the recent ones come first
    compute_s = array(np.float64, "job_classes", "types")  # [s] compute of an iteration, the same on every tier
    classes = array(np.float64, "classes", "class_columns")  # columns.CLASS_COLUMNS
    cluster = array(np.float64, "cluster_columns")  # columns.CLUSTER_COLUMNS


@kernel
def describe(sim: Run, tally: Tally, count: int, now_s: float, soon_s: float) -> int:
    """Add up all results from zeros; ``count`` is the number of placements before, and the result that after."""
    count = count_events(tally, count, now_s)
    describe_placements(tally, count)
    describe_queue(sim, tally, describe_machines(sim, tally), now_s)
    describe_gangs(sim, tally, soon_s)
    return count


@kernel
def count_events(tally: Tally, count: int, now_s: float) -> int:
    """Count arrivals and completions, drop old placements and add new ones; return the number of placements."""
    kept = 0
    for i in range(count):
        if tally.placements[i]["time_s"] > now_s - RECENT_S:
            tally.placements[kept]["time_s"] = tally.placements[i]["time_s"]
            tally.placements[kept]["waited_s"] = tally.placements[i]["waited_s"]
            tally.placements[kept]["cell"] = tally.placements[i]["cell"]
            kept += 1
    for i in range(len(tally.news)):
        event = tally.news[i]
        gang = tally.gangs[event["job"]]
        own = gang["demand_class"]
        if own < 0:
            continue
        kind = event["kind"]
        if kind == ARRIVAL:
            tally.classes[own, CLASS.arrivals] += 1.0
            gang["idle_since_s"] = event["time_s"]
        elif kind == COMPLETE:
            tally.classes[own, CLASS.completions] += 1.0
        elif kind == RELEASE:
            gang["idle_since_s"] = event["time_s"]
        elif kind in (START, RESUME):
            tally.placements[kept]["time_s"] = event["time_s"]
            tally.placements[kept]["waited_s"] = event["time_s"] - gang["idle_since_s"]
            tally.placements[kept]["cell"] = own * SPREADS + observed_tier(event["tier"])
            kept += 1
    return kept


@kernel
def describe_placements(tally: Tally, count: int) -> None:
    """Compute mean, deviation and number of the waits of each class and spread, and the expired fractions."""
    for i in range(count):
        cell = tally.placements[i]["cell"]
        at = CLASS.wait_mean_machine + 3 * (cell % SPREADS)
        tally.classes[cell // SPREADS, at] += tally.placements[i]["waited_s"]
        tally.classes[cell // SPREADS, at + 2] += 1.0
    for own in range(len(tally.classes)):
        every = 0.0
        beyond_machine = 0.0
        for spread in range(SPREADS):
            number = tally.classes[own, CLASS.wait_mean_machine + 3 * spread + 2]
            every += number
            if spread >= RACK:
                beyond_machine += number
            if number > 0.0:
                tally.classes[own, CLASS.wait_mean_machine + 3 * spread] /= number
        if every > 0.0:
            tally.classes[own, CLASS.expired_machine] = beyond_machine / every
            tally.classes[own, CLASS.expired_machine + 1] = tally.classes[own, CLASS.wait_count_network] / every
    for i in range(count):
        cell = tally.placements[i]["cell"]
        at = CLASS.wait_mean_machine + 3 * (cell % SPREADS)
        away = tally.placements[i]["waited_s"] - tally.classes[cell // SPREADS, at]
        tally.classes[cell // SPREADS, at + 1] += away * away / tally.classes[cell // SPREADS, at + 2]
    for own in range(len(tally.classes)):
        for spread in range(SPREADS):
            at = CLASS.wait_mean_machine + 3 * spread + 1
            tally.classes[own, at] = np.sqrt(tally.classes[own, at])


@kernel
def describe_machines(sim: Run, tally: Tally) -> int:
    """Count the free GPUs of machines and racks; return the most free GPUs of a rack."""
    w = sim.world
    on_whole = 0
    for node in range(w["nodes"]):
        if sim.free[node] == sim.nodes[node]["gpus"]:
            on_whole += sim.free[node]
        least = 1
        for number in range(_SIZES):
            if sim.free[node] >= least:
                tally.cluster[CLUSTER.machines_1 + number] += 1.0 / w["nodes"]
            least *= 2
    most = 0
    size = 0
    for rack in range(w["racks"]):
        in_rack = 0
        first = sim.racks[rack]["first_node"]
        for node in range(first, first + sim.racks[rack]["nodes"]):
            in_rack += sim.free[node]
        most = max(most, in_rack)
        size = max(size, sim.racks[rack]["gpus"])
    tally.cluster[CLUSTER.free] = w["free_gpus"] / w["gpus"]
    tally.cluster[CLUSTER.largest_rack] = most / size
    if w["free_gpus"] > 0:
        tally.cluster[CLUSTER.fragmentation] = 1.0 - on_whole / w["free_gpus"]
    return most


@kernel
def describe_queue(sim: Run, tally: Tally, most_in_rack: int, now_s: float) -> None:
    """Count the waiting jobs, their waits, and those that wait although enough GPUs are free."""
    w = sim.world
    for i in range(w["waiting"]):
        row = sim.waiting[w["first_waiting"] + i]
        gang = tally.gangs[row]
        tally.cluster[CLUSTER.queued_gpus] += gang["gpus"]
        own = gang["demand_class"]
        if own < 0:
            continue
        waited_s = now_s - sim.jobs[row]["last_stop_s"]
        tally.classes[own, CLASS.queued] += 1.0
        tally.classes[own, CLASS.queued_gpus] += gang["gpus"]
        tally.classes[own, CLASS.waited_mean] += waited_s
        tally.classes[own, CLASS.waited_max] = max(tally.classes[own, CLASS.waited_max], waited_s)
        if gang["gpus"] <= most_in_rack:
            tally.classes[own, CLASS.refusing_rack] += 1.0
        elif gang["gpus"] <= w["free_gpus"]:
            tally.classes[own, CLASS.refusing_network] += 1.0
    for own in range(len(tally.classes)):
        if tally.classes[own, CLASS.queued] > 0.0:
            tally.classes[own, CLASS.waited_mean] /= tally.classes[own, CLASS.queued]


@kernel
def describe_gangs(sim: Run, tally: Tally, soon_s: float) -> None:
    """Sum over gangs of several GPUs: tiers, leases that end soon, and the fraction of compute."""
    w = sim.world
    gpus = 0.0
    efficiency = 0.0
    of_best = 0.0
    for i in range(w["running"]):
        replica = sim.replicas[sim.running[i]]
        own = float(replica["gpus"])
        if own < 2.0:
            continue
        gang = tally.gangs[replica["job"]]
        spread = observed_tier(replica["tier"])
        tally.cluster[CLUSTER.running_machine + spread] += own / w["gpus"]
        if spread > gang["best"]:
            tally.cluster[CLUSTER.running_worse] += own / w["gpus"]
        if replica["lease_s"] <= soon_s:
            tally.cluster[CLUSTER.leases_ending] += own / w["gpus"]
        kind = sim.nodes[sim.gpu_node[replica["first_gpu"]]]["gpu_type"]
        best_s = tally.compute_s[sim.jobs[replica["job"]]["job_class"], kind]
        gpus += own
        efficiency += own * min(best_s / replica["iteration_s"], 1.0)
        of_best += own * min(gang["best_iteration_s"] / replica["iteration_s"], 1.0)
    tally.cluster[CLUSTER.efficiency] = efficiency / gpus if gpus > 0.0 else 1.0
    tally.cluster[CLUSTER.efficiency_of_best] = of_best / gpus if gpus > 0.0 else 1.0
