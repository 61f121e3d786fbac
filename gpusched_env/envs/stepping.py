"""The driver that steps environments: it plays their actions, pays rewards, counts steps and refusals."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoding import (
    CLASS_DTYPE,
    CONFIG_DTYPE,
    INFEASIBLE,
    NEARLY_FULL,
    RESUME,
    SHOWN_LINK_DTYPE,
)
from gpusched_env.simulator.binding import ACTION, ENVIRONMENT, STATE_PARAMETERS, Parameter, bound_array, caller
from gpusched_env.simulator.events import DECIDE, DONE, LOG_FULL, TIME_LIMIT
from gpusched_env.simulator.jit import helper, int64, kernel
from gpusched_env.simulator.state import WORLD_DTYPE

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
    ]
)
# What a step tells: columns of ``told``, then one column a reward component.
REWARD, DT, REFUSALS, TERMINATED, TRUNCATED, FIRST_COMPONENT = range(6)
# A component is minus the increase of one of these, see rewards.COMPONENTS.
LEVELS: Final = ("job_seconds", "slowdown_seconds", "clock_s", "fairness_sum")
# What the driver returns beside 0, as bits: some log should be drained; is full, so that its environment stands still;
# some episode is over.
DRAIN, STANDS, OVER = 1, 2, 4

_INT8, _INT32, _INT64 = (np.dtype(f"i{size}") for size in (1, 4, 8))
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# Of encoding.play.
PLAY_PARAMETERS: Final[tuple[Parameter | str, ...]] = (
    *STATE_PARAMETERS,
    ENVIRONMENT,
    Parameter(CONFIG_DTYPE, 1, True),
    Parameter(CLASS_DTYPE, 2),
    Parameter(SHOWN_LINK_DTYPE, 2),
    Parameter(_INT32, 1, True),  # rules
    Parameter(_FLOAT64, 1, True),  # delays
    Parameter(_INT32, 1),  # queue
    Parameter(_INT32, 1),  # victims
    Parameter(_INT32, 1),  # partners
    Parameter(_FLOAT64, 1),  # keys
    ACTION,
    Parameter(_INT8, 1),  # mask
    Parameter(_FLOAT32, 2),  # queue, running, nodes, links, cluster, flows
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 2),
    Parameter(_FLOAT32, 1),
    Parameter(_FLOAT32, 2),
)
# Rows of the table beyond them.
_EPISODES: Final = len(PLAY_PARAMETERS) - 2
_ACTIONS, _COMPONENTS, _WEIGHTS, _SCALES, _LEVELS, _TOLD = range(_EPISODES + 1, _EPISODES + 7)

play_in: Final = caller(PLAY_PARAMETERS)


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


@kernel
def step_all(table: Any, first: int, end: int) -> int:
    """Play ``actions[b]`` (or NO_ACTION, RESUME, SKIP) in environments ``first`` to ``end`` - 1; return bits of all."""
    world = bound_array(table, 0, WORLD_DTYPE, 1)
    episodes = bound_array(table, _EPISODES, EPISODE_DTYPE, 1)
    actions = bound_array(table, _ACTIONS, _INT64, 1)
    components = bound_array(table, _COMPONENTS, _INT64, 1)
    weights = bound_array(table, _WEIGHTS, _FLOAT64, 1)
    scales = bound_array(table, _SCALES, _FLOAT64, 2)
    levels = bound_array(table, _LEVELS, _FLOAT64, 2)
    told = bound_array(table, _TOLD, _FLOAT64, 2)
    bits = int64(0)
    for b in range(first, end):
        episode = episodes[b]
        action = int64(actions[b])
        if action == SKIP:
            continue
        if action >= 0:
            episode["stepping"] = 1
        episode["is_refused"] = 0
        outcome = int64(play_in(table, b, action))
        while outcome == LOG_FULL and not episode["keeps_log"]:
            throw_log_away(world, b)
            outcome = int64(play_in(table, b, RESUME))
        if outcome == LOG_FULL:
            episode["outcome"] = LOG_FULL
            bits |= STANDS
            continue
        if outcome == INFEASIBLE:  # nothing has changed: mask and observation still hold
            episode["is_refused"] = 1
            episode["refusals"] += 1
            outcome = int64(DECIDE)
        elif outcome >= NEARLY_FULL:
            outcome -= NEARLY_FULL
            if episode["keeps_log"]:
                bits |= DRAIN
            else:
                throw_log_away(world, b)
        episode["outcome"] = outcome
        if episode["stepping"]:
            if pay(world, episodes, components, weights, scales, levels, told, b):
                bits |= OVER
        elif episode["steps"] == 0:  # what passed before the first decision is paid with the first step
            episode["clock_s"] = world[b]["clock_s"]
    return bits
