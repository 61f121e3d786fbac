"""What a start costs: switches of measured systems (row U1), and recorded latencies and waits (rows Q1 to Q3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import START
from gpusched_env.portable.arrays import exp, interpolated, log
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import START_LATENCY, Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces.noise import START_LATENCIES
from studies.reproduce.testbeds.reading import Measured, Points, UnplayableError

KALOS: Final = "kalos_start_latency"
PUBLISHED_S: Final = 8.0  # what ElasticFlow's published simulator charges for a change of size
UNPLAYABLE: Final = {
    "Q2": "the log here has no virtual cluster, and partitions make the queue (recorded are 953 to 1,341 s a month, "
    "on one pool seconds): columns vc and start_time, and the nodes of each virtual cluster, are missing",
    "Q3": "the pod list is no log of load: it keeps a hundredth of the GPUs busy, so every pod starts at once",
}


def calibrate(measured: Measured) -> dict[str, Any]:
    """Find the cost of a new process on Muri's testbed, and the latency of containers in the first half of Kalos."""
    muri = measured.calibration("muri_startup_by_model", ["start_s"], lambda told: told["model"] == "all")
    first = measured.rows["Q1"]["split"]["first"]  # jobs by submission
    kalos_s = measured.calibration(KALOS, ["latency_s"], lambda told: told["job"] < first)["latency_s"]
    quantiles = np.quantile(kalos_s, START_LATENCIES["container"][0])
    return {"process_s": float(muri["start_s"][0]), "container_s": [float(f"{value:.4g}") for value in quantiles]}


def play(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Predict what was measured or recorded; rows Q2 and Q3 raise an UnplayableError."""
    if row in UNPLAYABLE:
        raise UnplayableError(UNPLAYABLE[row])
    return _switches(column, constants, measured) if row == "U1" else _latencies(column, constants, measured)


def _switches(column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Costs of a switch: as is = a checkpoint and a restore; rules = what the authors' simulator charges."""
    columns = ["model", "gpu", "seconds"]
    model, gpu, titan_s = measured.test("titansched_switch_costs", columns, lambda told: told["model"] != "").values()
    old = gpu == "V100"
    if column == "floor":  # the same models on two types of GPU
        return [Points("time [s]", model[old].tolist(), titan_s[~old], titan_s[old])]
    # The rows of deepspeech2 repeat those of bert.
    switches = measured.test(
        "elasticflow_scaling_overhead", ["step", "seconds"], lambda told: told["model"] != "deepspeech2"
    )
    flow_s = switches["seconds"][switches["step"] != "profiling of all sizes"]
    groups = ["ElasticFlow A100"] * len(flow_s)
    if column == "rules":
        return [Points("time [s]", groups, np.full(len(flow_s), PUBLISHED_S), flow_s)]
    groups += [f"TitanSched {one}" for one in gpu]
    cost_s = Semantics().checkpoint_s + Semantics().restore_s if column == "as is" else constants["process_s"]
    return [Points("time [s]", groups, np.full(len(groups), cost_s), np.append(flow_s, titan_s))]


def _latencies(column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
    """Play the last half of the jobs of Kalos first come first served, and compare when they make progress."""
    if column in ("rules", "floor"):
        return []
    columns = ["gpus", "submit_s", "run_s", "latency_s"]
    first = measured.rows["Q1"]["split"]["first"]
    gpus, submit_s, run_s, found_s = measured.test(KALOS, columns, lambda told: told["job"] >= first).values()
    told = {}
    if column == "calibrated":  # evenly over the distribution, so that it is not sampled
        shares = (np.random.default_rng(0).permutation(len(gpus)) + 0.5) / len(gpus)
        at, seconds = np.array(START_LATENCIES["container"][0]), log(constants["container_s"])
        told = {START_LATENCY: exp(interpolated(shares, at, seconds))}
    arrival_s = submit_s - submit_s[0]
    workload = Workload.from_columns(arrival_s, gpus.astype(int), np.maximum(run_s, 1.0), attributes=told)
    events = simulate(Instance(Cluster.parse("302x8"), workload), make_scheduler("fifo")).events
    starts = events[events["kind"] == START]
    wait_s = starts["value"][np.argsort(starts["job"])] - arrival_s
    groups = np.select([gpus == 1, gpus <= 8], ["1 GPU", "2 to 8 GPUs"], "more than 8 GPUs")
    return [Points("wait [s]", groups.tolist(), wait_s, found_s)]
