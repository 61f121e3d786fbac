"""Reservations: nodes that are closed to some jobs for a time; and outages. Gangs that must leave stop one by one."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.taking import FREE, UNUSABLE, rack_place
from gpusched_env.core.state import ACTIVE, CAPPED, DRAIN, IDLE, Run


@kernel(lazy=True)
def close_nodes(sim: Run) -> tuple[int, bool]:
    """Apply the beginnings and ends of reservations and outages that are due.

    Returns a job that must leave its nodes, -1 = none, and whether it crashes. The caller stops it and calls again,
    until none is left. The field ``returns`` grows, as if GPUs had been freed, so that loops look again at jobs that
    have found no place.
    """
    w = sim.world
    while w["next_closing"] < w["closings"] and sim.closings[w["next_closing"]]["time_s"] <= w["clock_s"]:
        closing = sim.closings[w["next_closing"]]
        if closing["node"] >= 0:
            change_node(sim, closing["node"], closing["step"])
            row = job_on(sim, closing["node"], closing["step"] == CAPPED) if closing["step"] >= 0 else -1
            if row >= 0:
                return row, closing["step"] != CAPPED
            if closing["step"] in (0, 1):
                sim.nodes[closing["node"]]["crashes"] += 1
        else:
            w["leaving"] = 1
            for group in range(w["node_sets"]):
                if sim.barred[closing["reservation"], group]:
                    for node in range(w["nodes"]):
                        if sim.reserved[closing["reservation"], node]:
                            sim.closed[group, node] += closing["step"]
        w["next_closing"] += 1
    if w["leaving"]:
        for i in range(w["running"]):
            number = sim.running[i]
            if sim.replicas[number]["phase"] == ACTIVE and must_leave(sim, number, False):
                return sim.replicas[number]["job"], False
    w["leaving"] = 0
    w["returns"] += 1
    w["closing_s"] = sim.closings[w["next_closing"]]["time_s"] if w["next_closing"] < w["closings"] else np.inf
    return -1, False


@kernel(lazy=True)
def must_leave(sim: Run, number: int, drained: bool) -> bool:
    """Return whether a gang holds a GPU of a machine that is closed to it; ``drained``: or only drained."""
    group = sim.class_set[sim.jobs[sim.replicas[number]["job"]]["job_class"]]
    seat = sim.replicas[number]["first_gpu"]
    while seat >= 0:
        reasons = sim.closed[group, sim.gpu_node[seat % sim.world["gpus"]]]
        if (reasons if drained else reasons % DRAIN) > 0:
            return True
        seat = sim.gpu_next[seat]
    return False


@kernel(lazy=True)
def job_on(sim: Run, node: int, active: bool) -> int:
    """Return the first job that holds a GPU of a node and has not failed yet, if ``active``: none in a checkpoint.

    -1 = none.
    """
    w = sim.world
    first = w["jobs"]
    for layer in range(w["gpu_jobs"]):
        begin = sim.nodes[node]["first_gpu"] + layer * w["gpus"]
        for seat in range(begin, begin + sim.nodes[node]["gpus"]):
            number = sim.holder[seat]
            phase = sim.replicas[number]["phase"] if number >= 0 else IDLE
            if phase == ACTIVE or (phase != IDLE and not active):
                row = sim.replicas[number]["job"]
                if row < first and sim.recovery[row]["failed"] == 0:
                    first = row
    return first if first < w["jobs"] else -1


@kernel(lazy=True)
def change_node(sim: Run, node: int, step: int) -> None:
    """Let a node crash (1) or close (CAPPED), or come back (< 0); its GPUs that no gang holds then look held."""
    sim.down[node] = sim.down[node] | step if step > 0 else sim.down[node] & ~(-step)
    begin = sim.nodes[node]["first_gpu"]
    for gpu in range(begin, begin + sim.nodes[node]["gpus"]):
        if step > 0:
            mark_gpu(sim, gpu, FREE, UNUSABLE, -1)
        elif sim.down[node] == 0:
            mark_gpu(sim, gpu, UNUSABLE, FREE, 1)


@kernel(lazy=True)
def mark_gpu(sim: Run, gpu: int, old: int, new: int, change: int) -> None:
    """Change the seats of a GPU that are ``old`` to ``new``; the number of free GPUs changes with that of layer 0."""
    w = sim.world
    if sim.holder[gpu] == old:
        node = sim.gpu_node[gpu]
        sim.free[node] += change
        sim.free[rack_place(sim, node)] += change
        w["free_gpus"] += change
        w["down_gpus"] -= change
    for layer in range(w["gpu_jobs"]):
        if sim.holder[gpu + layer * w["gpus"]] == old:
            sim.holder[gpu + layer * w["gpus"]] = new


@helper
def is_down(sim: Run, gpu: int) -> bool:
    """Return whether the node of a GPU is down."""
    return sim.world["recovers"] > 0 and sim.down[sim.gpu_node[gpu]] > 0
