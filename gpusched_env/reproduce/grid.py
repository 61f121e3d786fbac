"""A grid of static timers, and how they are written in the spec of a scheduler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpusched_env.delay_timers.actions import TimerActions, timer_action
from gpusched_env.problem.instance import Instance

HOUR_S: Final = 3_600.0  # [s]
GRID_S: Final = (0.0, HOUR_S, 6 * HOUR_S, 24 * HOUR_S, math.inf)  # [s] of the rack timer, and of what the other adds


def pairs(values_s: Sequence[float] = GRID_S) -> list[tuple[float, float]]:
    """Return all pairs (rack timer, network timer beyond it) of a grid [s]."""
    return list(itertools.product(values_s, values_s))


def pair_action(pair: tuple[float, float]) -> tuple[float, float]:
    """Return the action of each class that gives a pair of the grid."""
    rack, beyond = timer_action(pair)
    return float(rack), float(beyond)


def static_waits(instance: Instance, action: Sequence[float] | np.ndarray) -> np.ndarray:
    """float64 [G + 1, 2] [s]: timers of a constant action, which is one pair for all classes, or [D, 2]."""
    actions = TimerActions(instance.cluster)
    return actions.waits(np.broadcast_to(np.asarray(action, float), actions.shape))


def rows(action: Any, instance: Instance) -> str:
    """Return a constant action as ``dally:tuner=static,timers=...`` accepts it: GPUS:RACK:NETWORK/..., in seconds."""
    waits_s = static_waits(instance, action)[1:]
    changes = np.flatnonzero((waits_s[1:] != waits_s[:-1]).any(axis=1)) + 1  # not np.diff: inf - inf is NaN
    ends = [*changes.tolist(), len(waits_s)]
    return "/".join(f"{end}:{_plain(waits_s[end - 1, 0])}:{_plain(waits_s[end - 1, 1])}" for end in ends)


def _plain(seconds: float) -> str:
    """Format a time exactly and without an exponent."""
    return "inf" if math.isinf(seconds) else np.format_float_positional(seconds, trim="-")
