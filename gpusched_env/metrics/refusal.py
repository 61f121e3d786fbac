"""Errors of the validator; each names the event."""

from __future__ import annotations

import numpy as np

from gpusched_env.errors import ScheduleError
from gpusched_env.event_log import EVENT_KINDS, EventLog


def refuse(log: EventLog, bad: np.ndarray, reason: str) -> None:
    """Raise a ScheduleError about the first event that is marked in ``bad``; do nothing if none is marked."""
    if bad.any():
        raise refusal(log, int(np.argmax(bad)), reason)


def refusal(log: EventLog, number: int, reason: str) -> ScheduleError:
    """Build the error about event ``number``."""
    event = log.events[number]
    kind = int(event["kind"])
    name = EVENT_KINDS[kind] if 0 <= kind < len(EVENT_KINDS) else f"kind {kind}"
    return ScheduleError(f"event {number} ({name} of job {event['job']} at {event['time_s']:.6f} s): {reason}")
