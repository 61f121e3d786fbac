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


@kernel
def what_if(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, b: int, row: int,
) -> float:
    """Seconds of one iteration of a waiting job if it started on the chosen GPUs now; nothing changes [s]."""
    w = world[b]
    if w["contention"] == 0:
        _, pace, slowest = placed(
            nodes, racks, gpu_node, paces, chosen, b, int64(jobs[b, row]["job_class"]), 0,
            int64(jobs[b, row]["gpus"]),
        )
        return paces[b, jobs[b, row]["job_class"], pace, slowest]["iteration_s"]
    settle(world, replicas, links, uses, ratios, b)
    uncommitted = w["uncommitted"]
    number = int64(running[b, w["running"]])  # an idle row
    r = replicas[b, number]
    r["job"] = row
    r["gpus"] = jobs[b, row]["gpus"]
    r["compute_share"] = 1.0
    tier, _, slowest = placed(
        nodes, racks, gpu_node, paces, chosen, b, int64(jobs[b, row]["job_class"]), 0, int64(r["gpus"])
    )
    r["tier"] = tier
    begin_flow(world, jobs, replicas, nodes, gpu_node, paces, chosen, links, uses, routes, pairs, b, number, slowest)
    settle(world, replicas, links, uses, ratios, b)
    seconds = r["settled_s"]
    end_flow(world, replicas, links, uses, b, number)
    settle(world, replicas, links, uses, ratios, b)
    w["uncommitted"] = uncommitted
    return seconds


@kernel
def settle_now(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, b: int,
) -> None:
    """Settle the rates between decisions, for those who want to see them before time moves."""
    settle(world, replicas, links, uses, ratios, b)


@kernel
def link_loads(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array,
    gpu_next: Array, gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array,
    event_gpus: Array, chosen: Array, links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array,
    busy: Array, sub_batches: Array, interference: Array, b: int, loads: Array,
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
    busy: Array, sub_batches: Array, interference: Array, b: int, rows: Array, ends: Array,
) -> None:
    """Fill when each running job of ``rows`` ends at the settled rates [s]; inf if it makes no progress."""
    if world[b]["contention"] > 0:
        settle(world, replicas, links, uses, ratios, b)
    if world[b]["sharing"]:
        for i in range(world[b]["running"]):
            number = int64(running[b, i])
            if replicas[b, number]["company_changed"]:  # it stays noted, for when time moves
                replicas[b, number]["slowdown"] = slowdown_by_company(
                    world, jobs, replicas, nodes, holder, gpu_next, gpu_node, interference, b, number
                )
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
