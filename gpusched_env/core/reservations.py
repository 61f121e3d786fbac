"""Reservations: nodes that are closed to some jobs for a time. Gangs that must leave are preempted one by one."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.state import ACTIVE, DRAIN, Run


@kernel(lazy=True)
def close_nodes(sim: Run) -> int:
    """Apply the beginnings and ends of reservations that are due; return a job that must leave its nodes, -1 = none.

    The caller preempts this job and calls again, until none is left. The field ``returns`` grows, as if GPUs had been
    freed, so that loops look again at jobs that have found no place.
    """
    w = sim.world
    while w["next_closing"] < w["closings"] and sim.closings[w["next_closing"]]["time_s"] <= w["clock_s"]:
        closing = sim.closings[w["next_closing"]]
        w["next_closing"] += 1
        for group in range(w["node_sets"]):
            if sim.barred[closing["reservation"], group]:
                for node in range(w["nodes"]):
                    if sim.reserved[closing["reservation"], node]:
                        sim.closed[group, node] += closing["step"]
    for i in range(w["running"]):
        number = sim.running[i]
        if sim.replicas[number]["phase"] == ACTIVE and must_leave(sim, number, False):
            return sim.replicas[number]["job"]
    w["returns"] += 1
    w["closing_s"] = sim.closings[w["next_closing"]]["time_s"] if w["next_closing"] < w["closings"] else np.inf
    return -1


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
