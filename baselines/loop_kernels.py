"""What the compiled loops of schedulers share: how they play events until there is something to decide."""

from __future__ import annotations

from typing import Any, Final

from gpusched_env.core.events import DECIDE, IDLE_LIMIT, STALLED, advance, stuck
from gpusched_env.core.handle import helper
from gpusched_env.core.state import Run

ASLEEP, DECIDES = range(2)  # the first phases of every loop; the loop's own phases follow
PAUSED: Final = 6  # outcome in addition to those of ``advance``: the time ``until_s`` has come


@helper
def wake_at(sim: Run, time_s: float) -> None:
    """Set the timer to a time [s], if it is in the future and earlier than the present timer."""
    if sim.world["clock_s"] < time_s < sim.world["timer_s"]:
        sim.world["timer_s"] = time_s


@helper
def sleep(sim: Run, memory: Any) -> int:
    """Play events until there is something to decide (DECIDE), the run ends, or time ``until_s`` has come (PAUSED).

    ``memory`` is a record with the fields ``phase``, ``idle`` and ``until_s`` [s].
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
