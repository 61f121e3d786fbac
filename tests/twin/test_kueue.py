"""Twins of Kueue: a planted cohort is found from its quotas, and what Kueue does not admit gets no forecast."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import RESUME, START
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces import read_kueue_quotas, read_workload
from gpusched_env.twin import Pool, Twin
from gpusched_env.twin.fitting import fit_twin
from gpusched_env.twin.grading import GOOD, NOT_USABLE, grade_of
from gpusched_env.twin.scoring import replayed_starts, score_replay

GPU = "nvidia.com/gpu"
FIRST = datetime(2025, 3, 3, 9, tzinfo=UTC)
POOLS = (Pool("all", Cluster.parse("8x8").groups),)
# ClusterQueue -> quota, strategy, preemption policies
QUEUES: dict[str, tuple[int, str, dict[str, Any]]] = {
    "research": (24, "StrictFIFO", {"reclaimWithinCohort": "Any"}),
    "product": (24, "BestEffortFIFO", {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerPriority"}),
    "students": (16, "BestEffortFIFO", {}),
}


def at(seconds: float) -> str:
    return (FIRST + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def quotas(queues: dict[str, tuple[int, str, dict[str, Any]]] = QUEUES, **spec: Any) -> str:
    """ClusterQueues in one cohort, and a LocalQueue of each in the namespace of its name."""
    lines: list[dict[str, Any]] = []
    for name, (quota, strategy, preemption) in queues.items():
        groups = [{"flavors": [{"name": "h100", "resources": [{"name": GPU, "nominalQuota": str(quota)}]}]}]
        told = {"cohort": "all", "resourceGroups": groups, "queueingStrategy": strategy, "preemption": preemption}
        lines.append({"kind": "ClusterQueue", "metadata": {"name": name}, "spec": told | spec.get(name, {})})
        lines.append(
            {"kind": "LocalQueue", "metadata": {"name": "lq", "namespace": name}, "spec": {"clusterQueue": name}}
        )
    return "\n".join(map(json.dumps, lines))


def planted_jobs(seed: int, jobs: int = 1_500) -> Workload:
    """Jobs of three queues in bursts; times are whole seconds, as Kubernetes writes them."""
    rng = np.random.default_rng(seed)
    burst = np.repeat(np.arange(jobs // 10), 10)
    names = rng.choice([*QUEUES], jobs // 10, p=[0.4, 0.3, 0.3])[burst]
    gpus = rng.choice([1, 2, 4, 8, 16], jobs, p=[0.3, 0.2, 0.2, 0.2, 0.1])
    run_s = np.ceil(rng.lognormal(8.3, 1.0, jobs))
    gap_s = (gpus * run_s).sum() / (0.85 * 64) / (jobs // 10)
    arrival_s = np.floor(np.cumsum(rng.exponential(gap_s, jobs // 10))[burst] + rng.uniform(0, 1800, jobs))
    return Workload.from_columns(
        arrival_s, gpus, run_s,
        attributes={"cluster_queue": names, "priority": rng.choice([0, 100], jobs, p=[0.8, 0.2])},
    )  # fmt: skip


def exported(workload: Workload, twin: Twin) -> str:
    """Workloads of Kueue that played the jobs."""
    (problem,) = twin.problems(workload)
    log = simulate(problem.instance, make_scheduler(problem.spec))
    times = job_times(problem.instance, log)
    jobs = problem.instance.workload
    begins = np.isin(log.events["kind"], (START, RESUME))
    last_s = np.zeros(len(jobs))
    last_s[log.events["job"][begins]] = log.events["time_s"][begins]  # in order of time, so the last one stays
    lines = []
    for row, (job, told) in enumerate(zip(jobs.jobs, times, strict=True)):
        queue = str(jobs.attributes["cluster_queue"][row])
        conditions = [("Admitted", last_s[row]), ("Finished", told["finish_s"])]
        usage = {"resourceUsage": {GPU: str(job["gpus"])}, "count": int(job["gpus"]), "flavors": {GPU: "h100"}}
        status = {
            "admission": {"clusterQueue": queue, "podSetAssignments": [usage]},
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": at(time)} for kind, time in conditions
            ],
        }
        if told["preemptions"]:
            status["conditions"].append({"type": "Evicted", "status": "False", "lastTransitionTime": at(last_s[row])})
            held_s = told["finish_s"] - told["arrival_s"] - told["queueing_s"]
            status["accumulatedPastExexcutionTimeSeconds"] = int(held_s - (told["finish_s"] - last_s[row]))
        meta = {"name": f"w{job['id']}", "namespace": queue, "creationTimestamp": at(job["arrival_s"])}
        spec = {"queueName": "lq", "priority": int(jobs.attributes["priority"][row])}
        lines.append({"kind": "Workload", "metadata": meta, "spec": spec, "status": status})
    return "\n".join(map(json.dumps, lines))


def files(folder: Path, seed: int = 0, policy: str = "kueue") -> Path:
    """Write quotas.json and workloads.json; return the latter."""
    (folder / "quotas.json").write_text(quotas())
    found, _ = read_kueue_quotas(folder / "quotas.json")
    twin = Twin("", policy, POOLS, found.tenants, ("cluster_queue",))
    path = folder / "workloads.json"
    path.write_text(exported(planted_jobs(seed), twin))
    return path
