"""Twins of Kueue: a planted cohort is found from its quotas, and what Kueue does not admit gets no forecast."""

from __future__ import annotations

import dataclasses
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
from gpusched_env.twin.comparing import compare_policies, recorded_outcome, settings_of
from gpusched_env.twin.fitting import fit_twin
from gpusched_env.twin.grading import GOOD, NOT_USABLE, grade_of
from gpusched_env.twin.scoring import replayed_starts, score_replay
from gpusched_env.twin.summary import tenants_of

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


def fitted(folder: Path, seed: int = 0, policy: str = "kueue") -> tuple[Twin, Workload]:
    log = read_workload(f"kueue:{files(folder, seed, policy)}")
    found, _ = read_kueue_quotas(folder / "quotas.json")
    return fit_twin(log, POOLS, f"kueue:{folder / 'workloads.json'}", quotas=found), log


@pytest.mark.parametrize(("seed", "policy"), [(0, "kueue"), (1, "kueue"), (2, "kueue"), (0, "kueue:fair=True")])
def test_a_planted_cohort_is_found(tmp_path: Path, seed: int, policy: str) -> None:
    """Mean waits on the part that was held back: within 10 % over all jobs, and over those of each queue."""
    twin, _ = fitted(tmp_path, seed, policy)
    assert twin.scheduler == policy
    assert grade_of(twin).word == GOOD
    rows = [row for row in twin.score.groups if row.size == "all"]
    assert [row.partition for row in rows] == ["all", "product", "research", "students"]
    for row in rows:
        assert row.jobs > 100
        assert row.predicted_mean_s == pytest.approx(row.recorded_mean_s, rel=0.1)
        assert row.distance < 0.1


def test_other_policies_and_quotas_are_not_usable(tmp_path: Path) -> None:
    twin, log = fitted(tmp_path, 2)

    def with_tenants(**changes: Any) -> Twin:
        tree = tuple(dataclasses.replace(one, **{k: f(one) for k, f in changes.items()}) for one in twin.tenants.tree)
        return dataclasses.replace(twin, tenants=dataclasses.replace(twin.tenants, tree=tree))

    wrong_quotas = {"all": 64, "research": 8, "product": 24, "students": 32}
    for other in (
        dataclasses.replace(twin, scheduler="slurm"),
        with_tenants(rules=lambda one: ""),
        with_tenants(rules=lambda one: "" if one.name == "all" else "queueing=strict"),
        with_tenants(quota=lambda one: wrong_quotas[one.name]),
    ):
        score = score_replay(other, log, replayed_starts(other, log), twin.split_s)
        assert grade_of(dataclasses.replace(other, score=score)).word == NOT_USABLE


def test_a_log_of_kueue_needs_the_quotas_of_all_its_queues(tmp_path: Path) -> None:
    log = read_workload(f"kueue:{files(tmp_path)}")
    with pytest.raises(GpuschedError, match=r"the log is Kueue's.* --quotas .*kubectl get clusterqueues,cohorts"):
        fit_twin(log, POOLS)
    (tmp_path / "part.json").write_text(quotas({name: QUEUES[name] for name in ("research", "product")}))
    found, _ = read_kueue_quotas(tmp_path / "part.json")
    jobs = int((log.attributes["cluster_queue"] == "students").sum())
    with pytest.raises(
        GpuschedError, match=f"{jobs} jobs of the log belong to ClusterQueue 'students', which the file"
    ):
        fit_twin(log, POOLS, quotas=found)
    del log.attributes["cluster_queue"]
    with pytest.raises(GpuschedError, match="the log tells no ClusterQueue of a job: give one of Kueue"):
        fit_twin(log, POOLS, quotas=found)


def test_runs_that_were_evicted_are_work_of_the_twin(tmp_path: Path) -> None:
    """One run of 600 s, evicted, and one of 1,000 s: the twin plays 1,600 s less a checkpoint and a restore."""
    meta = {"name": "w", "namespace": "research", "creationTimestamp": at(0)}
    status = {
        "admission": {"clusterQueue": "research", "podSetAssignments": [{"resourceUsage": {GPU: "8"}, "count": 1}]},
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": at(time)}
            for kind, time in (("Admitted", 5_000), ("Finished", 6_000))
        ],
    }
    for version, key in (
        ("v1beta1", "accumulatedPastExexcutionTimeSeconds"),
        ("v1beta2", "accumulatedPastExecutionTimeSeconds"),
    ):
        status[key] = 600
        one = {
            "apiVersion": f"kueue.x-k8s.io/{version}",
            "kind": "Workload",
            "metadata": meta,
            "spec": {},
            "status": status,
        }
        (tmp_path / "w.json").write_text(json.dumps(one))
        log = read_workload(f"kueue:{tmp_path / 'w.json'}")
        told = [log.attributes[name][0] for name in ("wait_s", "earlier_s")]
        assert [*told, log.jobs["duration_s"][0]] == [5_000, 600, 1_000]
        del status[key]
    (tmp_path / "quotas.json").write_text(quotas())
    found, _ = read_kueue_quotas(tmp_path / "quotas.json")
    twin = Twin("", "kueue", POOLS, found.tenants, ("cluster_queue",))
    assert twin.problems(log)[0].instance.workload.jobs["duration_s"].tolist() == [1_540]
    recorded = recorded_outcome(settings_of(twin, log)[0])
    assert recorded is not None
    assert (recorded.wait_s.tolist(), recorded.gpu_hours) == ([4_400], 8 * 1_600 / 3_600)


def present(name: str, queue: str, gpus: int, admitted: float | None = None, priority: int = 0) -> dict[str, Any]:
    """A Workload of pods of 8 GPUs that runs since a time [s], or waits."""
    status: dict[str, Any] = {}
    if admitted is not None:
        usage = {"resourceUsage": {GPU: str(gpus)}, "count": gpus // 8}
        status["admission"] = {"clusterQueue": queue, "podSetAssignments": [usage]}
        status["conditions"] = [{"type": "Admitted", "status": "True", "lastTransitionTime": at(admitted)}]
    containers = [{"resources": {"requests": {GPU: "8"}}}]
    spec = {
        "queueName": "lq",
        "priority": priority,
        "podSets": [{"count": gpus // 8, "template": {"spec": {"containers": containers}}}],
    }
    meta = {"name": name, "namespace": queue, "creationTimestamp": at(0 if admitted is None else admitted)}
    return {"kind": "Workload", "metadata": meta, "spec": spec, "status": status}


def shown(*words: str) -> str:
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_play_kueue_as_today(tmp_path: Path) -> None:
    """Fit, compare, and a forecast in which stopped queues start nothing, and other queues wait as their quotas say."""
    log, twin = f"kueue:{files(tmp_path)}", tmp_path / "twin.json"
    (tmp_path / "now_quotas.json").write_text(
        quotas(product={"stopPolicy": "Hold"}, students={"stopPolicy": "HoldAndDrain"})
    )
    fit = ["twin", "fit", log, "--cluster", "8x8", "--output", str(twin), "--quotas"]
    told = shown(*fit, str(tmp_path / "quotas.json"))
    assert told.startswith("twin: GOOD")
    assert "queue research: queueing=strict,reclaim=any" in told
    assert "policy: kueue\n" in told
    rows = shown("twin", "compare", str(twin)).splitlines()
    waits = [float(row.split("│")[3].split()[0]) for row in rows if row.startswith("today")]
    assert waits[1] == pytest.approx(waits[0], rel=0.1)

    told = shown(*fit, str(tmp_path / "now_quotas.json"))
    assert "queues are stopped now: product (Hold), students (HoldAndDrain)" in told
    month_s = 40 * 86_400
    now = [
        present("p-run", "product", 32, month_s - 60), present("s-run", "students", 16, month_s - 60),
        present("r-run", "research", 16, month_s - 60), present("r-next", "research", 16),
        present("p-next", "product", 8), present("s-next", "students", 8), present("r-large", "research", 80),
        present("x", "unknown", 8),
    ]  # fmt: skip
    (tmp_path / "now.json").write_text("\n".join(map(json.dumps, now)))
    told = shown(
        "twin", "forecast", "--snapshot", f"kueue:{tmp_path / 'now.json'}", "--at", at(month_s)[:-1], "--history", log,
        "--twin", str(twin), "--futures", "20", "--no-arrivals", "--output", str(tmp_path / "out.csv"),
    )  # fmt: skip
    rows = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [row.split(",")[:3] for row in rows] == [["research/r-next", "16", "1.0000"]]
    for words in (
        r"which are held \(stopPolicy Hold of product\): product/p-next",
        r"which are held \(stopPolicy HoldAndDrain of students\): students/s-run, students/s-next",
        r"which cannot start as they are \(above the quota of research\): research/r-large",
        r"which are held \(no ClusterQueue of unknown/lq in the quotas\): unknown/x",
    ):
        assert re.search(words, told), told


def test_jobs_of_kueue_are_not_played_by_another_policy_unasked(tmp_path: Path) -> None:
    month_s = 40 * 86_400
    (tmp_path / "now.json").write_text(json.dumps(present("next", "product", 8)))
    words = ["twin", "forecast", "--snapshot", f"kueue:{tmp_path / 'now.json'}", "--at", at(month_s)[:-1]]
    words += ["--cluster", "8x8"]
    words += ["--history", f"kueue:{files(tmp_path)}", "--futures", "2", "--no-arrivals"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "its jobs are Kueue's, whose quotas decide who waits: give --twin" in " ".join(refused.output.split())
    assert "product/next" in shown(*words, "--scheduler", "fifo")


def test_new_machines_go_to_the_quota_of_a_queue_or_cohort(tmp_path: Path) -> None:
    """They help the queue that gets them; nobody could use machines beyond the quotas."""
    twin, log = fitted(tmp_path)
    found = {}
    for where in ("", "research:", "students:"):
        comparison = compare_policies(settings_of(twin, log, f"{where}4x8"), [], workers=1)
        changed = comparison.settings[1].twin
        assert changed.tenants is not None
        assert (changed.gpus, changed.tenants.tree[0].quota) == (96, 96)
        found[where] = {row.name: row.other_s / row.wait_s for row in tenants_of(comparison, comparison.outcomes[1])}
    assert all(ratio < 0.9 for ratio in found[""].values())
    assert found["research:"]["research"] < found["students:"]["research"]
    assert found["students:"]["students"] < found["research:"]["students"]
    with pytest.raises(
        GpuschedError, match=r"unknown queue or cohort 'vision'.*quotas decide who may use new machines"
    ):
        settings_of(twin, log, "vision:4x8")
