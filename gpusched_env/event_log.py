"""The event log: every event of a run, in order. Metrics, plots and digests are computed from the event log alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np

# A gang whose work ends together with its lease completes, even if rounding makes the completion later than the end of
# the lease by this relative amount.
LEASE_SLACK: Final = 1e-12
EVENT_KINDS: Final = (
    "arrival", "start", "resume", "preempt", "release", "complete", "rate", "lease-end", "resize", "refuse",
    "fail",
)  # fmt: skip
ARRIVAL, START, RESUME, PREEMPT, RELEASE, COMPLETE, RATE, LEASE_END, RESIZE, REFUSE, FAIL = range(len(EVENT_KINDS))

# The fields leave no gaps, because the digest is computed over the bytes of the records.
EVENT_DTYPE: Final = np.dtype(
    [
        ("time_s", "<f8"),  # [s] since the start of the scenario, never decreases
        # start, resume: time when progress begins [s]; preempt, resize, fail: iterations left; complete: iterations
        # left if the job was killed at its limit or gave up; rate: seconds per iteration; refuse: 1 if it was
        # cancelled; else 0
        ("value", "<f8"),
        # start, resume: index in EventLog.gpus of the gang's first GPU id; rate: the gang's bottleneck link; else -1
        ("gpu_at", "<i8"),
        ("kind", "<i4"),  # index into EVENT_KINDS
        ("job", "<i4"),  # row of Instance.workload.jobs, which is sorted by the tie order; not the job id
        ("replica", "<i4"),  # row of the replica table; -1 for arrivals and refusals
        ("gpu_count", "<i4"),  # [GPU] start, resume: size of the gang; else 0
        ("tier", "<i4"),  # start, resume, rate: tier of the placement (gpusched_env.problem.cluster.TIERS); else -1
        ("sub_steps", "<i4"),  # start, resume: number of gradient-accumulation sub-steps; else 1
    ]
)


@dataclass(frozen=True)
class EventLog:
    """The events of one run.

    The kinds of events are:

    - ``arrival``: a job enters the queue: at its submission, or when it is not held any more.
    - ``start`` and ``resume``: a gang gets its GPUs. It makes progress from the time ``value`` on, that is, after a
      resumed gang has been restored.
    - ``preempt``: the progress of the gang ends and its checkpoint begins. The gang still holds its GPUs.
    - ``release``: the checkpoint ends and the GPUs become free. If a checkpoint takes no time, the release has the same
      time as the preemption.
    - ``complete``: the job finishes and its GPUs become free. If the job is killed at its time limit, or its last
      attempt fails, ``value`` is the number of iterations that it had left; otherwise 0.
    - ``rate``: the gang takes ``value`` seconds per iteration from here on, including all sub-steps and the slowdown by
      other gangs. The first ``rate`` event of a gang has the time of the gang's start. There are ``rate`` events only
      if the network is a topology or jobs share GPUs. Otherwise the placement alone determines the rate.
    - ``lease-end``: the lease of a gang ends, and the scheduler decides about its GPUs. The gang stops only if a
      ``preempt`` or ``resize`` follows.
    - ``resize``: the gang gives its GPUs back at once. A ``resume`` at the same time follows, which gives it its new
      GPUs, as a rule another number of them.
    - ``refuse``: a job that has never run leaves the system without being run. ``value`` is 1 if it was held and was
      cancelled, because it depends on what did not happen; otherwise 0.
    - ``fail``: a node of the gang crashes, or its attempt fails by itself. The job has ``value`` iterations left, as at
      its last checkpoint. A ``release`` follows when the failure is detected, and the job waits again.

    Attributes
    ----------
    events : EVENT_DTYPE [E], one record per event, in the order in which the events happened
    gpus : int32 [sum of gpu_count], GPU ids of all starts and resumes, concatenated in the order of the events
    """

    events: np.ndarray
    gpus: np.ndarray

    def digest(self) -> str:
        """Return the SHA-256 of the log. Runs of equal scenario, seed, scheduler and version have equal digests."""
        digest = hashlib.sha256(np.ascontiguousarray(self.events).tobytes())
        digest.update(np.ascontiguousarray(self.gpus).tobytes())
        return digest.hexdigest()

    def sealed(self) -> EventLog:
        """Return the same log with read-only arrays, so that results computed from it can be cached safely."""
        events, gpus = self.events.view(), self.gpus.view()
        events.flags.writeable = gpus.flags.writeable = False
        return EventLog(events, gpus)

    def gang(self, event: int) -> np.ndarray:
        """int32 [gpu_count]: GPU ids that the gang got at event number ``event``, a start or a resume."""
        record = self.events[event]
        return self.gpus[int(record["gpu_at"]) : int(record["gpu_at"]) + int(record["gpu_count"])]

    def lines(self) -> list[str]:
        """Return a readable text of the log, one line per event, for golden files and debugging."""
        text = []
        for index, event in enumerate(self.events):
            line = f"{event['time_s']:.6f} {EVENT_KINDS[event['kind']]} job {event['job']}"
            if event["gpu_count"]:
                line += f" tier {event['tier']} gpus {','.join(map(str, self.gang(index)))} from {event['value']:.6f}"
                if event["sub_steps"] > 1:
                    line += f" sub-steps {event['sub_steps']}"
            elif event["kind"] in (PREEMPT, RESIZE, FAIL) or (event["kind"] == COMPLETE and event["value"]):
                line += f" left {event['value']:.6f}"
            elif event["kind"] == RATE:
                line += f" iteration {event['value']:.9f} link {event['gpu_at']}"
            text.append(line)
        return text
