"""The observation arrays about the sizes of elastic jobs.

Most columns of a job depend only on the job and its present size, so they are written when these change.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.core.events import work_left
from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.sizes import size_row
from gpusched_env.core.state import WAITING, Run
from gpusched_env.envs.env_arrays import UNSEEN, EnvArrays
from gpusched_env.envs.observation.column import SHARE, TIME, Column, indices
from gpusched_env.envs.observation.jobs import slot_key
from gpusched_env.envs.observation.registry import Group, Shown, clear_row, observation_array
from gpusched_env.envs.observation.time_scale import scaled_time

Array = np.ndarray

SIZES_COLUMNS: Final = (
    Column("gpus", "the size / GPUs of the cluster; if the job does not have this size, the whole row is 0", SHARE),
    Column("speed", "iterations/s at this size / at the fastest size of the job, each on its ideal placement", SHARE),
    Column(
        "gain",
        "iterations/s that each GPU adds to the next smaller size shown / iterations/s of each GPU at the smallest "
        "size shown; 1 at the smallest size",
        "at least 0, at most 1",
    ),
    Column("left", "seconds left at this size on its ideal placement; 0 unless clairvoyant", TIME),
    Column("present", "1 if the gang has this size; of a waiting job, if the job requests it", SHARE),
    Column("feasible", "1 if an action can start or resize the job to this size now", SHARE),
)
SIZES: Final = indices(SIZES_COLUMNS)
SIZED: Final = Group(
    "### Where actions choose the sizes of elastic jobs",
    """
    `sizes` are the S numbers of GPUs that an action can name. A rigid job has one row that is not 0. `queue`,
    `running` and the other arrays show a running gang at its present size, and a waiting job at the size that it
    requests.
    """,
    "sizes",
)


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
        clear_row(out, at + s)
        if option >= 0:
            speed = best_s / env.classes[sim.sizes[option]["job_class"]]["ideal_iteration_s"]
            if fewer == 0:
                each = speed / gpus
            out[at + s, SIZES.gpus] = gpus / sim.world["gpus"]
            out[at + s, SIZES.speed] = speed
            out[at + s, SIZES.gain] = min(max((speed - slower) / (gpus - fewer) / each, 0.0), 1.0)
            out[at + s, SIZES.present] = 1.0 if gpus == sim.jobs[row]["gpus"] else 0.0
            fewer = gpus
            slower = speed


@observation_array(
    "running_sizes", SIZES_COLUMNS, ("running", "sizes"), SIZED, "one row per running slot and size: row v S + s"
)
@observation_array(
    "queue_sizes", SIZES_COLUMNS, ("queue", "sizes"), SIZED, "one row per queue slot and size: row k S + s"
)
@kernel
def write_sizes(sim: Run, env: EnvArrays, out: Shown) -> None:
    """Write the rows of all slots."""
    sizes = len(env.gang_sizes)
    rules = len(env.rules)
    for i in range(len(out.slots)):
        row = out.slots[i]
        at = i * sizes
        if row < 0:
            if out.keys[at] != UNSEEN:
                out.keys[at] = UNSEEN
                for s in range(at, at + sizes):
                    clear_row(out.values, s)
            continue
        key = slot_key(row, sim.jobs[row]["gpus"])
        known = out.keys[at] == key
        if not known:
            out.keys[at] = key
            write_speeds(sim, env, row, out.values, at)
        if env.config["clairvoyant"] > 0 and not (known and env.changed["same_time"]):
            left = work_left(sim, row)
            for s in range(sizes):
                option = size_row(sim, row, env.gang_sizes[s])
                if option >= 0:
                    kind = sim.sizes[option]["job_class"]
                    out.values[at + s, SIZES.left] = scaled_time(left * env.classes[kind]["ideal_iteration_s"])
        # resizes come after the starts of all queue slots
        first = 0 if sim.jobs[row]["status"] == WAITING else len(env.queue) * rules * sizes
        for s in range(sizes):
            feasible = 0
            for p in range(rules):
                feasible |= env.mask[first + (i * rules + p) * sizes + s]
            out.values[at + s, SIZES.feasible] = feasible
