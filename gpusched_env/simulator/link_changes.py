"""Links that become slower or faster in the middle of a run: whoever crosses them is laid anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.simulator.flows import begin_flow, end_flow, touch_link
from gpusched_env.simulator.jit import helper, int64
from gpusched_env.simulator.shapes import placed
from gpusched_env.simulator.state import ACTIVE

Array = np.ndarray[Any, Any]


@helper
def next_change_s(world: Array, links: Array, b: int) -> float:
    """When links change next [s]; inf = never."""
    w = world[b]
    return links[b, w["next_change"]]["change_s"] if w["next_change"] < w["changes"] else np.inf


@helper
def change_links(
    world: Array,
    jobs: Array,
    replicas: Array,
    nodes: Array,
    racks: Array,
    gpu_next: Array,
    gpu_node: Array,
    running: Array,
    paces: Array,
    chosen: Array,
    links: Array,
    uses: Array,
    routes: Array,
    pairs: Array,
    b: int,
) -> None:
    """Give the links of a tier the capacity of the next change; price the rings on them anew, where they are."""
    w = world[b]
    tier = links[b, w["next_change"]]["change_tier"]
    slowdown = links[b, w["next_change"]]["change_slowdown"]
    w["next_change"] += 1
    for link in range(links.shape[1]):
        if links[b, link]["tier"] == tier:
            links[b, link]["capacity"] = links[b, link]["built_Bps"] / slowdown
            touch_link(world, links, b, int64(link))
    for i in range(w["running"]):
        number = int64(running[b, i])
        if replicas[b, number]["phase"] == ACTIVE and crosses(replicas, links, uses, b, number, int64(tier)):
            lay_again(
                world,
                jobs,
                replicas,
                nodes,
                racks,
                gpu_next,
                gpu_node,
                paces,
                chosen,
                links,
                uses,
                routes,
                pairs,
                b,
                number,
            )


@helper
def crosses(replicas: Array, links: Array, uses: Array, b: int, number: int, tier: int) -> bool:
    """Tell whether a gang's ring crosses a link of a tier."""
    use = replicas[b, number]["first_use"]
    while use >= 0:
        if links[b, uses[b, use]["link"]]["tier"] == tier:
            return True
        use = uses[b, use]["next_of_replica"]
    return False


@helper
def lay_again(
    world: Array,
    jobs: Array,
    replicas: Array,
    nodes: Array,
    racks: Array,
    gpu_next: Array,
    gpu_node: Array,
    paces: Array,
    chosen: Array,
    links: Array,
    uses: Array,
    routes: Array,
    pairs: Array,
    b: int,
    number: int,
) -> None:
    """Price a gang's ring on the links as they are now; it goes on at its old rate until time moves."""
    r = replicas[b, number]
    seat = r["first_gpu"]
    count = 0
    while seat >= 0:
        chosen[b, count] = seat % world[b]["gpus"]
        count += 1
        seat = gpu_next[b, seat]
    kind = int64(jobs[b, r["job"]]["job_class"])
    _, _, slowest = placed(nodes, racks, gpu_node, paces, chosen, b, kind, 0, count)
    iteration_s = r["iteration_s"]
    told_s = r["told_s"]
    end_flow(world, replicas, links, uses, b, number)
    begin_flow(world, jobs, replicas, nodes, gpu_node, paces, chosen, links, uses, routes, pairs, b, number, slowest)
    r["iteration_s"] = iteration_s
    r["told_s"] = told_s
