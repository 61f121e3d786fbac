"""Kernels that write the observation arrays of scenarios with several GPU types or with copies of gangs."""

from __future__ import annotations

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.settling import beside_company
from gpusched_env.core.placement.taking import unable
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.instance import Instance
from gpusched_env.performance import type_rates


@kernel
def write_gpu_types(sim: Run, env: EnvArrays) -> None:
    """Write NODE_TYPES and TYPES."""
    w = sim.world
    types = env.out_types.shape[0]
    for t in range(types):
        gpus = 0
        unused = 0
        for n in range(w["nodes"]):
            if sim.nodes[n]["gpu_type"] == t:
                gpus += sim.nodes[n]["gpus"]
                unused += sim.free[n]
        mean = 0.0
        for i in range(w["waiting"]):
            mean += env.rates[sim.jobs[sim.waiting[w["first_waiting"] + i]]["job_class"], t]
        if w["waiting"] > 0:
            mean = min(mean / w["waiting"], 1.0)  # above 1 by rounding
        env.out_types[t, 0] = gpus / w["gpus"]
        env.out_types[t, 1] = unused / gpus if gpus > 0 else 0.0
        env.out_types[t, 2] = mean
    for n in range(w["nodes"]):
        t = sim.nodes[n]["gpu_type"]
        env.out_node_types[n, 0] = t / types
        env.out_node_types[n, 1] = env.out_types[t, 2]


@kernel(lazy=True)
def write_types(sim: Run, env: EnvArrays) -> None:
    """Write all arrays of type_columns.TYPE_TABLES; ``env.rates`` is float64 [C, T], see :func:`relative_rates`."""
    w = sim.world
    types = env.out_types.shape[0]
    write_gpu_types(sim, env)
    for k in range(len(env.queue)):
        row = env.queue[k]
        env.out_forks[k, 0] = 0.0
        for t in range(types):
            env.out_queue_types[k * types + t, 0] = 0.0
            env.out_queue_types[k * types + t, 1] = 0.0
        if row < 0:
            continue
        gang = sim.jobs[row]["gpus"]
        kind = sim.jobs[row]["job_class"]
        machines = 0
        for n in range(w["nodes"]):
            if sim.free[n] >= gang and not unable(sim, kind, n):
                machines += 1
        env.out_forks[k, 0] = min(machines / w["max_copies"], 1.0)
        for t in range(types):
            unused = 0
            for n in range(w["nodes"]):
                if sim.nodes[n]["gpu_type"] == t:
                    unused += sim.free[n]
            env.out_queue_types[k * types + t, 0] = env.rates[kind, t]
            env.out_queue_types[k * types + t, 1] = 1.0 if env.rates[kind, t] > 0.0 and unused >= gang else 0.0
    for v in range(len(env.victims)):
        row = env.victims[v]
        for t in range(types):
            env.out_running_types[v * types + t, 0] = 0.0
            env.out_running_types[v * types + t, 1] = 0.0
        env.out_copies[v, 0] = 0.0
        env.out_copies[v, 1] = 0.0
        if row < 0:
            continue
        kind = sim.jobs[row]["job_class"]
        r = sim.replicas[sim.jobs[row]["replica"]]
        for t in range(types):
            env.out_running_types[v * types + t, 0] = env.rates[kind, t]
        seat = r["first_gpu"]
        counted = 0
        while seat >= 0:
            counted += 1
            gpu = seat % w["gpus"]
            at = v * types + sim.nodes[sim.gpu_node[gpu]]["gpu_type"]
            env.out_running_types[at, 1] += 1.0
            seat = sim.gpu_next[seat]
        for t in range(types):
            env.out_running_types[v * types + t, 1] /= counted
        speedup = env.classes[kind]["ideal_iteration_s"] / beside_company(sim, sim.jobs[row]["replica"])
        env.out_copies[v, 0] = r["gpus"] / (sim.jobs[row]["gpus"] * w["max_copies"])
        env.out_copies[v, 1] = speedup / (1.0 + speedup)


def relative_rates(instance: Instance) -> np.ndarray:
    """float64 [C, T]: iterations/s of each class on GPUs of one type only / on those of its best type.

    All 0 for a gang that is larger than the GPUs of every single type.
    """
    rates = type_rates(instance.classes[:, 1], instance.iteration_s, instance.cluster, instance.usable_nodes)
    best = rates.max(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(rates, best, out=np.zeros_like(rates), where=best > 0)
    return shares
