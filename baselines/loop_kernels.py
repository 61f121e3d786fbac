"""Kernels that all compiled loops of schedulers share: they process events up to the next decision point."""

from __future__ import annotations

from typing import Any, Final

from gpusched_env.core.events import DECIDE, IDLE_LIMIT, STALLED, advance, stuck
from gpusched_env.core.handle import helper
from gpusched_env.core.state import Run

ASLEEP, DECIDES = range(2)  # the first two phases of every loop; further phases are numbered from 2 on
PAUSED: Final = 6  # an outcome in addition to those of ``advance``: the loop has reached the time ``until_s``


@helper
def wake_at(sim: Run, time_s: float) -> None:
    """Set the timer to ``time_s`` [s] if this time is in the future and earlier than the timer."""
    if sim.world["clock_s"] < time_s < sim.world["timer_s"]:
        sim.world["timer_s"] = time_s


@helper
def sleep(sim: Run, memory: Any) -> int:
    """Process events up to the next decision point; return DECIDE, PAUSED, or the reason why the run ended.

    Parameters
    ----------
    memory : a record with the fields ``phase``, ``idle`` and ``until_s`` [s]; at ``until_s`` the result is PAUSED
    """
    m = memory
    wake_at(sim, m["until_s"])
    outcome = advance(sim)
    if outcome != DECIDE:
        return outcome
    m["idle"] = m["idle"] + 1 if stuck(sim) else 0
    if m["idle"] > IDLE_LIMIT:
        return STALLED
    m["phase"] = DECIDES
    return PAUSED if sim.world["clock_s"] >= m["until_s"] else DECIDE
