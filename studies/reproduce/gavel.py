"""Programs of the card of Gavel: specs of policies, cells with stored outputs, JCTs as its simulator counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from gpusched_env.baselines.gavel.policies import POLICIES
from gpusched_env.baselines.gavel.scheduler import INTERIOR_POLICIES
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import COMPLETE, RELEASE, RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.instance import Instance
from studies.reproduce import gavel_interior

__all__ = ["POLICIES", "cells", "measure", "spec"]


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


WINDOW: Final = (4_000, 5_000)


def cells(stored: Mapping[str, Sequence[float]], rates: Sequence[float]) -> list[tuple[str, float]]:
    """Return the policies and rates with stored outputs.

    Raises
    ------
    GpuschedError : the solver of the published code is not installed; a quick run needs none
    """
    if not gavel_interior.installed():
        raise GpuschedError("gavel: the published solver is wanted: pip install 'gpusched-env[gavel]'; or --quick")
    return [(policy, rate) for policy, values in stored.items() for rate in rates[: len(values)]]


def spec(policy: str) -> str:
    """Return the spec of a policy as it was when the outputs were stored.

    It has no whole steps, with which runs take three times as long.
    """
    written = f"gavel:policy={'fifo_stored' if policy == 'fifo' else policy},gavel_compat=true,whole_steps=false"
    if policy.startswith(INTERIOR_POLICIES):  # the published solver returns an interior optimum
        written += ",tie_break=interior"
    return written + ",equal_share=age" if policy.startswith("finish_time") else written


def measure(instance: Instance, log: EventLog) -> dict[str, float]:
    """Measure the mean JCT of the tracked jobs [s]; jobs of a pair complete as in Gavel's simulator."""
    finish_s = pair_ends(instance, log) if instance.gpu_jobs > 1 else job_times(instance, log)["finish_s"]
    jct_s = finish_s - instance.workload.jobs["arrival_s"]
    return {"tracked_jct_s": float(jct_s[slice(*WINDOW)].mean())}
