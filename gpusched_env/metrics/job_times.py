"""The times of each job: queueing, service and overhead."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import COMPLETE, PREEMPT, REFUSE, EventLog
from gpusched_env.metrics.dependencies import arrivals
from gpusched_env.metrics.segments import end_of_run, productive_s, segments
from gpusched_env.problem.instance import Instance

JOB_TIMES_DTYPE: Final = np.dtype(
    [
        ("arrival_s", "<f8"),  # [s] when the job entered the queue; inf = it is still held
        ("first_start_s", "<f8"),  # [s] NaN = never started
        ("finish_s", "<f8"),  # [s] NaN = unfinished
        ("jct_s", "<f8"),  # [s] finish - arrival; NaN = unfinished
        ("queueing_s", "<f8"),  # [s] time in the system in which the job holds no GPUs
        ("service_s", "<f8"),  # [s] time with progress
        ("overhead_s", "<f8"),  # [s] time with GPUs but without progress: start-up, restore and checkpoint
        ("communication_s", "<f8"),  # [s] exposed communication: the part of service_s that compute does not hide
        ("gpu_seconds", "<f8"),  # [GPU s] GPUs x time held, including overhead
        ("service_gpu_s", "<f8"),  # [GPU s] service, summed over all copies
        ("overhead_gpu_s", "<f8"),  # [GPU s] overhead, summed over all copies
        ("communication_gpu_s", "<f8"),  # [GPU s] exposed communication, summed over all copies
        ("preemptions", "<i4"),  # number of preemptions
        ("segments", "<i4"),  # number of starts and resumes
        ("resizes", "<i4"),  # number of times that the gang got another number of GPUs or moved while it ran
    ]
)


def job_times(instance: Instance, log: EventLog, end_s: float | None = None) -> np.ndarray:
    """Return the times of each job until ``end_s``; JOB_TIMES_DTYPE [J], in the order of the jobs' rows.

    Later events are ignored; None = the end of the run. queueing + service + overhead is the JCT of a finished job, and
    ``end_s - arrival`` of an unfinished job (of a refused job: the time until it was refused). Each of the three is
    summed from the log independently. The exposed communication of a segment is ``service (1 - compute / iteration)``.
    """
    end_s = end_of_run(instance, log) if end_s is None else float(end_s)
    held = segments(instance, log, end_s)
    jobs = len(instance.workload)
    arrival = arrivals(instance, log)
    row = held["job"]
    times = np.zeros(jobs, JOB_TIMES_DTYPE)
    times["arrival_s"], times["first_start_s"], times["finish_s"] = arrival, np.nan, np.nan

    first = np.ones(len(held), bool)
    first[1:] = row[1:] != row[:-1]
    times["first_start_s"][row[first]] = held["hold_s"][first]
    stopped = held["stop_event"] >= 0
    done, at_once = stopped.copy(), stopped & (held["free_event"] == held["stop_event"])
    done[stopped] = log.events["kind"][held["stop_event"][stopped]] == COMPLETE
    times["finish_s"][row[done]] = held["stop_s"][done]
    times["jct_s"] = times["finish_s"] - arrival

    waiting_since = np.empty(len(held))
    waiting_since[1:] = held["free_s"][:-1]
    waiting_since[first] = arrival[row[first]]
    left = arrival.copy()  # time at which each job last lost its GPUs
    left[row] = held["free_s"]  # rows of a job are in order of time, so its last segment overwrites the others
    gone_s = np.full(jobs, end_s)
    refused = log.events["kind"] == REFUSE
    gone_s[log.events["job"][refused]] = log.events["time_s"][refused]
    still_waiting = np.where(np.isnan(times["finish_s"]), np.maximum(gone_s - left, 0.0), 0.0)

    def total(seconds: np.ndarray) -> np.ndarray:
        return np.bincount(row, seconds, minlength=jobs)

    gang, _ = instance.gangs(row, held["gpus"])
    copies, demand = held["gpus"] // gang, instance.workload.jobs["gpus"]
    productive = productive_s(held)
    holding = held["free_s"] - held["hold_s"]
    # Overhead is summed from its parts; a remainder would make queueing + service + overhead = JCT trivially true.
    restoring = np.minimum(held["progress_s"], held["stop_s"]) - held["hold_s"]
    checkpointing = held["free_s"] - held["stop_s"]
    times["queueing_s"] = total(held["hold_s"] - waiting_since) + still_waiting
    parts = {
        "service": productive,
        "overhead": restoring + checkpointing,
        "communication": productive * (1.0 - held["compute_s"] / held["iteration_s"]),
    }
    for name, seconds in parts.items():
        times[f"{name}_s"] = total(seconds)
        each = total(gang * copies * seconds) if instance.sizes.elastic else demand * total(copies * seconds)
        times[f"{name}_gpu_s"] = each
    times["gpu_seconds"] = total(holding * held["gpus"])
    preempted = stopped.copy()
    preempted[stopped] = log.events["kind"][held["stop_event"][stopped]] == PREEMPT
    times["preemptions"] = np.bincount(row[preempted], minlength=jobs)
    times["resizes"] = np.bincount(row[at_once & ~done], minlength=jobs)
    times["segments"] = np.bincount(row, minlength=jobs)
    return times
