"""The state: a handful of arrays whose leading axis is the environment index. A single run is a batch of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.cluster import NODE_DTYPE, RACK_DTYPE, TIERS
from gpusched_env.event_log import EVENT_DTYPE
from gpusched_env.instance import Instance

# Job status.
FUTURE, WAITING, RUNNING, FINISHED = range(4)
# Replica phase. A replica that checkpoints still holds its GPUs.
IDLE, ACTIVE, CHECKPOINTING = range(3)

WORLD_DTYPE: Final = np.dtype(
    [
        # rules of play, fixed
        ("round_s", "<f8"),  # [s] 0 = exact events
        ("checkpoint_s", "<f8"),  # [s]
        ("restore_s", "<f8"),  # [s]
        ("time_limit_s", "<f8"),  # [s] inf = none
        ("jobs", "<i8"),  # sizes of this environment; the arrays may be longer
        ("nodes", "<i8"),
        ("racks", "<i8"),
        ("gpus", "<i8"),
        ("node_gpus", "<i8"),  # [GPU] of the largest node
        # where the run stands
        ("clock_s", "<f8"),
        ("timer_s", "<f8"),  # [s] earliest wake-up a scheduler asked for; inf = none
        ("next_arrival", "<i8"),  # row of the next job to arrive
        ("next_tick", "<i8"),  # number of the next round
        ("deciding", "<i8"),  # 1 = a scheduler must be asked once all events of this instant have been played
        ("waiting", "<i8"),  # entries in use of the waiting list
        ("running", "<i8"),  # entries in use of the running list, checkpointing replicas included
        ("finished", "<i8"),
        ("free_gpus", "<i8"),
        ("random", "<i8"),  # state of the generator of random placements, 1 .. 2**32-1
        ("preemptions", "<i8"),
        # integrals over time since the start, for rewards
        ("job_seconds", "<f8"),  # [s] of jobs in the system
        ("slowdown_seconds", "<f8"),  # of the sum of 1/ideal_s over jobs in the system
        ("busy_gpu_seconds", "<f8"),  # [GPU s] held
        ("slowdown_weight", "<f8"),  # [1/s] sum of 1/ideal_s over jobs in the system
        ("fairness_sum", "<f8"),  # finish-time fairness rho summed over finished jobs
        # event log buffers, drained by Python
        ("events", "<i8"),  # records in the buffer
        ("event_gpus", "<i8"),  # GPU ids in the buffer
        ("gpus_before", "<i8"),  # GPU ids drained earlier
    ]
)
JOB_STATE_DTYPE: Final = np.dtype(
    [
        ("arrival_s", "<f8"),
        ("iterations", "<f8"),
        ("ideal_s", "<f8"),  # [s] run time on the ideal placement
        ("gpus", "<i4"),
        ("job_class", "<i4"),  # row of iteration_s
        ("status", "<i4"),  # FUTURE, WAITING, RUNNING, FINISHED; a checkpointing job is RUNNING
        ("replica", "<i4"),  # row of the replica table, -1 = none
        ("remaining", "<f8"),  # iterations left when the replica was last touched
        ("service_s", "<f8"),  # [s] productive seconds when the replica was last touched
        ("first_start_s", "<f8"),  # [s] inf = not yet
        ("last_stop_s", "<f8"),  # [s] arrival, then the latest release of GPUs
        ("finish_s", "<f8"),  # [s] inf = not yet
        ("job_seconds", "<f8"),  # WORLD.job_seconds at arrival
        ("preemptions", "<i4"),
        ("padding", "<i4"),  # keeps the 8-byte fields of an array aligned
    ]
)
REPLICA_DTYPE: Final = np.dtype(
    [
        ("job", "<i4"),
        ("phase", "<i4"),  # IDLE, ACTIVE, CHECKPOINTING
        ("gpus", "<i4"),  # [GPU]
        ("tier", "<i4"),
        ("first_gpu", "<i4"),  # head of the chain of its GPUs (gpu_next)
        ("padding", "<i4"),  # keeps the 8-byte fields aligned
        ("start_s", "<f8"),  # [s] when it took its GPUs
        ("since_s", "<f8"),  # [s] progress counts from here
        ("iteration_s", "<f8"),  # [s] seconds of one iteration
        ("until_s", "<f8"),  # [s] completion if ACTIVE, release if CHECKPOINTING
    ]
)


class State(NamedTuple):
    """All arrays of B environments; kernels take them in this order, then the environment index.

    Shapes use B environments, J jobs, R = G replicas, N nodes, K racks, G GPUs, C job classes, T GPU types.
    """

    world: np.ndarray  # WORLD_DTYPE [B]
    jobs: np.ndarray  # JOB_STATE_DTYPE [B, J]
    replicas: np.ndarray  # REPLICA_DTYPE [B, R]
    nodes: np.ndarray  # NODE_DTYPE [B, N]
    racks: np.ndarray  # RACK_DTYPE [B, K]
    free: np.ndarray  # int32 [B, N + K]: free GPUs of each node, then of each rack
    holder: np.ndarray  # int32 [B, G]: replica that holds the GPU, -1 = free
    gpu_next: np.ndarray  # int32 [B, G]: next GPU of the same gang, -1 = last
    gpu_node: np.ndarray  # int32 [B, G]: node of each GPU
    waiting: np.ndarray  # int32 [B, J]: waiting jobs, ascending rows (= tie order)
    running: np.ndarray  # int32 [B, R]: replicas that hold GPUs, by start; beyond world.running the idle ones
    iteration_s: np.ndarray  # float64 [B, C, tiers, T]
    events: np.ndarray  # EVENT_DTYPE [B, E]: buffer
    event_gpus: np.ndarray  # int32 [B, 4 G + 64]: buffer
    chosen: np.ndarray  # int32 [B, G]: GPUs of the latest placement


EVENT_BUFFER: Final = 1024


def allocate(instances: Sequence[Instance], random_seeds: Sequence[int] | None = None) -> State:
    """Lay out the state of one environment per instance, before time 0.

    Parameters
    ----------
    instances : one problem per environment; sizes may differ, arrays are as long as the longest
    random_seeds : one seed per environment for the "random" placement rule
    """
    batch = len(instances)
    jobs = max(len(i.workload) for i in instances)
    nodes = max(len(i.cluster.nodes) for i in instances)
    racks = max(len(i.cluster.racks) for i in instances)
    gpus = max(i.cluster.gpus for i in instances)
    classes = max(len(i.classes) for i in instances)
    types = max(len(i.cluster.gpu_types) for i in instances)
    state = State(
        world=np.zeros(batch, WORLD_DTYPE),
        jobs=np.zeros((batch, jobs), JOB_STATE_DTYPE),
        replicas=np.zeros((batch, gpus), REPLICA_DTYPE),
        nodes=np.zeros((batch, nodes), NODE_DTYPE),
        racks=np.zeros((batch, racks), RACK_DTYPE),
        free=np.zeros((batch, nodes + racks), np.int32),
        holder=np.full((batch, gpus), -1, np.int32),
        gpu_next=np.full((batch, gpus), -1, np.int32),
        gpu_node=np.zeros((batch, gpus), np.int32),
        waiting=np.zeros((batch, jobs), np.int32),
        running=np.tile(np.arange(gpus, dtype=np.int32), (batch, 1)),
        iteration_s=np.zeros((batch, classes, len(TIERS), types)),
        events=np.zeros((batch, EVENT_BUFFER), EVENT_DTYPE),
        event_gpus=np.zeros((batch, 4 * gpus + 64), np.int32),
        chosen=np.zeros((batch, gpus), np.int32),
    )
    for b, instance in enumerate(instances):
        _fill(state, b, instance, 0 if random_seeds is None else random_seeds[b])
    return state


def _fill(state: State, b: int, instance: Instance, random_seed: int) -> None:
    world, rules, cluster = state.world[b], instance.semantics, instance.cluster
    for name in ("round_s", "checkpoint_s", "restore_s", "time_limit_s"):
        world[name] = getattr(rules, name)
    world["jobs"], world["gpus"] = len(instance.workload), cluster.gpus
    world["nodes"], world["racks"] = len(cluster.nodes), len(cluster.racks)
    world["node_gpus"] = cluster.nodes["gpus"].max()
    world["free_gpus"] = cluster.gpus
    world["timer_s"] = np.inf
    world["random"] = np.random.SeedSequence(random_seed).generate_state(1)[0] or 1

    jobs = state.jobs[b, : len(instance.workload)]
    jobs["arrival_s"] = instance.workload.jobs["arrival_s"]
    jobs["gpus"] = instance.workload.jobs["gpus"]
    jobs["iterations"] = jobs["remaining"] = instance.iterations
    jobs["ideal_s"] = instance.ideal_s
    jobs["job_class"] = instance.job_class
    jobs["replica"] = -1
    jobs["first_start_s"] = jobs["finish_s"] = np.inf
    jobs["last_stop_s"] = instance.workload.jobs["arrival_s"]

    state.nodes[b, : len(cluster.nodes)] = cluster.nodes
    state.racks[b, : len(cluster.racks)] = cluster.racks
    state.free[b, : len(cluster.nodes)] = cluster.nodes["gpus"]
    first_rack = state.nodes.shape[1]
    state.free[b, first_rack : first_rack + len(cluster.racks)] = cluster.racks["gpus"]
    state.gpu_node[b, : cluster.gpus] = cluster.node_of_gpu
    classes, tiers, types = instance.iteration_s.shape
    state.iteration_s[b, :classes, :tiers, :types] = instance.iteration_s
