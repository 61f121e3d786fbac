"""The kernel that plays one action: it carries it out, plays events where it waits, and looks at what there is then."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoding import (
    CONFIG,
    CONFIG_DTYPE,
    DELAYS,
    FLOAT64,
    INT8,
    INT32,
    MASK,
    PARTNER_SLOTS,
    QUEUE_SLOTS,
    RULES,
    RUNNING_SLOTS,
)
from gpusched_env.envs.pieces import look_by, renew_by
from gpusched_env.envs.sharing_actions import chosen_steps
from gpusched_env.envs.slots import ANY_JOB
from gpusched_env.simulator.binding import bound_array, bound_row, state_here
from gpusched_env.core.events import DECIDE, EXPLICIT, LOG_FULL
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.moves import advance_by, beside_by, lease_by, preempt_by, start_by

Array = np.ndarray[Any, Any]

# Results of :func:`play` beyond those of advance.
INFEASIBLE: Final = 8
NEARLY_FULL: Final = 16
# Actions beyond those of the action space.
NO_ACTION: Final = -1
RESUME: Final = -2


@helper
def act(table: Any, world: Array, jobs: Array, sub_batches: Array, config: Array, number: int, action: int) -> int:
    """Carry out a feasible action; return the job that it has started or preempted, ANY_JOB if it waits."""
    b = int64(0)
    w = world[b]
    rules = bound_array(table, RULES, INT32, 1)
    queue = bound_row(table, QUEUE_SLOTS, INT32, 1, number)
    victims = bound_row(table, RUNNING_SLOTS, INT32, 1, number)
    partners = bound_row(table, PARTNER_SLOTS, INT32, 1, number)
    sizes = int64(config[0]["sub_batches"])
    columns = max(sizes, 1)
    slot_starts = (len(rules) + len(partners)) * columns
    starts = len(queue) * slot_starts
    if action < starts:
        row = int64(queue[action // slot_starts])
        place = action % slot_starts // columns
        size = action % columns
        kind = int64(jobs[b, row]["job_class"])
        beside = place >= len(rules)
        rule = int64(EXPLICIT)
        found = int64(0)
        if beside:
            option = size if sizes > 0 else int64(-1)
            partner = int64(partners[place - len(rules)])
            both = beside_by(table, number, row, partner, option)
            found = both & 0xFFFFFFFF
            steps = int64(sub_batches[b, kind, both >> 32, 0]["sub_steps"])
        else:
            rule = int64(rules[place])
            steps = int64(chosen_steps(sub_batches, b, kind, sizes, size))
        start_by(table, number, row, rule, found, int64(beside), steps)
        if config[0]["lease_s"] < np.inf:
            until_s = w["clock_s"] + config[0]["lease_s"]
            lease_by(table, number, row, x=until_s)
        return row
    if action < starts + len(victims):
        row = int64(victims[action - starts])
        preempt_by(table, number, row)
        return row
    delays = bound_array(table, DELAYS, FLOAT64, 1)
    delay = action - starts - len(victims) - 1
    if delay >= 0:
        w["timer_s"] = min(w["timer_s"], w["clock_s"] + delays[delay])
    return int64(ANY_JOB)


@kernel
def renew(table: Any, number: int, _j: int, _k: int, _l: int, _m: int, _n: int, lease_s: float) -> int:
    """Let the gangs go on whose lease has ended, for ``lease_s``."""
    state = state_here(table, number)
    w, replicas, running = state[0][0], state[2], state[10]
    for i in range(w["running"]):
        r = replicas[0, running[0, i]]
        if r["lease_over"]:
            until_s = w["clock_s"] + lease_s
            lease_by(table, number, int64(r["job"]), x=until_s)
    return int64(0)


@kernel
def play(table: Any, number: int, action: int, row: int, _k: int, _m: int, _n: int, _: float) -> int:
    """Play one action on the windows of the last call, skip forced waits, and write mask and observation.

    ``action`` NO_ACTION only looks and RESUME advances again after a full log. Mask and observation are copied to row
    ``row`` of the arrays for copies, if they have it. Returns an outcome of advance, LOG_FULL (drain the log, then
    RESUME) or INFEASIBLE (nothing changed, nothing is written); NEARLY_FULL is added when the log should be drained.
    """
    state = state_here(table, number)
    world, jobs, events, event_gpus, sub_batches = state[0], state[1], state[12], state[13], state[21]
    config = bound_array(table, CONFIG, CONFIG_DTYPE, 1)
    w = world[0]
    lease_s = config[0]["lease_s"]
    outcome = int64(DECIDE)
    changed = int64(ANY_JOB)
    waits = action == RESUME
    if action >= 0:
        if bound_row(table, MASK, INT8, 1, number)[action] == 0:
            return int64(INFEASIBLE)
        changed = act(table, world, jobs, sub_batches, config, number, action)
        waits = changed == ANY_JOB
    while True:
        if waits:
            # to wait is to let them go on; after a full log, of those that have ended nobody has been asked yet
            if lease_s < np.inf and w["leases_over"] and action != RESUME:
                renew_by(table, number, x=lease_s)
            outcome = advance_by(table, number)
            if outcome == LOG_FULL:
                return int64(LOG_FULL)
            action = int64(NO_ACTION)
            changed = int64(ANY_JOB)
        if look_by(table, number, outcome, changed, row):
            break
        waits = True
    if 2 * w["events"] > events.shape[1] or 2 * w["event_gpus"] > event_gpus.shape[1]:
        outcome += NEARLY_FULL
    return outcome
