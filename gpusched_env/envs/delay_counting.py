"""Count what a tuner of delay timers sees: one compiled pass over what has happened and what is."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.cluster import MACHINE, RACK
from gpusched_env.envs.columns import DAY_S
from gpusched_env.envs.delay_columns import CLASS_INDEX, CLUSTER_INDEX, MACHINE_SIZES
from gpusched_env.event_log import ARRIVAL, COMPLETE, RELEASE, RESUME, START
from gpusched_env.simulator.jit import helper, int64, kernel

Array = np.ndarray[Any, Any]

RECENT_S: Final = DAY_S  # [s] placements older than this are forgotten
SPREADS: Final = 3  # machine, rack, network; slots of one machine count as the machine

GANG_DTYPE: Final = np.dtype(
    [
        ("demand_class", "<i8"),  # -1 = one GPU
        ("gpus", "<i8"),  # [GPU]
        ("best", "<i8"),  # nearest tier that can hold it
        ("best_iteration_s", "<f8"),  # [s] on the best placement of the empty cluster
        ("idle_since_s", "<f8"),  # [s] when it last began to hold no GPUs
    ]
)
PLACEMENT_DTYPE: Final = np.dtype([("time_s", "<f8"), ("waited_s", "<f8"), ("cell", "<i8")])  # cell: class x spread

_WAITS, _EXPIRED = CLASS_INDEX["wait_mean_machine"], CLASS_INDEX["expired_machine"]
_QUEUED, _QUEUED_GPUS = CLASS_INDEX["queued"], CLASS_INDEX["queued_gpus"]
_WAITED, _WAITED_MOST = CLASS_INDEX["waited_mean"], CLASS_INDEX["waited_max"]
_REFUSING_RACK, _REFUSING_NETWORK = CLASS_INDEX["refusing_rack"], CLASS_INDEX["refusing_network"]
_ARRIVALS, _COMPLETIONS = CLASS_INDEX["arrivals"], CLASS_INDEX["completions"]
_FREE, _MACHINES, _LARGEST_RACK = CLUSTER_INDEX["free"], CLUSTER_INDEX["machines_1"], CLUSTER_INDEX["largest_rack"]
_FRAGMENTATION, _ENDING = CLUSTER_INDEX["fragmentation"], CLUSTER_INDEX["leases_ending"]
_RUNNING, _WORSE = CLUSTER_INDEX["running_machine"], CLUSTER_INDEX["running_worse"]
_EFFICIENCY, _OF_BEST = CLUSTER_INDEX["efficiency"], CLUSTER_INDEX["efficiency_of_best"]
_QUEUED_IN_ALL = CLUSTER_INDEX["queued_gpus"]
_SIZES: Final = len(MACHINE_SIZES)  # powers of two from 1 on


@helper
def spread_of(tier: int) -> int:
    """Give how far a gang's GPUs are apart, slots aside."""
    return tier if tier < SPREADS else int64(MACHINE)


@kernel
def take_events(
    events: Array, gangs: Array, placements: Array, count: int, now_s: float, classes: Array
) -> int:
    """Count arrivals and completions, forget old placements and add new ones; give how many there are now."""
    kept = 0
    for i in range(count):
        if placements[i]["time_s"] > now_s - RECENT_S:
            placements[kept]["time_s"] = placements[i]["time_s"]
            placements[kept]["waited_s"] = placements[i]["waited_s"]
            placements[kept]["cell"] = placements[i]["cell"]
            kept += 1
    for i in range(len(events)):
        event = events[i]
        gang = gangs[event["job"]]
        own = gang["demand_class"]
        if own < 0:
            continue
        kind = event["kind"]
        if kind == ARRIVAL:
            classes[own, _ARRIVALS] += 1.0
        elif kind == COMPLETE:
            classes[own, _COMPLETIONS] += 1.0
        elif kind == RELEASE:
            gang["idle_since_s"] = event["time_s"]
        elif kind in (START, RESUME):
            placements[kept]["time_s"] = event["time_s"]
            placements[kept]["waited_s"] = event["time_s"] - gang["idle_since_s"]
            placements[kept]["cell"] = own * SPREADS + spread_of(int64(event["tier"]))
            kept += 1
    return kept


@kernel
def describe_placements(placements: Array, count: int, classes: Array) -> None:
    """Mean, standard deviation and number of the waits by class and spread; shares beyond a machine and a rack."""
    for i in range(count):
        cell = placements[i]["cell"]
        at = _WAITS + 3 * (cell % SPREADS)
        classes[cell // SPREADS, at] += placements[i]["waited_s"]
        classes[cell // SPREADS, at + 2] += 1.0
    for own in range(len(classes)):
        every = 0.0
        beyond_machine = 0.0
        for spread in range(SPREADS):
            number = classes[own, _WAITS + 3 * spread + 2]
            every += number
            if spread >= RACK:
                beyond_machine += number
            if number > 0.0:
                classes[own, _WAITS + 3 * spread] /= number
        if every > 0.0:
            classes[own, _EXPIRED] = beyond_machine / every
            classes[own, _EXPIRED + 1] = classes[own, _WAITS + 3 * (SPREADS - 1) + 2] / every
    for i in range(count):
        cell = placements[i]["cell"]
        at = _WAITS + 3 * (cell % SPREADS)
        away = placements[i]["waited_s"] - classes[cell // SPREADS, at]
        classes[cell // SPREADS, at + 1] += away * away / classes[cell // SPREADS, at + 2]
    for own in range(len(classes)):
        for spread in range(SPREADS):
            at = _WAITS + 3 * spread + 1
            classes[own, at] = np.sqrt(classes[own, at])


@kernel
def describe_machines(world: Array, nodes: Array, racks: Array, free: Array, b: int, cluster: Array) -> int:
    """Free GPUs of machines and racks; give the most that one rack has."""
    w = world[b]
    on_whole = 0
    for node in range(w["nodes"]):
        if free[b, node] == nodes[b, node]["gpus"]:
            on_whole += free[b, node]
        least = 1
        for number in range(_SIZES):
            if free[b, node] >= least:
                cluster[_MACHINES + number] += 1.0 / w["nodes"]
            least *= 2
    most = 0
    size = 0
    for rack in range(w["racks"]):
        in_rack = 0
        first = racks[b, rack]["first_node"]
        for node in range(first, first + racks[b, rack]["nodes"]):
            in_rack += free[b, node]
        most = max(most, in_rack)
        size = max(size, int64(racks[b, rack]["gpus"]))
    cluster[_FREE] = w["free_gpus"] / w["gpus"]
    cluster[_LARGEST_RACK] = most / size
    if w["free_gpus"] > 0:
        cluster[_FRAGMENTATION] = 1.0 - on_whole / w["free_gpus"]
    return most


@kernel
def describe_queue(
    world: Array, jobs: Array, waiting: Array, b: int, gangs: Array, most_in_rack: int, now_s: float, classes: Array,
    cluster: Array,
) -> None:
    """Who waits, for how long, and who could have had GPUs."""
    w = world[b]
    for i in range(w["waiting"]):
        row = waiting[b, w["first_waiting"] + i]
        gang = gangs[row]
        cluster[_QUEUED_IN_ALL] += gang["gpus"]
        own = gang["demand_class"]
        if own < 0:
            continue
        waited_s = now_s - jobs[b, row]["last_stop_s"]
        classes[own, _QUEUED] += 1.0
        classes[own, _QUEUED_GPUS] += gang["gpus"]
        classes[own, _WAITED] += waited_s
        classes[own, _WAITED_MOST] = max(classes[own, _WAITED_MOST], waited_s)
        if gang["gpus"] <= most_in_rack:
            classes[own, _REFUSING_RACK] += 1.0
        elif gang["gpus"] <= w["free_gpus"]:
            classes[own, _REFUSING_NETWORK] += 1.0
    for own in range(len(classes)):
        if classes[own, _QUEUED] > 0.0:
            classes[own, _WAITED] /= classes[own, _QUEUED]


@kernel
def describe_gangs(
    world: Array, jobs: Array, replicas: Array, nodes: Array, gpu_node: Array, running: Array, b: int, gangs: Array,
    compute_s: Array, soon_s: float, cluster: Array,
) -> None:
    """Where the gangs of several GPUs run, whose leases end soon, and how much of their time is compute."""
    w = world[b]
    gpus = 0.0
    efficiency = 0.0
    of_best = 0.0
    for i in range(w["running"]):
        replica = replicas[b, running[b, i]]
        own = float(replica["gpus"])
        if own < 2.0:
            continue
        gang = gangs[replica["job"]]
        spread = spread_of(int64(replica["tier"]))
        cluster[_RUNNING + spread] += own / w["gpus"]
        if spread > gang["best"]:
            cluster[_WORSE] += own / w["gpus"]
        if replica["lease_s"] <= soon_s:
            cluster[_ENDING] += own / w["gpus"]
        kind = nodes[b, gpu_node[b, replica["first_gpu"]]]["gpu_type"]
        best_s = compute_s[jobs[b, replica["job"]]["job_class"], kind]
        gpus += own
        efficiency += own * min(best_s / replica["iteration_s"], 1.0)
        of_best += own * min(gang["best_iteration_s"] / replica["iteration_s"], 1.0)
    cluster[_EFFICIENCY] = efficiency / gpus if gpus > 0.0 else 1.0
    cluster[_OF_BEST] = of_best / gpus if gpus > 0.0 else 1.0
