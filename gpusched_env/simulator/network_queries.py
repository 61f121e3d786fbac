"""Kernels that answer questions about links and rates; they change nothing that a run depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.contention import beside_company, finish_time, settle, whole_iterations
from gpusched_env.simulator.events import work_left
from gpusched_env.simulator.flows import begin_flow, end_flow
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.seats import slowdown_by_company
from gpusched_env.simulator.shapes import placed
from gpusched_env.simulator.state import ACTIVE

Array = np.ndarray[Any, Any]


@helper
def link_load(replicas: Array, links: Array, uses: Array, b: int, link: int) -> float:
    """What crosses a link one way, at the settled rates [byte/s]."""
    load = 0.0
    use = links[b, link]["first_use"]
    while use >= 0:
        load += uses[b, use]["weight"] * replicas[b, uses[b, use]["replica"]]["rate_Bps"]
        use = uses[b, use]["next_of_link"]
    return load


@helper
def meet_company(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_next: Array, gpu_node: Array,
    running: Array, interference: Array, b: int,
) -> None:
    """Find the slowdowns of gangs whose company has changed; the change stays noted, for when time moves."""
    for i in range(world[b]["running"] if world[b]["sharing"] else 0):
        number = int64(running[b, i])
        if replicas[b, number]["company_changed"]:
            replicas[b, number]["slowdown"] = slowdown_by_company(
                world, jobs, replicas, nodes, holder, gpu_next, gpu_node, interference, b, number
            )


@helper
def slowdown_there(
    world: Array, jobs: Array, replicas: Array, nodes: Array, holder: Array, gpu_node: Array, chosen: Array,
    interference: Array, b: int, row: int,
) -> float:
    """How many times longer a waiting job's iteration would take beside the gangs on the chosen GPUs."""
    worst = 1.0
    if world[b]["sharing"]:
        kind = jobs[b, row]["job_class"]
        for i in range(jobs[b, row]["gpus"]):
            gpu = chosen[b, i]
            gpu_type = nodes[b, gpu_node[b, gpu]]["gpu_type"]
            for layer in range(world[b]["gpu_jobs"]):
                other = holder[b, gpu + layer * world[b]["gpus"]]
                if other >= 0:
                    beside = jobs[b, replicas[b, other]["job"]]["job_class"]
                    worst = max(worst, interference[b, kind, beside, gpu_type])
    return worst


@kernel
def what_if(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, row: int,
) -> float:
    """Seconds of one iteration of a waiting job if it started on the chosen GPUs now; nothing changes [s].

    It works its whole batch off at once; inf beside a gang with which it must not share.
    """
    w = world[b]
    company = slowdown_there(world, jobs, replicas, nodes, holder, gpu_node, chosen, interference, b, row)
    if w["contention"] == 0:
        _, pace, slowest = placed(
            nodes, racks, gpu_node, paces, chosen, b, int64(jobs[b, row]["job_class"]), 0,
            int64(jobs[b, row]["gpus"]),
        )
        return paces[b, jobs[b, row]["job_class"], pace, slowest]["iteration_s"] * company
    settle(world, replicas, links, uses, ratios, b)
    uncommitted = w["uncommitted"]
    number = int64(running[b, w["running"]])  # an idle row
    r = replicas[b, number]
    r["job"] = row
    r["gpus"] = jobs[b, row]["gpus"]
    kind = int64(jobs[b, row]["job_class"])
    tier, _, slowest = placed(nodes, racks, gpu_node, paces, chosen, b, kind, 0, int64(r["gpus"]))
    r["tier"] = tier
    whole = sub_batches[b, kind, 0, slowest]
    r["compute_share"] = whole["compute_share"]
    earlier_s = (whole["sub_steps"] - 1) * whole["compute_share"] * paces[b, kind, tier, slowest]["compute_s"]
    begin_flow(world, jobs, replicas, nodes, gpu_node, paces, chosen, links, uses, routes, pairs, b, number, slowest)
    settle(world, replicas, links, uses, ratios, b)
    seconds = r["settled_s"] + earlier_s
    end_flow(world, replicas, links, uses, b, number)
    settle(world, replicas, links, uses, ratios, b)
    w["uncommitted"] = uncommitted
    return seconds * company


@kernel
def settle_now(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int,
) -> None:
    """Settle the rates between decisions, for those who want to see them before time moves."""
    settle(world, replicas, links, uses, ratios, b)
    meet_company(world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, interference, b)


@kernel
def link_loads(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, loads: Array,
) -> None:
    """Fill the load of every link, one direction [byte/s], at the settled rates."""
    settle(world, replicas, links, uses, ratios, b)
    for link in range(len(loads)):
        loads[link] = link_load(replicas, links, uses, b, link)


@kernel
def end_times(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, due: Array, b: int, rows: Array, ends: Array,
) -> None:
    """Fill when each running job of ``rows`` ends at the settled rates [s]; inf if it makes no progress."""
    if world[b]["contention"] > 0:
        settle(world, replicas, links, uses, ratios, b)
    meet_company(world, jobs, replicas, nodes, holder, gpu_next, gpu_node, running, interference, b)
    for i in range(len(rows)):
        ends[i] = np.inf
        number = int64(jobs[b, rows[i]]["replica"])
        if number < 0 or replicas[b, number]["phase"] != ACTIVE:
            continue
        r = replicas[b, number]
        ends[i] = r["until_s"]
        pace = whole_iterations(world, b, beside_company(replicas, b, number))
        if pace != r["iteration_s"]:  # a decision or an end of this instant has changed it
            since_s = max(r["since_s"], world[b]["clock_s"])
            ends[i] = finish_time(world, b, since_s, work_left(world, jobs, replicas, b, rows[i]), pace)
