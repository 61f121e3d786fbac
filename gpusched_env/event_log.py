"""The event log: every event of a run, in order. Metrics, plots and digests derive from it alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np

EVENT_KINDS: Final = ("arrival", "start", "resume", "preempt", "release", "complete", "rate", "lease-end")
ARRIVAL, START, RESUME, PREEMPT, RELEASE, COMPLETE, RATE, LEASE_END = range(len(EVENT_KINDS))

# No padding: the digest is computed over the bytes of the records.
EVENT_DTYPE: Final = np.dtype(
    [
        ("time_s", "<f8"),  # [s] since the start of the scenario, never decreases
        # start, resume: time when progress begins [s]; preempt: iterations left; rate: seconds per iteration; else 0
        ("value", "<f8"),
        # start, resume: index in EventLog.gpus of the gang's first GPU id; rate: link that bounds the gang; else -1
        ("gpu_at", "<i8"),
        ("kind", "<i4"),  # index into EVENT_KINDS
        ("job", "<i4"),  # row of the instance's jobs (sorted by the tie order), not the job id
        ("replica", "<i4"),  # row of the replica table; -1 for arrivals
        ("gpu_count", "<i4"),  # [GPU] start, resume: size of the gang; else 0
        ("tier", "<i4"),  # start, resume, rate: tier of the placement (gpusched_env.cluster.TIERS); else -1
        ("sub_steps", "<i4"),  # start, resume: gradient-accumulation sub-steps, 1 = none; else 1
    ]
)


@dataclass(frozen=True)
class EventLog:
    """One run's events.

    A gang holds its GPUs from ``start`` or ``resume`` until ``complete`` or ``release``. ``preempt`` begins the
    checkpoint, during which the gang still holds its GPUs; ``release`` ends it (at the same time if a checkpoint costs
    nothing). A gang makes progress from ``value`` of its start or resume, after the restore, until ``preempt`` or
    ``complete``. Where the network is a topology or jobs share GPUs, a ``rate`` event gives the seconds per iteration
    from then on, including all sub-steps and the slowdown by other gangs. The first one follows the start at the same
    time. Elsewhere the placement alone determines the rate, and there are no such events. ``lease-end`` offers the
    gang's GPUs again. It stops nothing by itself; a ``preempt`` may follow.

    Attributes
    ----------
    events : EVENT_DTYPE [E]
    gpus : int32 [sum of gpu_count], GPU ids of all starts and resumes, in the order of the events
    """

    events: np.ndarray
    gpus: np.ndarray

    def digest(self) -> str:
        """Return the SHA-256 of the log, which is equal for equal scenario, seed, scheduler and version."""
        digest = hashlib.sha256(np.ascontiguousarray(self.events).tobytes())
        digest.update(np.ascontiguousarray(self.gpus).tobytes())
        return digest.hexdigest()

    def sealed(self) -> EventLog:
        """Return the same log as read-only arrays, so that derived results can be cached with it."""
        events, gpus = self.events.view(), self.gpus.view()
        events.flags.writeable = gpus.flags.writeable = False
        return EventLog(events, gpus)

    def gang(self, event: int) -> np.ndarray:
        """int32 [gpu_count]: GPU ids of the gang that event number ``event`` (a start or resume) placed."""
        record = self.events[event]
        return self.gpus[int(record["gpu_at"]) : int(record["gpu_at"]) + int(record["gpu_count"])]

    def lines(self) -> list[str]:
        """Return a readable trace, one line per event, for golden files and debugging."""
        text = []
        for index, event in enumerate(self.events):
            line = f"{event['time_s']:.6f} {EVENT_KINDS[event['kind']]} job {event['job']}"
            if event["gpu_count"]:
                line += f" tier {event['tier']} gpus {','.join(map(str, self.gang(index)))} from {event['value']:.6f}"
                if event["sub_steps"] > 1:
                    line += f" sub-steps {event['sub_steps']}"
            elif event["kind"] == PREEMPT:
                line += f" left {event['value']:.6f}"
            elif event["kind"] == RATE:
                line += f" iteration {event['value']:.9f} link {event['gpu_at']}"
            text.append(line)
        return text
