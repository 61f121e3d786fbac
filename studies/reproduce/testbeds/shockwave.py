"""Shockwave's testbed: 120 jobs on 8 x 4 V100 under Gavel's policies (Zheng et al., NSDI 2023); Gavel's own fidelity.

The ``split`` of a row in ``testbeds.toml`` has the schedulers of its runs, whose policies have the same names in the
files. The runtime plans a round of 120 s when half of the one before is over, and resets its counters
after 1,000 s at the earliest (uw-mad-dash/shockwave, scheduler/scheduler.py). A job takes as long as the authors
compute for it alone, with its changes of the batch size (file ``shockwave_work``); the trace has the time at the first
size.
The constant is the cost of a start under max-min fairness; that under AlloX predicts max-min fairness in another row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.gavel.scheduler import Gavel
from gpusched_env.event_log import COMPLETE, PREEMPT, RESUME, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import simulate
from studies.reproduce.testbeds.reading import Columns, Measured, Points, UnplayableError

RUNTIME: Final = ",round_s=120,resolve_s=1000,plan_at=0.5"
TRIED_S: Final = (20.0, 30.0, 40.0, 50.0, 60.0)  # costs of a start; a line through their results averages accidents
UNPLAYABLE: Final = {
    "T3-replay": "the authors published the recorded rounds as pickles, which can run code and are not read",
    "T4": "Gavel published a distribution of ratios, and no times of jobs that could be predicted",
}


def trace(content: bytes) -> Columns:
    """Read the authors' ``.trace``: jobs by arrival, with their run times at the first batch size."""
    rows = [line.split("\t") for line in content.decode().splitlines()]
    numbers = np.array([[float(row[at]) for at in (5, 6, 10, 11)] for row in rows]).T
    return dict(zip(("steps", "gpus", "duration_s", "arrival_s"), numbers, strict=True))


def _every(rows: Columns) -> np.ndarray:
    return np.ones(len(next(iter(rows.values()))), bool)


def _of(policy: str, **also: str) -> Callable[[Columns], np.ndarray]:
    wanted = {"policy": policy, **also}
    return lambda rows: np.all([rows[name] == value for name, value in wanted.items()], axis=0)


def _instance(read: Callable[..., Columns], start_s: float | None) -> Instance:
    """Return the jobs and the rules; ``start_s`` None = the traced run times and the defaults of the product."""
    jobs = read("shockwave_trace", ("arrival_s", "gpus", "duration_s", "steps"), _every)
    work_s = jobs["duration_s"] if start_s is None else read("shockwave_work", ("exclusive_s",), _every)["exclusive_s"]
    step_s = jobs["duration_s"] / jobs["steps"]
    columns = ("batch", "gradient_bytes", "memory_bytes", "skew", "overlap")
    rows = [dict.fromkeys(columns, 1.0) | {"name": str(job), "compute_s": [one]} for job, one in enumerate(step_s)]
    workload = Workload.from_columns(
        jobs["arrival_s"], jobs["gpus"].astype(int), work_s,
        profiles=Profiles.from_rows(rows, ("V100",)), profile=np.arange(len(rows)),
    )  # fmt: skip
    rules = Semantics() if start_s is None else Semantics(checkpoint_s=0.0, restore_s=start_s, start_s=start_s)
    return Instance(Cluster.parse("8x4@V100"), workload, Network("none"), rules)


def calibrate(measured: Measured) -> dict[str, Any]:
    """Return row -> cost of a start [s], with which half of the jobs of the calibrating run end later than measured.

    The median, because single jobs took much longer for other reasons, such as those that read ImageNet.
    """
    found, known = {}, {}
    for row, entry in measured.rows.items():
        if entry["family"] != "shockwave" or "split" not in entry:
            continue
        spec = entry["split"]["calibrate"]
        scheduler = make_scheduler(spec + RUNTIME)
        assert isinstance(scheduler, Gavel)
        columns = measured.calibration("shockwave_jct", ("jct_physical_s",), _of(scheduler.policy), row)
        if spec not in known:
            ratios = []
            for start_s in TRIED_S:
                instance = _instance(measured.calibration, start_s)
                jct_s = job_times(instance, simulate(instance, scheduler))["jct_s"]
                ratios.append(np.median(jct_s / columns["jct_physical_s"]))
            slope, begin = np.polyfit(TRIED_S, ratios, 1).tolist()
            known[spec] = {"start_s": float(round((1.0 - begin) / slope))}
        found[row] = known[spec]
    return found


def stops(log: EventLog) -> tuple[int, int]:
    """Return how often a job ran in a round and not in the next one, ends included, and how often on other GPUs."""
    left: dict[int, float] = {}  # job -> time of its last preemption
    stopped = moved = 0
    for event in log.events[np.isin(log.events["kind"], (PREEMPT, RESUME, COMPLETE))]:
        job, at_s = int(event["job"]), float(event["time_s"])
        if event["kind"] == RESUME:
            moved += left.get(job) == at_s
        else:
            stopped += 1
            left[job] = at_s
    return stopped - moved, moved


def _ratios(measured: Measured) -> list[Points]:
    """Return |log ratio| of Gavel's own simulator as an error above 0: nobody knows which of the two is larger."""
    told = measured.test("gavel_ratios", ("experiment", "policy", "ratio"), _every)
    groups = [f"{experiment}, {policy}" for experiment, policy in zip(told["experiment"], told["policy"], strict=True)]
    return [Points("ratio of JCT", groups, np.maximum(told["ratio"], 1 / told["ratio"]), np.ones(len(groups)))]


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Return JCTs, makespan, stops and moves; the floor is the authors' own simulator."""
    if row == "T4" and column == "floor":
        return _ratios(measured)
    if row in UNPLAYABLE:
        raise UnplayableError(UNPLAYABLE[row])
    spec = measured.rows[row]["split"]["test"]
    scheduler = make_scheduler(spec + RUNTIME * (column != "as is"))
    assert isinstance(scheduler, Gavel)
    one = _of(scheduler.policy)
    jct = measured.test("shockwave_jct", ("jct_physical_s", "jct_authors_sim_s"), one)
    ends = measured.test("shockwave_makespan", ("makespan_physical_s", "correction_s", "makespan_authors_sim_s"), one)
    counted, theirs = (
        measured.test("shockwave_rounds", ("stops", "moves"), _of(scheduler.policy, kind=kind))
        for kind in ("physical", "authors_sim")
    )
    if column == "floor":
        jct_s, end_s = jct["jct_authors_sim_s"], float(ends["makespan_authors_sim_s"][0])
        stopped, moved = float(theirs["stops"][0]), float(theirs["moves"][0])
    else:
        start_s = {"as is": None, "rules": 0.0}.get(column, constants[row]["start_s"])
        instance = _instance(measured.test, start_s)
        log = simulate(instance, scheduler)
        times = job_times(instance, log)
        jct_s, end_s, (stopped, moved) = times["jct_s"], float(times["finish_s"].max()), stops(log)
    totals = {
        "makespan [s]": (end_s, float(ends["makespan_physical_s"][0] + ends["correction_s"][0])),
        "stops": (float(stopped), float(counted["stops"][0])),
        "moves": (float(moved), float(counted["moves"][0])),
    }
    groups = [str(job) for job in range(len(jct_s))]
    return [Points("JCT [s]", groups, jct_s, jct["jct_physical_s"], totals)]
