"""What compiled loops of schedulers share: the way to the next decision point."""

from __future__ import annotations

import math
from typing import Any, Final

from gpusched_env.core.events import DECIDE, IDLE_LIMIT, STALLED, advance, stuck
from gpusched_env.core.handle import helper
from gpusched_env.core.state import Run
from gpusched_env.units import LATEST_S

ASLEEP, DECIDES = range(2)  # the first two phases of every loop; further phases are numbered from 2 on
PAUSED: Final = 7  # an outcome in addition to those of a run: the loop has reached the time ``until_s``


@helper
def waits_until(sim: Run, time_s: float) -> bool:
    """Decide ``Wait(time_s)`` [s]; return False if this time is not allowed: the loop then returns BAD_WAIT."""
    allowed = sim.world["clock_s"] < time_s <= LATEST_S or time_s == math.inf
    if time_s < sim.world["timer_s"] or not allowed:
        sim.world["timer_s"] = time_s
    return allowed


@helper
def sleep(sim: Run, memory: Any) -> int:
    """Process events up to the next decision point; return DECIDE, PAUSED, or the reason why the run ended.

    Parameters
    ----------
    memory : a record with the fields ``phase``, ``idle`` and ``until_s`` [s]; at ``until_s`` the result is PAUSED
    """
    m = memory
    if sim.world["clock_s"] < m["until_s"] < sim.world["timer_s"]:
        sim.world["timer_s"] = m["until_s"]
    outcome = advance(sim)
    if outcome != DECIDE:
        return outcome
    m["idle"] = m["idle"] + 1 if stuck(sim) else 0
    if m["idle"] > IDLE_LIMIT:
        return STALLED
    m["phase"] = DECIDES
    return PAUSED if sim.world["clock_s"] >= m["until_s"] else DECIDE
