"""Completion times as in Gavel's simulator: two jobs that share GPUs complete together, when the later one ends."""

from __future__ import annotations

import numpy as np

from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.problem.instance import Instance


def pair_ends(instance: Instance, log: EventLog) -> np.ndarray:
    """float64 [J]: completion times [s]; NaN = the job has not completed.

    A job that shares GPUs completes when the round of its partner ends. In Gavel's simulator, a pair is one task, so
    the job that finishes first is reported together with the other. Only completion times differ, because no job is
    scheduled within a round. The round of the partner ends with the partner's next event, or when another job starts on
    the same GPUs.
    """
    finish_s = np.full(len(instance.workload), np.nan)
    on_gpu: dict[int, set[int]] = {}
    gpus_of: dict[int, list[int]] = {}
    put_off: dict[int, list[int]] = {}  # partner -> jobs that shared its GPUs and have finished
    for event in log.events:
        job, time_s = int(event["job"]), float(event["time_s"])
        concerned = {job}
        if event["kind"] in (START, RESUME):
            gpus_of[job] = log.gpus[event["gpu_at"] : event["gpu_at"] + event["gpu_count"]].tolist()
            concerned |= {other for gpu in gpus_of[job] for other in on_gpu.get(gpu, ())}
        for partner in concerned & put_off.keys():
            finish_s[put_off.pop(partner)] = time_s
        if event["kind"] in (START, RESUME):
            for gpu in gpus_of[job]:
                on_gpu.setdefault(gpu, set()).add(job)
        elif event["kind"] in (COMPLETE, RELEASE):
            for gpu in gpus_of[job]:
                on_gpu[gpu].discard(job)
            if event["kind"] == COMPLETE:
                finish_s[job] = time_s
                for partner in on_gpu[gpus_of[job][0]]:
                    put_off.setdefault(partner, []).append(job)
    return finish_s
