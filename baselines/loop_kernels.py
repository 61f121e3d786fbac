"""What the compiled loops of schedulers share: how they sleep until something is to be decided."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gpusched_env.core.events import DECIDE, IDLE_LIMIT, STALLED, stuck
from gpusched_env.simulator.jit import helper
from gpusched_env.simulator.moves import advance_by

Array = np.ndarray[Any, Any]

ASLEEP, DECIDES = range(2)  # phases that every loop begins with; its own follow
PAUSED: Final = 6  # outcome beside those of ``advance``: it is the time at which it was asked to stop


@helper
def wake_at(world: Array, b: int, time_s: float) -> None:
    """Set the timer, if the time is in the future and comes first."""
    if world[b]["clock_s"] < time_s < world[b]["timer_s"]:
        world[b]["timer_s"] = time_s


@helper
def sleep(world: Array, replicas: Array, running: Array, b: int, moves: int, memory: Array) -> int:
    """Play events until something is to be decided (DECIDE), the run ends, or it is ``until_s`` (PAUSED).

    ``memory`` has one record, with the fields ``phase``, ``idle`` and ``until_s`` [s].
    """
    m = memory[0]
    wake_at(world, b, m["until_s"])
    outcome = advance_by(moves, b)
    if outcome != DECIDE:
        return outcome
    m["idle"] = m["idle"] + 1 if stuck(world, replicas, running, b) else 0
    if m["idle"] > IDLE_LIMIT:
        return STALLED
    m["phase"] = DECIDES
    return PAUSED if world[b]["clock_s"] >= m["until_s"] else DECIDE
