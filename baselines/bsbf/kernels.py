"""The compiled loop of SJF-FFS and SJF-BSBF: start waiting jobs one after another, alone or beside running jobs.

The loop makes the same decisions as ``SjfBsbf.decide``; tests compare the event logs.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.baselines.listed.lines import sort_rows
from gpusched_env.baselines.loop_kernels import ASLEEP, DECIDES, sleep, waits_until
from gpusched_env.core.events import BAD_WAIT, DECIDE, EXPLICIT, LOG_FULL, seconds_left, start
from gpusched_env.core.handle import Handle, array, helper, kernel
from gpusched_env.core.holding import entry
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.refusals import BUFFER_FULL
from gpusched_env.core.state import WAITING, Run

WALKS: Final = 2  # phase: walk along ``order``

QUEUE_DTYPE: Final = np.dtype(
    [
        ("by_size", "<i8"),  # 1 = by remaining run time, 0 = by arrival
        ("strict", "<i8"),  # 1 = the first job that does not fit blocks all jobs behind it
        ("choices", "<i8"),  # flags of core/sharing/choices.py
        ("round_s", "<f8"),  # [s] decide only at its multiples; 0 = at every event
        ("until_s", "<f8"),  # [s] when to stop
        # state of the loop
        ("phase", "<i8"),
        ("at", "<i8"),  # next entry of ``order``
        ("queued", "<i8"),  # entries in use of ``order``
        ("seen", "<i8"),  # jobs that have arrived
        ("idle", "<i8"),
    ]
)


class Line(Handle):
    """State of the loop, and the waiting jobs in the order in which they are served."""

    memory = array(QUEUE_DTYPE)
    order = array(np.int32, "jobs")
    scratch = array(np.int32, "jobs")
    keys = array(np.float64, "jobs")
    ranks = array(np.float64, "jobs")


@helper
def round_after(round_s: float, now_s: float) -> float:
    """Return the time of the first round after ``now_s`` [s]."""
    rounds = max(math.floor(now_s / round_s) - 1, 0)
    for _ in range(3):  # the division may round up or down
        if rounds * round_s <= now_s:
            rounds += 1
    return rounds * round_s


@kernel
def order_jobs(sim: Run, line: Line) -> None:
    """Update the order of the waiting jobs; the key of a job does not change while it waits."""
    q = line.memory
    kept = 0
    for i in range(q["queued"]):
        row = line.order[i]
        if sim.jobs[row]["status"] == WAITING:
            line.order[kept] = row
            kept += 1
    while q["seen"] < sim.world["entered"]:
        row = entry(sim, q["seen"])
        q["seen"] += 1
        if sim.jobs[row]["status"] != WAITING:  # cancelled
            continue
        if q["by_size"]:
            line.keys[row] = seconds_left(sim, row)
        line.order[kept] = row
        kept += 1
    q["queued"] = kept
    sort_rows(line.order, line.scratch, line.keys, line.ranks, kept)


@kernel
def play_shared(sim: Run, line: Line) -> int:
    """Simulate until ``until_s`` (PAUSED), until the log is full, or until ``advance`` ends the run."""
    w = sim.world
    q = line.memory
    while True:
        if q["phase"] == ASLEEP:
            outcome = sleep(sim, line.memory)
            if outcome != DECIDE:
                return outcome
        if q["phase"] == DECIDES:
            q["phase"] = ASLEEP
            if w["waiting"] == 0:
                continue
            if q["round_s"] > 0.0 and w["round_s"] == 0.0:
                next_s = round_after(q["round_s"], w["clock_s"])
                if not waits_until(sim, next_s):
                    return BAD_WAIT
                if next_s - q["round_s"] != w["clock_s"]:
                    continue
            order_jobs(sim, line)
            q["at"] = 0
            q["phase"] = WALKS
        while q["at"] < q["queued"]:
            row = line.order[q["at"]]
            count, option = find_shared(sim, row, q["choices"])
            if count > 0:
                steps = sim.sub_batches[sim.jobs[row]["job_class"], option, 0]["sub_steps"]
                code = start(sim, row, EXPLICIT, count, True, steps)
                if code == BUFFER_FULL:
                    return LOG_FULL
            elif q["strict"]:
                break
            q["at"] += 1
        q["phase"] = ASLEEP
