"""Kernels that write the observation arrays about the sizes of elastic jobs.

Most columns of a job depend only on the job and its present size, so they are written when these change.
"""

from __future__ import annotations

import numpy as np

from gpusched_env.core.events import work_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.sizes import size_row
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.jobs import slot_key
from gpusched_env.envs.observation.time_scale import scaled_time

Array = np.ndarray


@kernel(lazy=True)
def fastest_s(sim: Run, env: EnvArrays, row: int) -> float:
    """Seconds of an iteration at the fastest size of a job, on its ideal placement [s]."""
    fastest = np.inf
    first = sim.jobs[row]["first_size"]
    for option in range(first, first + sim.jobs[row]["sizes"]):
        fastest = min(fastest, env.classes[sim.sizes[option]["job_class"]]["ideal_iteration_s"])
    return fastest


@helper
def write_speeds(sim: Run, env: EnvArrays, row: int, out: Array, at: int) -> None:
    """Write the columns of SIZES that depend on a job and its present size, in rows ``at`` and following."""
    best_s = fastest_s(sim, env, row)
    fewer = 0  # the next smaller size, and its speed
    slower = 0.0
    each = 0.0  # speed of each GPU at the smallest size
    for s in range(len(env.gang_sizes)):
        gpus = env.gang_sizes[s]
        option = size_row(sim, row, gpus)
        for c in range(out.shape[1]):
            out[at + s, c] = 0.0
        if option >= 0:
            speed = best_s / env.classes[sim.sizes[option]["job_class"]]["ideal_iteration_s"]
            if fewer == 0:
                each = speed / gpus
            out[at + s, 0] = gpus / sim.world["gpus"]
            out[at + s, 1] = speed
            out[at + s, 2] = min(max((speed - slower) / (gpus - fewer) / each, 0.0), 1.0)
            out[at + s, 4] = 1.0 if gpus == sim.jobs[row]["gpus"] else 0.0
            fewer = gpus
            slower = speed


@helper
def write_slots(
    sim: Run, env: EnvArrays, slots: Array, seen: Array, out: Array, first_action: int, same_time: bool
) -> None:
    """Write the rows of SIZES for the jobs in ``slots``; the actions about the first slot begin at ``first_action``."""
    sizes = len(env.gang_sizes)
    rules = len(env.rules)
    for i in range(len(slots)):
        row = slots[i]
        at = i * sizes
        if row < 0:
            if seen[i] != UNSEEN:
                seen[i] = UNSEEN
                for s in range(at, at + sizes):
                    for c in range(out.shape[1]):
                        out[s, c] = 0.0
            continue
        key = slot_key(row, sim.jobs[row]["gpus"])
        known = seen[i] == key
        if not known:
            seen[i] = key
            write_speeds(sim, env, row, out, at)
        if env.config["clairvoyant"] > 0 and not (known and same_time):
            left = work_left(sim, row)
            for s in range(sizes):
                option = size_row(sim, row, env.gang_sizes[s])
                if option >= 0:
                    kind = sim.sizes[option]["job_class"]
                    out[at + s, 3] = scaled_time(left * env.classes[kind]["ideal_iteration_s"])
        for s in range(sizes):
            feasible = 0
            for p in range(rules):
                feasible |= env.mask[first_action + (i * rules + p) * sizes + s]
            out[at + s, 5] = feasible


@kernel(lazy=True)
def write_sizes(sim: Run, env: EnvArrays, same_time: bool) -> None:
    """Write all arrays of size_columns.SIZE_TABLES; ``same_time`` as for :func:`jobs.write_queue`."""
    write_slots(sim, env, env.queue, env.seen_queue_sizes, env.out_queue_sizes, 0, same_time)
    resizes = len(env.queue) * len(env.rules) * len(env.gang_sizes)
    write_slots(sim, env, env.victims, env.seen_running_sizes, env.out_running_sizes, resizes, same_time)
