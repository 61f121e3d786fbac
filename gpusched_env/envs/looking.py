"""The drivers that fill, after a step, the arrays that :func:`play` does not: of GPU types, and of sharing."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.envs.encoding import CONFIG_DTYPE
from gpusched_env.envs.one_action import NO_ACTION
from gpusched_env.envs.showing import CLASS_DTYPE
from gpusched_env.envs.stepping import EPISODE_DTYPE, SKIP
from gpusched_env.simulator.binding import ENVIRONMENT, STATE_PARAMETERS, Parameter, bound_array, caller
from gpusched_env.core.events import LOG_FULL
from gpusched_env.simulator.jit import helper, int64, kernel

Array = np.ndarray[Any, Any]

_INT8, _INT32, _INT64 = (np.dtype(f"i{size}") for size in (1, 4, 8))
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# Of type_encoding.show_types.
TYPE_PARAMETERS: Final[tuple[Parameter | str, ...]] = (
    *STATE_PARAMETERS,
    ENVIRONMENT,
    Parameter(CLASS_DTYPE, 2),
    Parameter(_FLOAT64, 2),  # rates
    Parameter(_INT32, 1),  # queue
    Parameter(_INT32, 1),  # victims
    *[Parameter(_FLOAT32, 2)] * 6,  # the arrays of TYPE_TABLES
)
# Of sharing_encoding.show_sharing.
SHARING_PARAMETERS: Final[tuple[Parameter | str, ...]] = (
    *STATE_PARAMETERS,
    ENVIRONMENT,
    Parameter(CONFIG_DTYPE, 1, True),
    Parameter(_INT32, 1, True),  # rules
    Parameter(_INT32, 1),  # queue
    Parameter(_INT32, 1),  # victims
    Parameter(_INT32, 1),  # partners
    Parameter(_INT8, 1),  # mask
    *[Parameter(_FLOAT32, 2)] * 4,  # the arrays of SHARING_TABLES
    Parameter(_FLOAT32, 1),
)
# Rows of the tables beyond them: episodes, actions.
_TYPES_EPISODES: Final = len(TYPE_PARAMETERS) - 1
_TYPES_ACTIONS: Final = _TYPES_EPISODES + 1
_SHARING_EPISODES: Final = len(SHARING_PARAMETERS) - 1
_SHARING_ACTIONS: Final = _SHARING_EPISODES + 1

show_types_in: Final = caller(TYPE_PARAMETERS)
show_sharing_in: Final = caller(SHARING_PARAMETERS)


@helper
def has_stepped(episodes: Array, actions: Array, b: int) -> bool:
    """Tell whether the last call of ``step_all`` has brought an environment to where it can be looked at."""
    return actions[b] != SKIP and episodes[b]["outcome"] != LOG_FULL


@kernel
def show_types_of_all(table: Any, first: int, end: int) -> int:
    """Write what tells GPU types apart, for those of the environments ``first`` to ``end`` - 1 that have stepped."""
    episodes = bound_array(table, _TYPES_EPISODES, EPISODE_DTYPE, 1)
    actions = bound_array(table, _TYPES_ACTIONS, _INT64, 1)
    for b in range(first, end):
        if has_stepped(episodes, actions, b):
            show_types_in(table, b, NO_ACTION)
    return int64(0)


@kernel
def show_sharing_of_all(table: Any, first: int, end: int) -> int:
    """Write who shares GPUs, and who might, as :func:`show_types_of_all` does."""
    episodes = bound_array(table, _SHARING_EPISODES, EPISODE_DTYPE, 1)
    actions = bound_array(table, _SHARING_ACTIONS, _INT64, 1)
    for b in range(first, end):
        if has_stepped(episodes, actions, b):
            show_sharing_in(table, b, NO_ACTION)
    return int64(0)
