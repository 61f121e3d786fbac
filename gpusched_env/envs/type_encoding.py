"""The kernel of the observation where GPUs are of several types, or jobs run in copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusched_env.instance import Instance
from gpusched_env.performance import type_rates
from gpusched_env.core.network.settling import beside_company
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.core.placement.taking import unable

Array = np.ndarray[Any, Any]


@helper
def show_gpu_types(
    world: Array, jobs: Array, nodes: Array, free: Array, waiting: Array, rates: Array, b: int, out_nodes: Array,
    out_types: Array,
) -> None:
    """Write columns.NODE_TYPES and columns.TYPES."""
    w = world[b]
    types = out_types.shape[0]
    for t in range(types):
        gpus = 0
        unused = 0
        for n in range(w["nodes"]):
            if nodes[b, n]["gpu_type"] == t:
                gpus += nodes[b, n]["gpus"]
                unused += free[b, n]
        mean = 0.0
        for i in range(w["waiting"]):
            mean += rates[jobs[b, waiting[b, w["first_waiting"] + i]]["job_class"], t]
        if w["waiting"] > 0:
            mean = min(mean / w["waiting"], 1.0)  # rounding
        out_types[t, 0] = gpus / w["gpus"]
        out_types[t, 1] = unused / gpus if gpus > 0 else 0.0
        out_types[t, 2] = mean
    for n in range(w["nodes"]):
        t = nodes[b, n]["gpu_type"]
        out_nodes[n, 0] = t / types
        out_nodes[n, 1] = out_types[t, 2]


@kernel
def show_types(
    world: Array, jobs: Array, replicas: Array, nodes: Array, racks: Array, free: Array, holder: Array, gpu_next: Array,
    gpu_node: Array, waiting: Array, running: Array, paces: Array, events: Array, event_gpus: Array, chosen: Array,
    links: Array, uses: Array, routes: Array, pairs: Array, ratios: Array, busy: Array, sub_batches: Array,
    interference: Array, due: Array, b: int, classes: Array, rates: Array, queue: Array, victims: Array,
    out_queue: Array, out_forks: Array, out_running: Array, out_copies: Array, out_nodes: Array, out_types: Array,
) -> int:
    """Write the arrays of columns.TYPE_TABLES; ``rates`` is float64 [C, T], see :func:`relative_rates`."""
    w = world[b]
    types = out_types.shape[0]
    show_gpu_types(world, jobs, nodes, free, waiting, rates, b, out_nodes, out_types)
    for k in range(len(queue)):
        row = queue[k]
        out_forks[k, 0] = 0.0
        for t in range(types):
            out_queue[k * types + t, 0] = 0.0
            out_queue[k * types + t, 1] = 0.0
        if row < 0:
            continue
        gang = int64(jobs[b, row]["gpus"])
        kind = int64(jobs[b, row]["job_class"])
        machines = 0
        for n in range(w["nodes"]):
            if free[b, n] >= gang and not unable(paces, b, kind, int64(nodes[b, n]["gpu_type"])):
                machines += 1
        out_forks[k, 0] = min(machines / w["max_copies"], 1.0)
        for t in range(types):
            unused = 0
            for n in range(w["nodes"]):
                if nodes[b, n]["gpu_type"] == t:
                    unused += free[b, n]
            out_queue[k * types + t, 0] = rates[kind, t]
            out_queue[k * types + t, 1] = 1.0 if rates[kind, t] > 0.0 and unused >= gang else 0.0
    for v in range(len(victims)):
        row = victims[v]
        for t in range(types):
            out_running[v * types + t, 0] = 0.0
            out_running[v * types + t, 1] = 0.0
        out_copies[v, 0] = 0.0
        out_copies[v, 1] = 0.0
        if row < 0:
            continue
        kind = int64(jobs[b, row]["job_class"])
        r = replicas[b, jobs[b, row]["replica"]]
        for t in range(types):
            out_running[v * types + t, 0] = rates[kind, t]
        seat = r["first_gpu"]
        counted = 0
        while seat >= 0:
            counted += 1
            gpu = seat % w["gpus"]
            at = v * types + int64(nodes[b, gpu_node[b, gpu]]["gpu_type"])
            out_running[at, 1] += 1.0
            seat = gpu_next[b, seat]
        for t in range(types):
            out_running[v * types + t, 1] /= counted
        speedup = classes[0, kind]["ideal_iteration_s"] / beside_company(replicas, b, int64(jobs[b, row]["replica"]))
        out_copies[v, 0] = r["gpus"] / (jobs[b, row]["gpus"] * w["max_copies"])
        out_copies[v, 1] = speedup / (1.0 + speedup)
    return int64(0)


def relative_rates(instance: Instance) -> np.ndarray:
    """float64 [C, T]: iterations a second of each class on GPUs of one type alone / on those of its best type.

    All 0 for a gang that no type alone has enough GPUs for.
    """
    rates = type_rates(instance.classes[:, 1], instance.iteration_s, instance.cluster)
    best = rates.max(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(rates, best, out=np.zeros_like(rates), where=best > 0)
    return shares
