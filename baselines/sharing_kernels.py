"""The compiled loop of SJF-FFS and SJF-BSBF: one waiting job after the other, alone or beside running ones.

It decides what ``SjfBsbf.decide`` decides; tests compare the logs. The kernels of the simulator are called by address,
so that none of them is compiled again (calls.py).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from gpusched_env.baselines.line_kernels import sort_rows
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, wake_at
from gpusched_env.simulator.calls import find_by
from gpusched_env.core.events import BUFFER_FULL, DECIDE, EXPLICIT, LOG_FULL, seconds_left
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.moves import start_by
from gpusched_env.core.state import WAITING

Array = np.ndarray[Any, Any]

WALKS: Final = 2  # phase: along ``order``

QUEUE_DTYPE: Final = np.dtype(
    [
        ("by_size", "<i8"),  # 1 = by run time left, 0 = by arrival
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all behind it
        ("choices", "<i8"),  # flags of sharing_choices.py
        ("round_s", "<f8"),  # [s] decide at its multiples only; 0 = at every event
        ("until_s", "<f8"),  # [s] when to stop
        # where it stands
        ("phase", "<i8"),
        ("at", "<i8"),  # entry of ``order`` that comes next
        ("queued", "<i8"),  # entries of ``order``
        ("seen", "<i8"),  # jobs that have arrived
        ("idle", "<i8"),
    ]
)


@helper
def round_after(round_s: float, now_s: float) -> float:
    """Give the first round after a time [s]."""
    rounds = max(math.floor(now_s / round_s) - 1, 0)
    while rounds * round_s <= now_s:  # a division may round either way
        rounds += 1
    return rounds * round_s


@helper
def order_jobs(
    world: Array,
    jobs: Array,
    replicas: Array,
    queue: Array,
    order: Array,
    scratch: Array,
    keys: Array,
    ranks: Array,
    b: int,
) -> None:
    """Bring the order of the waiting jobs up to date; what a job is ordered by does not change while it waits."""
    q = queue[0]
    kept = 0
    for i in range(q["queued"]):
        row = order[i]
        if jobs[b, row]["status"] == WAITING:
            order[kept] = row
            kept += 1
    while q["seen"] < world[b]["next_arrival"]:
        row = int64(q["seen"])
        if q["by_size"]:
            keys[row] = seconds_left(world, jobs, replicas, b, row)
        order[kept] = row
        kept += 1
        q["seen"] += 1
    q["queued"] = kept
    sort_rows(order, scratch, keys, ranks, kept)


@kernel
def play_shared(
    world: Array,
    jobs: Array,
    replicas: Array,
    running: Array,
    sub_batches: Array,
    b: int,
    moves: int,
    places: int,
    queue: Array,
    order: Array,
    scratch: Array,
    keys: Array,
    ranks: Array,
) -> int:
    """Play on until ``until_s`` (PAUSED), the log is full, or ``advance`` ends the run."""
    w = world[b]
    q = queue[0]
    while True:
        if q["phase"] == ASLEEP:
            outcome = sleep(world, replicas, running, b, moves, queue)
            if outcome != DECIDE:
                return outcome
        if q["phase"] == DECIDES:
            q["phase"] = ASLEEP
            if w["waiting"] == 0:
                continue
            if q["round_s"] > 0.0 and w["round_s"] == 0.0:
                next_s = round_after(q["round_s"], w["clock_s"])
                wake_at(world, b, next_s)
                if next_s - q["round_s"] != w["clock_s"]:
                    continue
            order_jobs(world, jobs, replicas, queue, order, scratch, keys, ranks, b)
            q["at"] = 0
            q["phase"] = WALKS
        while q["at"] < q["queued"]:
            row = int64(order[q["at"]])
            count, option = find_by(places, b, (row, int64(q["choices"])))
            if count > 0:
                steps = int64(sub_batches[b, jobs[b, row]["job_class"], option, 0]["sub_steps"])
                code = start_by(moves, b, row, int64(EXPLICIT), count, int64(1), steps)
                if code == BUFFER_FULL:
                    return LOG_FULL
            elif q["strict"]:
                break
            q["at"] += 1
        q["phase"] = ASLEEP
