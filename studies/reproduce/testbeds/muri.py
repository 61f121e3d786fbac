"""Muri's testbed: 400 jobs on 8 x 8 V100, under two policies (Zhao et al., SIGCOMM 2022).

A run in ``testbeds.toml`` has the ``row`` that it is, and the scheduler with the controller's rules and ``as_is``.
Another entry is another row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from studies.reproduce.testbeds.reading import Columns, Measured, Points

ROUND_S: Final = 360.0  # length of a round of the controller


def _read(read: Callable[..., Columns], file: str, *columns: str) -> Columns:
    """Return columns of all jobs, by their ids."""
    found = read(file, ("job_id", *columns), lambda rows: rows["job_id"] >= 0)
    order = np.argsort(found["job_id"], kind="stable")
    return {name: column[order] for name, column in found.items()}


def jobs_of(read: Callable[..., Columns]) -> Workload:
    """Return the jobs as the trace has them, from its milliseconds."""
    trace = _read(read, "muri_trace", "num_gpu", "submit_time", "iterations", "iteration_time")
    work_s = trace["iterations"] * trace["iteration_time"] / 1000.0
    return Workload.from_columns(trace["submit_time"] / 1000.0, trace["num_gpu"].astype(int), work_s)


def fit(read: Callable[..., Columns], run: str) -> dict[str, float]:
    """Fit run time = step_ratio x work + start_s x starts by least squares with weights 1 / work."""
    told, work_s = _read(read, run, "real_executed_time", "job_counter"), jobs_of(read).jobs["duration_s"]
    weighted = np.stack([work_s, told["job_counter"], told["real_executed_time"]]) / np.sqrt(work_s)
    found = np.linalg.lstsq(weighted[:2].T, weighted[2], rcond=None)[0]
    return {name: float(f"{value:.4g}") for name, value in zip(("step_ratio", "start_s"), found, strict=True)}


def calibrate(measured: Measured) -> dict[str, Any]:
    """Return what the work is multiplied by, and the cost of a start [s]."""
    return fit(measured.calibration, "muri_SRTF")


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Return JCTs, makespan and starts.

    The floor is what the constants change if they are fitted to the other run: they were measured twice.
    """
    run = next(name for name, entry in measured.listed.items() if entry.get("row") == row)
    jobs, scheduler = jobs_of(measured.test), measured.listed[run]["as_is" if column == "as is" else "scheduler"]

    def played(step_ratio: float, start_s: float) -> np.ndarray:
        rules = Semantics(
            round_s=ROUND_S, checkpoint_s=0.0, restore_s=start_s, start_s=start_s, restart_all_s=start_s,
            step_ratio=step_ratio,
        )  # fmt: skip
        instance = Instance(Cluster.parse("8x8"), jobs, Network("none"), Semantics() if column == "as is" else rules)
        return job_times(instance, simulate(instance, make_scheduler(scheduler)))

    times = played(1.0, 0.0) if column in ("as is", "rules") else played(**constants)
    if column == "floor":
        again = played(**fit(measured.test, "muri_tiresias"))
        jct_s, end_s, starts = again["jct_s"], again["finish_s"], again["preemptions"] + 1
    else:
        told = _read(measured.test, run, "JCT", "end_time", "job_counter")
        jct_s, end_s, starts = told["JCT"], told["end_time"], told["job_counter"]
    totals = {
        "makespan [s]": (float(times["finish_s"].max()), float(end_s.max())),
        "starts": (float((times["preemptions"] + 1).sum()), float(starts.sum())),
    }
    return [Points("JCT [s]", [str(job) for job in range(len(jobs))], times["jct_s"], jct_s, totals)]
