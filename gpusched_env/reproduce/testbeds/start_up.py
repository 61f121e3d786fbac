"""What a start costs: switches of measured systems (row U1), and recorded latencies and waits (rows Q1 to Q3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import START_LATENCY, Workload
from gpusched_env.reproduce.testbeds.reading import Measured, Points, UnplayableError
from gpusched_env.traces.noise import latency_at

MURI, TITAN, ELASTICFLOW, KALOS = (
    "muri_startup_by_model", "titansched_switch_costs", "elasticflow_scaling_overhead", "kalos_start_latency",
)  # fmt: skip
HALF: Final = 400  # jobs of KALOS by submission, of 800
KALOS_CLUSTER: Final = "302x8"
PUBLISHED_S: Final = 8.0  # what ElasticFlow's published simulator charges for a change of size
UNPLAYABLE: Final = {
    "Q2": "the log here has no virtual cluster, and partitions make the queue (on one pool of 133 nodes, waits are "
    "seconds; recorded are 953 to 1,341 s by month): columns vc and start_time of Venus' cluster_log.csv, and the nodes "
    "of each virtual cluster, are missing",
    "Q3": "the pod list is no log of load (it keeps a hundredth of the GPUs busy, so every pod starts at once; recorded "
    "are 61 s from creation to scheduling, and 897 pods never): the pods that ran beside these are missing",
}


def calibrate(measured: Measured) -> dict[str, Any]:
    """Find the costs of new processes on Muri's testbed, and of containers in the first half of Kalos."""
    muri = measured.calibration(MURI, ["model", "start_s"], lambda told: told["jobs"] > 0)
    models = muri["start_s"][muri["model"] != "all"]
    kalos_s = measured.calibration(KALOS, ["latency_s"], lambda told: told["job"] < HALF)["latency_s"]
    return {
        "restart_s": float(muri["start_s"][muri["model"] == "all"][0]),
        "process": _quantiles(models, (0.0, 0.5, 1.0)),
        "container": _quantiles(kalos_s, (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)),
    }


def _quantiles(seconds: np.ndarray, at: tuple[float, ...]) -> list[list[float]]:
    return [[one, float(f"{value:.4g}")] for one, value in zip(at, np.quantile(seconds, at), strict=True)]


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict what was measured or recorded.

    Raises
    ------
    UnplayableError : rows Q2 and Q3
    """
    if row in UNPLAYABLE:
        raise UnplayableError(UNPLAYABLE[row])
    return _switches(column, constants, measured) if row == "U1" else _latencies(column, constants, measured)


def _switches(column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Costs of a switch: as is = a checkpoint and a restore; rules = what the authors' simulator charges."""
    titan = measured.test(TITAN, ["model", "gpu", "seconds"], lambda told: told["model"] != "")
    found_s, on = titan["seconds"], titan["gpu"]
    if column == "floor":  # the same models on two types of GPU
        one = Points("time [s]", titan["model"][on == "V100"].tolist(), found_s[on == "A100"], found_s[on == "V100"])
        return [one]
    # The rows of deepspeech2 repeat those of bert, and profiling is no switch.
    switches = measured.test(ELASTICFLOW, ["step", "seconds"], lambda told: told["model"] != "deepspeech2")
    flow = switches["seconds"][switches["step"] != "profiling of all sizes"]
    groups = [f"TitanSched {gpu}" for gpu in on] + ["ElasticFlow A100"] * len(flow)
    if column == "rules":
        return [Points("time [s]", ["ElasticFlow A100"] * len(flow), np.full(len(flow), PUBLISHED_S), flow)]
    rules = Semantics()
    cost_s = rules.checkpoint_s + rules.restore_s if column == "as is" else constants["restart_s"]
    return [Points("time [s]", groups, np.full(len(groups), cost_s), np.append(found_s, flow))]


def _latencies(column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Time from the submission to the first progress of the last half of the jobs of Kalos, played first come first."""
    if column in ("rules", "floor"):
        return []
    jobs = measured.test(KALOS, ["job", "gpus", "submit_s", "run_s", "latency_s"], lambda told: told["job"] >= HALF)
    count = len(jobs["job"])
    told = {}
    if column == "calibrated":  # evenly over the distribution, so that it is not sampled
        shares = (np.random.default_rng(0).permutation(count) + 0.5) / count
        told = {START_LATENCY: latency_at(constants["container"], shares)}
    predicted = first_progress_s(jobs, told)
    groups = np.select([jobs["gpus"] == 1, jobs["gpus"] <= 8], ["1 GPU", "2 to 8 GPUs"], "more than 8 GPUs")
    return [Points("wait [s]", groups.tolist(), predicted, jobs["latency_s"])]


def first_progress_s(jobs: Mapping[str, np.ndarray], told: Mapping[str, np.ndarray]) -> np.ndarray:
    """float64 [n] [s]: time from the submission to the first progress of each job, on the cluster of Kalos."""
    from gpusched_env.baselines import make_scheduler
    from gpusched_env.event_log import START
    from gpusched_env.simulator import simulate

    arrival_s, run_s = jobs["submit_s"] - jobs["submit_s"][0], np.maximum(jobs["run_s"], 1.0)
    workload = Workload.from_columns(arrival_s, jobs["gpus"].astype(int), run_s, attributes=told)
    events = simulate(Instance(Cluster.parse(KALOS_CLUSTER), workload), make_scheduler("fifo")).events
    events = events[events["kind"] == START]
    waits = np.empty(len(workload))
    waits[events["job"]] = events["value"]
    waits -= workload.jobs["arrival_s"]
    return waits
