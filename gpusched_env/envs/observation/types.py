"""The observation arrays of scenarios with several GPU types or with copies of gangs."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.settling import beside_company
from gpusched_env.core.placement.taking import room_of, unable, unable_somewhere
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import SHARE, Column, indices
from gpusched_env.envs.observation.registry import Group, Shown, observation_array
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.performance import type_rates

_RATE: Final = (
    "iterations/s on GPUs of this type only / on those of its best type; 0 = it cannot run there, or they are too few"
)
QUEUE_TYPES_COLUMNS: Final = (
    Column("rate", _RATE, SHARE),
    Column("fits", "1 if the job can run on this type and enough GPUs of the type are free for its gang", SHARE),
)
QUEUE_TYPES: Final = indices(QUEUE_TYPES_COLUMNS)
FORKS_COLUMNS: Final = (
    Column("copies", "machines that now have room for a copy of the gang / `max_copies`", "at most 1"),
)
FORKS: Final = indices(FORKS_COLUMNS)
RUNNING_TYPES_COLUMNS: Final = (
    Column("rate", _RATE, SHARE),
    Column("held", "GPUs of this type that the gang holds / GPUs that it holds", SHARE),
)
RUNNING_TYPES: Final = indices(RUNNING_TYPES_COLUMNS)
COPIES_COLUMNS: Final = (
    Column("copies", "copies of the gang that train / `max_copies`", SHARE),
    Column("rate", "x = iterations/s now / iterations/s of one copy on its ideal placement", "x / (1 + x)"),
)
COPIES: Final = indices(COPIES_COLUMNS)
NODE_TYPES_COLUMNS: Final = (
    Column("type", "index of its GPU type / number of types", SHARE),
    Column("rate", "mean `rate` of the waiting jobs on the node's type", SHARE),
)
NODE_TYPES: Final = indices(NODE_TYPES_COLUMNS)
TYPES_COLUMNS: Final = (
    Column("gpus", "GPUs of this type / GPUs of the cluster", SHARE),
    Column("free", "free GPUs of this type / GPUs of this type", SHARE),
    Column("rate", "mean `rate` of the waiting jobs on this type", SHARE),
)
TYPES: Final = indices(TYPES_COLUMNS)
TYPED: Final = Group(
    "### Where GPUs are of several types, or gangs may run in copies",
    """
    There are T GPU types, in the order of `instance.cluster.gpu_types`. A rate on a type is the rate on the
    tightest tier whose machines of that type can hold the gang, on an idle network.
    """,
    "types",
)


@kernel
def free_of_type(sim: Run, gpu_type: int) -> int:
    """Count the free GPUs of a type."""
    unused = 0
    for n in range(sim.world["nodes"]):
        if sim.nodes[n]["gpu_type"] == gpu_type:
            unused += sim.free[n]
    return unused


@kernel
def usable_of_type(sim: Run, kind: int, gpu_type: int) -> int:
    """Count the free GPUs of a type that a gang of a job class may use: on its nodes, in whole parts."""
    usable = 0
    for n in range(sim.world["nodes"]):
        if sim.nodes[n]["gpu_type"] == gpu_type and not unable(sim, kind, n):
            usable += room_of(sim, kind, sim.free[n])
    return usable


@observation_array(
    "queue_types", QUEUE_TYPES_COLUMNS, ("queue", "types"), TYPED, "one row per queue slot and GPU type: row k T + t"
)
@kernel
def write_queue_types(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all queue slots; ``env.rates`` is float64 [C, T], see :func:`relative_rates`."""
    types = env.rates.shape[1]
    for t in range(types):
        unused = free_of_type(sim, t)
        for k in range(len(env.queue)):
            row = env.queue[k]
            rate = env.rates[sim.jobs[row]["job_class"], t] if row >= 0 else 0.0
            out.values[k * types + t, QUEUE_TYPES.rate] = rate
            fits = rate > 0.0 and unused >= sim.jobs[row]["gpus"]
            if fits and unable_somewhere(sim, sim.jobs[row]["job_class"]):
                fits = usable_of_type(sim, sim.jobs[row]["job_class"], t) >= sim.jobs[row]["gpus"]
            out.values[k * types + t, QUEUE_TYPES.fits] = 1.0 if fits else 0.0


@observation_array("forks", FORKS_COLUMNS, "queue", TYPED, "one row per queue slot")
@kernel
def write_forks(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Count the machines with room for a copy of each waiting job."""
    for k in range(len(env.queue)):
        row = env.queue[k]
        machines = 0
        for n in range(sim.world["nodes"]):
            if row >= 0:
                kind = sim.jobs[row]["job_class"]
                if room_of(sim, kind, sim.free[n]) >= sim.jobs[row]["gpus"] and not unable(sim, kind, n):
                    machines += 1
        out.values[k, FORKS.copies] = min(machines / sim.world["max_copies"], 1.0)


@observation_array(
    "running_types", RUNNING_TYPES_COLUMNS, ("running", "types"), TYPED,
    "one row per running slot and GPU type: row v T + t",
)  # fmt: skip
@kernel
def write_running_types(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all running slots."""
    types = env.rates.shape[1]
    for v in range(len(env.victims)):
        row = env.victims[v]
        for t in range(types):
            rate = env.rates[sim.jobs[row]["job_class"], t] if row >= 0 else 0.0
            out.values[v * types + t, RUNNING_TYPES.rate] = rate
            out.values[v * types + t, RUNNING_TYPES.held] = 0.0
        if row < 0:
            continue
        seat = sim.replicas[sim.jobs[row]["replica"]]["first_gpu"]
        counted = 0
        while seat >= 0:
            counted += 1
            at = v * types + sim.nodes[sim.gpu_node[seat % sim.world["gpus"]]]["gpu_type"]
            out.values[at, RUNNING_TYPES.held] += 1.0
            seat = sim.gpu_next[seat]
        for t in range(types):
            out.values[v * types + t, RUNNING_TYPES.held] /= counted


@observation_array("copies", COPIES_COLUMNS, "running", TYPED, "one row per running slot")
@kernel
def write_copies(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write how many copies each running gang has, and how fast they are together."""
    for v in range(len(env.victims)):
        row = env.victims[v]
        out.values[v, COPIES.copies] = 0.0
        out.values[v, COPIES.rate] = 0.0
        if row >= 0:
            job = sim.jobs[row]
            speedup = env.classes[job["job_class"]]["ideal_iteration_s"] / beside_company(sim, job["replica"])
            copies = sim.replicas[job["replica"]]["gpus"] / (job["gpus"] * sim.world["max_copies"])
            out.values[v, COPIES.copies] = copies
            out.values[v, COPIES.rate] = speedup / (1.0 + speedup)


@observation_array("node_types", NODE_TYPES_COLUMNS, "nodes", TYPED, "one row per node")
@kernel
def write_node_types(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all nodes; :func:`write_types`, which comes next, shows the same means."""
    w = sim.world
    types = env.rates.shape[1]
    for t in range(types):
        mean = 0.0
        for i in range(w["waiting"]):
            mean += env.rates[sim.jobs[sim.waiting[w["first_waiting"] + i]]["job_class"], t]
        env.mean_rates[t] = min(mean / w["waiting"], 1.0) if w["waiting"] > 0 else 0.0  # above 1 by rounding
    for n in range(w["nodes"]):
        t = sim.nodes[n]["gpu_type"]
        out.values[n, NODE_TYPES.type] = t / types
        out.values[n, NODE_TYPES.rate] = env.mean_rates[t]


@observation_array("types", TYPES_COLUMNS, "types", TYPED, "one row per GPU type")
@kernel
def write_types(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all GPU types."""
    for t in range(env.rates.shape[1]):
        gpus = 0
        for n in range(sim.world["nodes"]):
            if sim.nodes[n]["gpu_type"] == t:
                gpus += sim.nodes[n]["gpus"]
        out.values[t, TYPES.gpus] = gpus / sim.world["gpus"]
        out.values[t, TYPES.free] = free_of_type(sim, t) / gpus if gpus > 0 else 0.0
        out.values[t, TYPES.rate] = env.mean_rates[t]


def relative_rates(instance: Instance) -> np.ndarray:
    """float64 [C, T]: iterations/s of each class on GPUs of one type only / on those of its best type.

    All 0 for a gang that is larger than the GPUs of every single type.
    """
    rates = type_rates(instance.classes[:, 1], instance.iteration_s, instance.cluster, instance.node_rooms)
    best = rates.max(axis=1, keepdims=True)
    shares: np.ndarray = np.divide(rates, best, out=np.zeros_like(rates), where=best > 0)
    return shares
