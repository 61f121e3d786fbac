"""Muri's testbed: 400 jobs on 8 x 8 V100, under two policies (Zhao et al., SIGCOMM 2022).

The two constants are fitted to the run times under SRTF: each start costs ``start_s``, and an iteration takes
``step_ratio`` times as long as in the trace. An entry of a run in ``testbeds.toml`` has the ``row`` that it is, and the
scheduler without (``as_is``) and with the controller's rules (``scheduler``). Another entry is another row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.reproduce.testbeds.reading import Columns, Measured, Points
from gpusched_env.simulator import simulate

TRACE: Final = "muri_trace"
TRACE_COLUMNS: Final = ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time")
CALIBRATES: Final = "muri_SRTF"  # the run that measures the constants
AGAIN: Final = "muri_tiresias"  # the run that measures them again
ROUND_S: Final = 360.0  # length of a round of the controller


def _in_order(rows: Columns) -> Columns:
    order = np.argsort(rows["job_id"], kind="stable")
    return {name: column[order] for name, column in rows.items()}


def _every(rows: Columns) -> np.ndarray:
    return np.ones(len(rows["job_id"]), bool)


def _jobs(trace: Columns) -> Workload:
    work_s = trace["iterations"] * trace["iteration_time"] / 1000.0
    return Workload.from_columns(trace["submit_time"] / 1000.0, trace["num_gpu"].astype(int), work_s)


def fit(work_s: np.ndarray, starts: np.ndarray, run_s: np.ndarray) -> dict[str, float]:
    """Fit run_s = step_ratio x work_s + start_s x starts by least squares, weighted by 1 / work_s.

    Parameters
    ----------
    work_s, starts, run_s : float64 [n], traced run time, number of starts and measured run time of each job
    """
    root = np.sqrt(work_s)
    columns = np.stack([work_s, starts], axis=1) / root[:, None]
    step_ratio, start_s = np.linalg.lstsq(columns, run_s / root, rcond=None)[0]
    return {"step_ratio": float(f"{step_ratio:.4g}"), "start_s": float(f"{start_s:.4g}")}


def _fit(read: Any, run: str) -> dict[str, float]:
    jobs = _jobs(_in_order(read(TRACE, TRACE_COLUMNS, _every)))
    told = _in_order(read(run, ("job_id", "real_executed_time", "job_counter"), _every))
    return fit(jobs.jobs["duration_s"], told["job_counter"], told["real_executed_time"])


def calibrate(measured: Measured) -> dict[str, Any]:
    """Return step_ratio and start_s [s]."""
    return _fit(measured.calibration, CALIBRATES)


def semantics_of(column: str, constants: Mapping[str, float]) -> Semantics:
    """Return the rules of play of a column of the table."""
    if column == "as is":
        return Semantics()
    if column == "rules":
        return Semantics(round_s=ROUND_S, checkpoint_s=0.0, restore_s=0.0)
    start_s = constants["start_s"]
    return Semantics(
        round_s=ROUND_S, checkpoint_s=0.0, restore_s=start_s, start_s=start_s, restart_all_s=start_s,
        step_ratio=constants["step_ratio"],
    )  # fmt: skip


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Return JCTs, makespan and starts.

    The floor is what the constants change if they are fitted to the other run: they were measured twice.
    """
    run = next(name for name, entry in measured.listed.items() if entry.get("row") == row)
    jobs = _jobs(_in_order(measured.test(TRACE, TRACE_COLUMNS, _every)))
    spec = measured.listed[run]["as_is" if column == "as is" else "scheduler"]

    def played(of: str, with_constants: Mapping[str, float]) -> np.ndarray:
        instance = Instance(Cluster.parse("8x8"), jobs, Network("none"), semantics_of(of, with_constants))
        return job_times(instance, simulate(instance, make_scheduler(spec)))

    if column == "floor":
        times, again = played(column, constants), played(column, _fit(measured.test, AGAIN))
        jct_s, end_s, starts = again["jct_s"], again["finish_s"], again["preemptions"] + 1
    else:
        times = played(column, constants)
        told = _in_order(measured.test(run, ("job_id", "JCT", "end_time", "job_counter"), _every))
        jct_s, end_s, starts = told["JCT"], told["end_time"], told["job_counter"]
    totals = {
        "makespan [s]": (float(times["finish_s"].max()), float(end_s.max())),
        "starts": (float((times["preemptions"] + 1).sum()), float(starts.sum())),
    }
    return [Points("JCT [s]", [str(job) for job in range(len(jobs))], times["jct_s"], jct_s, totals)]
