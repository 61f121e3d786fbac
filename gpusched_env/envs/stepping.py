"""The driver that steps environments: it plays their actions, pays rewards, counts steps and refusals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoding import (
    BEYOND_PLAY,
    DELAYS,
    MASK,
    QUEUE_SLOTS,
    RUNNING_SLOTS,
)
from gpusched_env.envs.one_action import INFEASIBLE, NEARLY_FULL, RESUME
from gpusched_env.envs.pieces import play_by
from gpusched_env.envs.told import DT, FIRST_COMPONENT, REFUSALS, REWARD, TERMINATED, TRUNCATED
from gpusched_env.simulator.binding import bound_array, bound_state, fetch
from gpusched_env.core.events import DECIDE, DONE, LOG_FULL, TIME_LIMIT
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.core.state import WORLD_DTYPE

Array = np.ndarray[Any, Any]

# An action beyond those of the action space: leave the environment as it is.
SKIP: Final = -3
EPISODE_DTYPE: Final = np.dtype(
    [
        ("clock_s", "<f8"),  # [s] when the last step ended
        ("episode_return", "<f8"),  # sum of rewards
        ("steps", "<i8"),
        ("step_limit", "<i8"),
        ("refusals", "<i8"),
        ("stepping", "<i8"),  # 1 = a step has begun and not ended, since the log was full
        ("keeps_log", "<i8"),  # 0 = nobody reads the log: it is thrown away
        ("outcome", "<i8"),  # of the last call: an outcome of advance
        ("is_refused", "<i8"),  # 1 = its action was infeasible
        ("row", "<i8"),  # beyond its number, of the arrays to which its observations are copied
    ]
)
# A component is minus the increase of one of these, see rewards.COMPONENTS.
LEVELS: Final = ("job_seconds", "slowdown_seconds", "clock_s", "fairness_sum")
# What the driver returns beside 0, as bits: some log should be drained; is full, so that its environment stands still;
# some episode is over; some action was infeasible, so that no observation was written.
DRAIN, STANDS, OVER, REFUSED = 1, 2, 4, 8

_INT8, _INT32, _INT64, _FLOAT64 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)
_LINE: Final = 64  # [byte] of the caches
_WORLD_LINES: Final = 6  # that most steps read
_GANGS_AHEAD: Final = 96  # of which the first line is asked for
_JOBS_AHEAD: Final = 12
# Rows of the table beyond those of encoding.PLAY_PARAMETERS.
EPISODES, _ACTIONS, _COMPONENTS, _WEIGHTS, _SCALES, _LEVELS, _TOLD = range(BEYOND_PLAY, BEYOND_PLAY + 7)


@helper
def level_of(world: Array, b: int, number: int) -> float:
    """Read one of LEVELS."""
    w = world[b]
    if number == 0:
        return w["job_seconds"]
    if number == 1:
        return w["slowdown_seconds"]
    return w["clock_s"] if number == 2 else w["fairness_sum"]


@helper
def throw_log_away(world: Array, b: int) -> None:
    """Empty the log buffers."""
    w = world[b]
    w["gpus_before"] += w["event_gpus"]
    w["events"] = 0
    w["event_gpus"] = 0


@helper
def pay(
    world: Array, episodes: Array, components: Array, weights: Array, scales: Array, levels: Array, told: Array, b: int
) -> bool:
    """End a step: tell what has passed since the one before; return whether the episode is over."""
    episode = episodes[b]
    reward = 0.0
    for i in range(len(components)):
        level = level_of(world, b, components[i])
        told[b, FIRST_COMPONENT + i] = (levels[b, i] - level) / scales[b, i]
        reward += weights[i] * told[b, FIRST_COMPONENT + i]
        levels[b, i] = level
    told[b, REWARD] = reward
    told[b, DT] = world[b]["clock_s"] - episode["clock_s"]
    told[b, REFUSALS] = episode["refusals"]
    episode["clock_s"] = world[b]["clock_s"]
    episode["episode_return"] += reward
    episode["steps"] += 1
    episode["stepping"] = 0
    done = episode["outcome"] == DONE
    cut = not done and (episode["outcome"] == TIME_LIMIT or episode["steps"] >= episode["step_limit"])
    told[b, TERMINATED] = 1.0 if done else 0.0
    told[b, TRUNCATED] = 1.0 if cut else 0.0
    return done or cut


@helper
def fetch_far(world: Array, running: Array, queue: Array, victims: Array, b: int) -> None:
    """Ask for what says where to look in a later environment: caches have lost it since its last step."""
    for line in range(_WORLD_LINES):
        fetch(world, b, int64(0), int64(line * _LINE))
    for line in range(2):
        fetch(running, b, int64(0), int64(line * _LINE))
        fetch(queue, b, int64(0), int64(line * _LINE))
    fetch(victims, b, int64(0), int64(0))


@helper
def job_of(queue: Array, victims: Array, b: int, action: int, wait: int) -> int:
    """Job that an action starts or preempts; -1 = none. ``wait`` is the first action that waits."""
    first_victim = wait - victims.shape[1]
    if action >= wait or action < 0:
        return int64(-1)
    if action >= first_victim:
        return int64(victims[b, action - first_victim])
    return int64(queue[b, action * queue.shape[1] // first_victim])


@helper
def fetch_jobs(jobs: Array, queue: Array, victims: Array, b: int, action: int, wait: int) -> None:
    """Ask for the jobs that the next environment but one will look at: those of running slots if time will pass."""
    for k in range(min(queue.shape[1], _JOBS_AHEAD)):
        if queue[b, k] < 0:
            break
        fetch(jobs, b, int64(queue[b, k]), int64(0))
    row = job_of(queue, victims, b, action, wait)
    if row >= 0:
        fetch(jobs, b, row, int64(0))
        fetch(jobs, b, row, int64(_LINE))
    elif action >= 0:
        for v in range(victims.shape[1]):
            if victims[b, v] < 0:
                break
            fetch(jobs, b, int64(victims[b, v]), int64(0))


@helper
def fetch_gangs(
    world: Array,
    jobs: Array,
    replicas: Array,
    events: Array,
    running: Array,
    queue: Array,
    victims: Array,
    b: int,
    action: int,
    wait: int,
) -> None:
    """Ask for the gangs at which the next environment's step will look: all if time will pass."""
    w = world[b]
    row = job_of(queue, victims, b, action, wait)
    if row < 0:
        for i in range(min(w["running"], _GANGS_AHEAD)):
            fetch(replicas, b, int64(running[b, i]), int64(0))
            fetch(replicas, b, int64(running[b, i]), int64(_LINE))
    else:
        number = int64(jobs[b, row]["replica"])
        if number < 0:
            number = int64(running[b, w["running"]])
        fetch(replicas, b, number, int64(0))
        fetch(replicas, b, number, int64(_LINE))
    fetch(events, b, int64(w["events"]), int64(0))


@kernel
def step_all(table: Any, first: int, end: int) -> int:
    """Play ``actions[b]`` (or NO_ACTION, RESUME, SKIP) in environments ``first`` to ``end`` - 1; return bits of all."""
    world = bound_array(table, 0, WORLD_DTYPE, 1)
    episodes = bound_array(table, EPISODES, EPISODE_DTYPE, 1)
    actions = bound_array(table, _ACTIONS, _INT64, 1)
    components = bound_array(table, _COMPONENTS, _INT64, 1)
    weights = bound_array(table, _WEIGHTS, _FLOAT64, 1)
    scales = bound_array(table, _SCALES, _FLOAT64, 2)
    levels = bound_array(table, _LEVELS, _FLOAT64, 2)
    told = bound_array(table, _TOLD, _FLOAT64, 2)
    state = bound_state(table)
    jobs, replicas, running, events = state[1], state[2], state[10], state[12]
    queue = bound_array(table, QUEUE_SLOTS, _INT32, 2)
    victims = bound_array(table, RUNNING_SLOTS, _INT32, 2)
    wait = bound_array(table, MASK, _INT8, 2).shape[1] - 1 - bound_array(table, DELAYS, _FLOAT64, 1).shape[0]
    bits = int64(0)
    for b in range(first, end):
        if b + 3 < end:
            fetch_far(world, running, queue, victims, int64(b + 3))
        if b + 2 < end:
            fetch_jobs(jobs, queue, victims, int64(b + 2), int64(actions[b + 2]), wait)
        if b + 1 < end:
            action = int64(actions[b + 1])
            fetch_gangs(world, jobs, replicas, events, running, queue, victims, int64(b + 1), action, wait)
        episode = episodes[b]
        action = int64(actions[b])
        if action == SKIP:
            continue
        if action >= 0:
            episode["stepping"] = 1
        episode["is_refused"] = 0
        row = b + int64(episode["row"])
        outcome = play_by(table, b, action, row)
        while outcome == LOG_FULL and not episode["keeps_log"]:
            throw_log_away(world, b)
            outcome = play_by(table, b, int64(RESUME), row)
        if outcome == LOG_FULL:
            episode["outcome"] = LOG_FULL
            bits |= STANDS
            continue
        if outcome == INFEASIBLE:  # nothing has changed: mask and observation still hold
            episode["is_refused"] = 1
            episode["refusals"] += 1
            bits |= REFUSED
            outcome = int64(DECIDE)
        elif outcome >= NEARLY_FULL:
            outcome -= NEARLY_FULL
            if episode["keeps_log"]:
                bits |= DRAIN
        episode["outcome"] = outcome
        if not episode["keeps_log"]:  # the next step writes where this one did: caches still have it
            throw_log_away(world, b)
        if episode["stepping"]:
            if pay(world, episodes, components, weights, scales, levels, told, b):
                bits |= OVER
        elif episode["steps"] == 0:  # what passed before the first decision is paid with the first step
            episode["clock_s"] = world[b]["clock_s"]
    return bits
