"""Objects of Kubernetes: Workloads of Kueue, pods, PodGroups of Volcano, nodes, and the quotas of Kueue."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import SAMPLES
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import TraceError
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.pseudonyms.names import Pseudonyms
from gpusched_env.traces import ReadReport, read_cluster, read_kueue_quotas, read_trace
from gpusched_env.traces.kubernetes.gangs import FURTHER, most_at_once
from gpusched_env.traces.kubernetes.nodes import kubernetes_node_names
from gpusched_env.traces.kubernetes.objects import kubernetes_objects, quantity
from gpusched_env.traces.kubernetes.pods import PodObject
from gpusched_env.traces.parsing.containers import trace_files
from gpusched_env.traces.reading import resolve_source
from gpusched_env.twin.snapshot_sources import snapshot_of
from tools.pseudonyms.writing import pseudonymise

GPU = "nvidia.com/gpu"


def at(minute: int) -> str:
    return f"2025-03-03T09:{minute:02}:00Z"


def condition(kind: str, minute: int, status: str = "True", reason: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at(minute)}


def workload(name: str, conditions: list[dict[str, str]], usage: str | None = "8", **spec: Any) -> dict[str, Any]:
    given_gpus = {} if usage is None else {"resourceUsage": {GPU: usage, "cpu": "64"}}
    assigned = {"name": "main", "flavors": {GPU: "h100", "cpu": "any"}, "count": 2, **given_gpus}
    status = {"admission": {"clusterQueue": "vis-q", "podSetAssignments": [assigned]}, "conditions": conditions}
    metadata = {"name": name, "namespace": "vis", "creationTimestamp": at(0)}
    return {"kind": "Workload", "metadata": metadata, "spec": {"queueName": "lq", **spec}, "status": status}


def pod(
    name: str, start: int | None, end: int | None, gpus: int | str = 4, owner: str = "", **metadata: Any
) -> dict[str, Any]:
    owners = [{"kind": "Job", "name": owner}] if owner else [{"kind": "ReplicaSet", "name": "web"}]
    status: dict[str, Any] = {"phase": "Pending" if start is None else "Running" if end is None else "Succeeded"}
    if start is not None:
        status["startTime"] = at(start)
    if end is not None:
        status["containerStatuses"] = [{"state": {"terminated": {"finishedAt": at(end)}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "n", "creationTimestamp": at(1), "ownerReferences": owners, **metadata},
        "spec": {"containers": [{"resources": {"requests": {GPU: gpus}}}]},
        "status": status,
    }


def read(folder: Path, name: str, *objects: object, **options: Any) -> tuple[Workload, ReadReport]:
    path = folder / "objects.json"
    path.write_text("\n".join(map(json.dumps, objects)))
    return read_trace(f"{name}:{path}", **options)


def test_a_workload_of_kueue_is_a_job(tmp_path: Path) -> None:
    first = workload(
        "a", [condition("QuotaReserved", 1), condition("Admitted", 2), condition("Finished", 32, reason="Succeeded")]
    )
    later = workload(
        "b", [condition("QuotaReserved", 4), condition("Finished", 5)], priority=-3, maximumExecutionTimeSeconds=600
    )
    later["metadata"]["creationTimestamp"] = "2025-03-03T10:00:00.5+01:00"
    jobs, report = read(tmp_path, "kueue", first, {"kind": "LocalQueue"}, later)
    assert (report.rows, report.kept, report.origin) == (3, 2, "2025-03-03T09:00:00")
    assert jobs.jobs["id"].tolist() == [0, 2]
    assert jobs.jobs["arrival_s"].tolist() == [0, 0.5]
    assert jobs.jobs["duration_s"].tolist() == [1_800, 60]
    assert jobs.jobs["gpus"].tolist() == [8, 8]
    np.testing.assert_array_equal(jobs.jobs["estimate_s"], [np.nan, 600])
    told = {name: values.tolist() for name, values in jobs.attributes.items()}
    assert told["original_id"] == ["vis/a", "vis/b"]
    assert (told["queue"], told["cluster_queue"], told["gpu_type"]) == (["lq"] * 2, ["vis-q"] * 2, ["h100"] * 2)
    assert (told["status"], told["priority"], told["wait_s"]) == (["Succeeded", ""], [0, -3], [120, 239.5])


def test_gpus_of_workloads(tmp_path: Path) -> None:
    """resourceUsage is already multiplied by the pods; without it, requests times pods; init containers run before."""
    done = [condition("Admitted", 1), condition("Finished", 2)]
    limits = {"resources": {"limits": {GPU: 1}}}
    both = {"containers": [limits, {"resources": {"requests": {GPU: "2"}}}], "initContainers": [limits]}
    sets = [{"count": 4, "template": {"spec": both}}, {"template": {"spec": {"containers": [{}]}}}]
    evicted = workload("e", [*done, condition("Evicted", 1, "False")], usage="2")
    jobs, report = read(
        tmp_path,
        "kueue",
        workload("a", done, "8", podSets=sets),
        workload("b", done, None, podSets=sets),
        workload("c", done, None),
        workload("d", done, "0"),
        evicted,
    )
    assert jobs.jobs["gpus"].tolist() == [8, 12, 2]
    assert report.dropped == {"number of GPUs unknown": 1, "CPU job (no GPUs)": 1}
    assert report.notes == {
        "jobs that were evicted before; their start is their last admission, and earlier runs are lost": 1,
        "jobs admitted with fewer pods than they asked for": 2,
        "jobs whose pods have unequal numbers of GPUs: nodes ignored": 1,
    }


def test_workloads_that_are_no_jobs_are_counted(tmp_path: Path) -> None:
    done = [condition("Admitted", 5), condition("Finished", 6)]
    unborn = workload("u", done)
    del unborn["metadata"]["creationTimestamp"]
    _, report = read(
        tmp_path,
        "kueue",
        workload("ok", done),
        unborn,
        workload("p", []),
        workload("r", done[:1]),
        workload("x", [condition("Admitted", 6), condition("Finished", 5)]),
        workload("f", [condition("Finished", 5, "False")]),
    )
    assert report.dropped == {
        "no submission time": 1,
        "never started": 2,
        "still running at the end of the log": 1,
        "ended before it started": 1,
    }


def test_the_name_of_the_resource_is_an_option(tmp_path: Path) -> None:
    text = SAMPLES["kueue"][0].replace(b"nvidia.com/gpu", b"x.com/gpu")
    (tmp_path / "w.json").write_bytes(text)
    with pytest.raises(
        TraceError, match=r"(?s)no usable job.*dropped 6: GPUs of another resource, which --gpu-resource may name"
    ):
        read_trace(f"kueue:{tmp_path / 'w.json'}")
    jobs, _ = read_trace(f"kueue:{tmp_path / 'w.json'}", gpu_resource="x.com/gpu")
    assert jobs.jobs["gpus"].tolist() == [8] * 6
    with pytest.raises(TraceError, match="gpu_resource names a resource of Kubernetes: write kubernetes:"):
        read_trace("helios:x.csv", gpu_resource="x.com/gpu")
    shown = CliRunner().invoke(app, ["traces", "read", f"kueue:{tmp_path / 'w.json'}", "--gpu-resource", "x.com/gpu"])
    assert "6 records read, 6 jobs kept" in shown.output


def test_pods_of_one_owner_are_a_gang(tmp_path: Path) -> None:
    jobs, report = read(
        tmp_path,
        "kubernetes",
        pod("a-0", 2, 12, owner="a"),
        pod("w-0", 3, 5),
        pod("a-1", 3, 13, owner="a"),
        pod("a-launch", 2, 30, 0, owner="a"),
        pod("w-1", 4, 6),
        pod("p", None, None),
        pod("r", 5, None),
        {"kind": "Node"},
        pod("cpu", 1, 2, 0),
    )
    assert jobs.attributes["original_id"].tolist() == ["n/a", "n/w-0", "n/w-1"]
    assert jobs.jobs["id"].tolist() == [0, 1, 4]
    assert jobs.jobs["gpus"].tolist() == [8, 4, 4]
    assert jobs.jobs["duration_s"].tolist() == [660, 120, 120]
    assert jobs.attributes["wait_s"].tolist() == [60, 120, 180]
    assert report.rows == report.kept + sum(report.dropped.values()) == 9


def test_a_group_an_owner_and_a_pod_of_one_name_are_three_jobs(tmp_path: Path) -> None:
    mark = {"annotations": {"scheduling.k8s.io/group-name": "a"}}
    other = pod("q-0", 2, 7, owner="a")
    other["metadata"]["ownerReferences"][0]["kind"] = "PyTorchJob"
    objects = [
        *(pod("p-0", 2, 3, owner="a"), pod("a", 2, 4), pod("g-0", 2, 5, **mark), pod("p-1", 2, 6, owner="a"), other),
        *(pod("b-0", 2, 3, owner="b"), pod("a2", 2, 3, owner="a", namespace="m")),
    ]
    jobs, _ = read(tmp_path, "kubernetes", *objects)
    assert jobs.attributes["original_id"].tolist() == [
        *("Job/n/a", "Pod/n/a", "PodGroup/n/a", "PyTorchJob/n/a", "n/b", "m/a"),
    ]
    assert jobs.jobs["gpus"].tolist() == [8, 4, 4, 4, 4, 4]
    assert jobs.jobs["duration_s"].tolist() == [240, 120, 180, 300, 60, 60]
    assert jobs.jobs["id"].tolist() == [0, 1, 2, 4, 5, 6]


def test_the_pods_of_a_job_may_be_anywhere_in_the_file(tmp_path: Path) -> None:
    """500 jobs of two pods: all first pods, then all second ones, in another order."""
    first = [pod(f"j{i}-0", 2, 3 + i % 7, 1 + i % 3, owner=f"j{i}") for i in range(500)]
    second = [pod(f"j{i}-1", 2, 4, 2, owner=f"j{i}") for i in range(500)]
    random.Random(0).shuffle(second)
    jobs, report = read(tmp_path, "kubernetes", *first, *second)
    assert jobs.attributes["original_id"].tolist() == [f"n/j{i}" for i in range(500)]
    assert jobs.jobs["gpus"].tolist() == [3 + i % 3 for i in range(500)]
    assert jobs.jobs["duration_s"].tolist() == [60 * max(1 + i % 7, 2) for i in range(500)]
    assert report.dropped_at[FURTHER].tolist() == [
        500 + second.index(one) + 1 for i in range(500) for one in second if one["metadata"]["name"] == f"j{i}-1"
    ]


def test_exports_of_several_days_are_joined(tmp_path: Path) -> None:
    """The last record of a pod or Workload counts; what has its name, but another uid, is another job."""

    def aged(one: dict[str, Any], uid: str, owner: str = "") -> dict[str, Any]:
        one["metadata"]["uid"] = uid
        if owner:
            one["metadata"]["ownerReferences"][0]["uid"] = owner
        return one

    group = {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "n", "creationTimestamp": at(0)}}
    mark = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    monday = [aged(pod(f"a-{i}", 2, None, owner="a"), f"u{i}", "o1") for i in range(2)]
    tuesday = [aged(pod(f"a-{i}", 2, 12, owner="a"), f"u{i}", "o1") for i in range(2)]
    again = [aged(pod("a-0", 20, 25, owner="a"), "u9", "o2"), pod("c", 2, 9)]
    days: dict[str, list[list[dict[str, Any]]]] = {
        "kubernetes": [[*monday, pod("b", 2, 8)], [*tuesday, *again]],
        "volcano": [[group, pod("p", 2, None, **mark)], [group, pod("p", 2, 9, **mark)]],
        "kueue": [
            [aged(workload("w", [condition("Admitted", 1)]), "x"), aged(workload("v", []), "y")],
            [
                aged(workload("w", [condition("Admitted", 1), condition("Finished", 5)]), "x"),
                aged(workload("w", [condition("Admitted", 8), condition("Finished", 9)]), "z"),
            ],
            [aged(workload("w", [condition("Admitted", 1), condition("Finished", 5)]), "x")],
        ],
    }
    wanted = {
        "kubernetes": [(8, 600), (4, 360), (4, 300), (4, 420)],
        "volcano": [(4, 420)],
        "kueue": [(8, 60), (8, 240)],
    }
    for name, exports in days.items():
        for i, objects in enumerate(exports):
            (tmp_path / f"{name}-{i}.json").write_text("\n".join(map(json.dumps, objects)))
        jobs, report = read_trace(f"{name}:{tmp_path / name}-*.json")
        assert sorted(jobs.jobs[["gpus", "duration_s"]].tolist()) == sorted(wanted[name])
        assert len(set(jobs.jobs["id"].tolist())) == len(jobs)
        assert report.rows == report.kept + sum(report.dropped.values()) == sum(map(len, exports))
        copy = tmp_path / f"{name}.copy"
        pseudonymise(name, Path(f"{tmp_path / name}-*.json"), copy, Pseudonyms(b"an unguessable key"))
        again = read_trace(f"{name}:{copy}")[0]
        assert sorted(again.jobs[["gpus", "duration_s"]].tolist()) == sorted(wanted[name])
    with pytest.raises(TraceError, match="'n/b': this id occurs twice"):
        read(tmp_path, "kubernetes", pod("b", 2, 3), pod("b", 2, 3))


def test_the_newest_record_of_a_pod_counts_in_any_order_of_the_exports(tmp_path: Path) -> None:
    """pods-10 is newer than pods-9, and a pod that has ended newer than the same one before, wherever it is."""
    early, late = [pod("a", 2, None), pod("b", 2, 8)], [pod("a", 2, 12)]
    for names in (("pods-9", "pods-10"), ("z", "a")):
        for name, objects in zip(names, (early, late), strict=True):
            (tmp_path / f"{name}.json").write_text("\n".join(map(json.dumps, objects)))
        assert sorted(read_trace(f"kubernetes:{tmp_path}/*.json")[0].jobs["duration_s"].tolist()) == [360, 600]
        for name in names:
            (tmp_path / f"{name}.json").unlink()
    for i in (9, 10, 100):
        (tmp_path / f"day-{i}.json").touch()
    assert [one.name for one in trace_files(tmp_path / "day-*.json")] == ["day-9.json", "day-10.json", "day-100.json"]


def test_pods_that_replace_others_do_not_add_up(tmp_path: Path) -> None:
    """Two attempts of two pods, one after the other, and one pod that begins when another ends: four GPUs at a time."""
    tries = [
        pod("a-0", 2, 12, 2, owner="a"),
        pod("a-1", 2, 12, 2, owner="a"),
        pod("a-2", 12, 22, 2, owner="a"),
        pod("a-3", 15, 25, 2, owner="a"),
    ]
    jobs, report = read(tmp_path, "kubernetes", *tries)
    assert jobs.jobs["gpus"].tolist() == [4]
    assert jobs.jobs["duration_s"].tolist() == [23 * 60]
    assert report.notes == {
        "jobs with pods that replaced others; the gang is the largest number of GPUs at one time": 1
    }


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 8)), max_size=8))
def test_most_gpus_at_once(holds: list[tuple[int, int, int]]) -> None:
    """The largest number is held just after a start, so all starts are tried."""
    spans = [(float(start), float(start + length), gpus) for start, length, gpus in holds]
    tried = [sum(gpus for start, end, gpus in spans if start <= time < end) for time, _, _ in spans]
    assert most_at_once(spans) == max(tried, default=0)


MARKS = {
    "Kueue": {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}},
    "KAI": {"annotations": {"pod-group-name": "g"}},
    "LeaderWorkerSet": {"labels": {"leaderworkerset.sigs.k8s.io/group-key": "g"}},
    "Coscheduling": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
    "Koordinator": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
    "Volcano": {"annotations": {"scheduling.volcano.sh/group-name": "g"}},
}


@pytest.mark.parametrize("by", [*MARKS, "workloadRef", "schedulingGroup"])
def test_pods_that_one_scheduler_starts_at_once_are_one_job(tmp_path: Path, by: str) -> None:
    """Four pods of 8 GPUs in a group, without an owner that says so, and a pod of another group."""
    pods = [pod(f"p{i}", 2, 9, 8, **MARKS.get(by, {})) for i in range(4)]
    other = pod("q", 2, 9, 8)
    if by == "workloadRef":
        for one, key in zip([*pods, other], "aaaab", strict=True):
            one["spec"][by] = {"name": "w", "podGroup": "workers", "podGroupReplicaKey": key}
    elif by == "schedulingGroup":
        for one in pods:
            one["spec"][by] = {"podGroupName": "g"}
    jobs, _ = read(tmp_path, "kubernetes", *pods, other)
    assert jobs.jobs["gpus"].tolist() == [32, 8]
    assert jobs.attributes["original_id"][0] == ("n/w-workers-a" if by == "workloadRef" else "n/g")
    assert (jobs.attributes["min_nodes"].tolist(), jobs.attributes["max_nodes"].tolist()) == ([1, 1], [4, 1])


def test_a_job_set_is_one_job(tmp_path: Path) -> None:
    """Four replicated jobs of two pods; without the label, each Job is a job."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    names = [(f"js-workers-{i}", f"js-workers-{i}-{k}") for i in range(4) for k in range(2)]
    jobs, _ = read(tmp_path, "kubernetes", *(pod(one, 2, 9, 4, owner, labels=labels) for owner, one in names))
    assert jobs.jobs["gpus"].tolist() == [32]
    assert jobs.attributes["max_nodes"].tolist() == [8]


def test_the_pod_group_of_kai_is_that_of_its_pods(tmp_path: Path) -> None:
    group = {
        "kind": "PodGroup",
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": "pg-train-1", "namespace": "n", "creationTimestamp": at(0)},
        "spec": {"queue": "team-a", "minMember": 2},
    }
    mark = {"annotations": {"pod-group-name": "pg-train-1"}, "labels": {"kai.scheduler/queue": "team-b"}}
    pods = [pod(f"t{i}", 5, 9, 8, owner=f"o{i}", **mark) for i in range(2)]
    for name, queue_name in (("volcano", "team-a"), ("kubernetes", "team-b")):
        jobs, _ = read(tmp_path, name, *pods, group)
        assert (jobs.jobs["gpus"].tolist(), jobs.attributes["queue"].tolist()) == ([16], [queue_name])


@pytest.mark.parametrize("statuses", [None, [], [{"state": {"terminated": {"finishedAt": None}}}], [{"state": {}}]])
def test_a_pod_that_failed_before_it_ran_does_not_drop_the_job(tmp_path: Path, statuses: Any) -> None:
    """Evicted and UnexpectedAdmissionError: phase Failed, a startTime, but no container that finished."""
    failed, lone = pod("a-0", 2, None, owner="a"), pod("b-0", 2, None)
    for one in (failed, lone):
        one["status"] |= {"phase": "Failed", "reason": "UnexpectedAdmissionError", "containerStatuses": statuses}
    jobs, report = read(tmp_path, "kubernetes", failed, pod("a-1", 4, 14, owner="a"), lone)
    told = {name: values.tolist() for name, values in jobs.attributes.items()}
    assert (jobs.jobs["gpus"].tolist(), jobs.jobs["duration_s"].tolist(), told["wait_s"]) == ([4], [600], [180])
    assert (told["status"], told["max_nodes"]) == (["Succeeded"], [1])
    assert report.dropped == {FURTHER: 1, "ended before a container ran": 1}


def test_nodes_of_pods(tmp_path: Path) -> None:
    """A pod is never split over nodes; those that run one after another count once, and unequal ones tell nothing."""
    pods = [pod("a-0", 2, 9, 2, owner="a"), pod("a-1", 2, 9, 2, owner="a"), pod("a-2", 9, 12, 2, owner="a")]
    pods += [pod("a-l", 2, 9, 0, owner="a"), pod("b-0", 2, 9, 4, owner="b"), pod("b-1", 2, 9, 2, owner="b")]
    jobs, report = read(tmp_path, "kubernetes", *pods, pod("c", 2, 9, 8))
    assert jobs.jobs["gpus"].tolist() == [4, 6, 8]
    assert jobs.attributes["min_nodes"].tolist() == [1, 0, 1]
    assert jobs.attributes["max_nodes"].tolist() == [2, 0, 1]
    assert report.notes["jobs whose pods have unequal numbers of GPUs: nodes ignored"] == 1
    assert "max_nodes" not in read(tmp_path, "kubernetes", *pods[4:])[0].attributes


def test_nodes_of_workloads(tmp_path: Path) -> None:
    """Pods of the pod sets that have GPUs, as many as were admitted; one node if the topology demands one host."""
    done = [condition("Admitted", 1), condition("Finished", 2)]

    def sets(*counts: tuple[int, int], **more: Any) -> list[dict[str, Any]]:
        pods = [{"containers": [{"resources": {"limits": {GPU: gpus}}}]} for _, gpus in counts]
        return [{"count": n, "template": {"spec": one}, **more} for (n, _), one in zip(counts, pods, strict=True)]

    host = {"topologyRequest": {"required": "kubernetes.io/hostname"}}
    cases = [sets((2, 4)), sets((1, 0), (4, 2)), sets((1, 4), (2, 2)), sets((4, 4)), sets((2, 4), **host), []]
    jobs, report = read(tmp_path, "kueue", *(workload(f"w{i}", done, "8", podSets=one) for i, one in enumerate(cases)))
    assert jobs.attributes["max_nodes"].tolist() == [2, 4, 0, 2, 1, 2]  # the last one is told by the admission
    assert jobs.attributes["min_nodes"].tolist() == [1, 1, 0, 1, 1, 1]
    assert report.notes["jobs whose pods have unequal numbers of GPUs: nodes ignored"] == 1


@pytest.mark.parametrize("key", ["accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds"])
def test_finished_workloads_of_kueue_0_15_are_read(tmp_path: Path, key: str) -> None:
    """They have neither admission nor a condition that is True but Finished; the seconds of the runs are told."""
    took_back = [condition("QuotaReserved", 42, "False"), condition("Admitted", 42, "False")]
    pods = [{"count": 2, "template": {"spec": {"containers": [{"resources": {"requests": {GPU: "4"}}}]}}}]
    old = workload("a", [*took_back, condition("Finished", 42, reason="Succeeded")], podSets=pods)
    del old["status"]["admission"]
    never = json.loads(json.dumps(old))
    old["status"][key], never["metadata"]["name"] = 1800, "b"
    jobs, report = read(tmp_path, "kueue", old, never)
    assert (jobs.jobs["gpus"].tolist(), jobs.jobs["duration_s"].tolist()) == ([8], [1800])
    assert jobs.attributes["wait_s"].tolist() == [720]
    assert report.dropped == {"never started": 1}


def test_pod_groups_of_volcano(tmp_path: Path) -> None:
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "n", "creationTimestamp": at(0)},
        "spec": {"queue": "nlp"},
    }
    empty = {"kind": "PodGroup", "metadata": {"name": "e", "namespace": "n", "creationTimestamp": at(0)}}
    mark = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    lone = {"annotations": {"scheduling.k8s.io/group-name": "lone"}}
    jobs, report = read(
        tmp_path,
        "volcano",
        pod("g-0", 5, 15, **mark),
        group,
        pod("g-1", 6, 16, **mark),
        empty,
        pod("single", 2, 3),
        pod("l", 4, 8, **lone),
        {"kind": "Job"},
    )
    assert jobs.attributes["original_id"].tolist() == ["n/g", "n/lone"]
    assert jobs.attributes["queue"].tolist() == ["nlp", ""]
    assert jobs.jobs["arrival_s"].tolist() == [0, 60]
    assert jobs.attributes["wait_s"].tolist() == [300, 180]
    assert jobs.jobs["gpus"].tolist() == [8, 4]
    assert report.dropped == {
        "pod of no PodGroup": 1,
        "object of another kind than PodGroup and Pod": 1,
        "PodGroup, whose job is that of its pods": 1,
        "PodGroup without pods in the file": 1,
        "further pod of a job, which is one job together with its first pod": 1,
    }
    assert report.notes == {"jobs whose PodGroup is not in the file; they arrive with their first pod": 1}


def test_lists_and_lines_are_read_alike(tmp_path: Path) -> None:
    for name in ("kueue", "kubernetes", "volcano"):
        lines, listed = SAMPLES[name]
        objects = [json.loads(line) for line in lines.splitlines()]
        shapes = [
            lines,
            listed,
            json.dumps(objects).encode(),
            json.dumps({"items": objects}).encode(),
            json.dumps({"kind": "List", "metadata": {"a": "b"}, "apiVersion": "v1", "items": objects}).encode(),
            "".join(json.dumps(one, indent=2) for one in objects).encode(),
            json.dumps({"items": objects[:3], "kind": "List"}).encode() + json.dumps(objects[3:]).encode(),
            yaml.safe_dump({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {}}).encode(),
            yaml.safe_dump_all(objects, explicit_start=True).encode(),
            gzip.compress(yaml.safe_dump_all([{"items": objects[:3], "kind": "List"}, *objects[3:]]).encode()),
        ]
        prints = set()
        for shape in shapes:
            (tmp_path / "o").write_bytes(shape)
            prints.add(read_trace(f"{name}:{tmp_path / 'o'}")[0].fingerprint())
            assert resolve_source(f"auto:{tmp_path / 'o'}")[0] == name
        assert len(prints) == 1
    for broken in (
        b'{"items": [{"kind": "Pod"}',
        b'{"items": []} x',
        b'{"items": [] "a"}',
        b'{"items": [], "a" 1}',
        b"{} {",
    ):
        (tmp_path / "o").write_bytes(broken)
        with pytest.raises(TraceError, match=r"the JSON is cut or damaged|no records"):
            read_trace(f"kueue:{tmp_path / 'o'}")


def test_all_that_reads_json_of_kubernetes_reads_yaml(tmp_path: Path) -> None:
    """Clusters, quotas, snapshots and pseudonyms; logs are in the test above."""
    nodes = [node("a", "8"), node("b", "4")]
    objects = [workload("r", [condition("Admitted", 3)]), workload("q", [], priority=7)]
    (tmp_path / "key").write_text("a secret of more than 16 bytes")
    for name, write in (("json", json.dumps), ("yaml", yaml.safe_dump)):
        for kind, listed in (("n", nodes), ("w", objects)):
            (tmp_path / f"{kind}.{name}").write_text(write({"apiVersion": "v1", "items": listed, "kind": "List"}))
        pseudonymise(
            "kueue", tmp_path / f"w.{name}", tmp_path / f"hidden.{name}", Pseudonyms.from_file(tmp_path / "key")
        )
    assert (
        read_cluster(f"kubernetes:{tmp_path / 'n.yaml'}")[0].describe()
        == "12 GPUs: 1 nodes x 8 H100, 1 nodes x 4 H100 in 2 racks"
    )
    assert snapshot_of(f"auto:{tmp_path / 'w.yaml'}") == snapshot_of(f"kueue:{tmp_path / 'w.json'}")
    hidden = [
        list(map(json.loads, (tmp_path / f"hidden.{name}").read_text().splitlines())) for name in ("json", "yaml")
    ]
    assert hidden[0] == hidden[1] != objects


def test_a_line_is_decoded_straight_into_its_fields_unless_it_is_a_list(tmp_path: Path) -> None:
    """The volume with the token of its service account, which Kubernetes adds to every pod, has items."""
    plain, mounted, listed = pod("a", 2, 3), pod("b", 2, 3), pod("c", 2, 3)
    certificate = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    mounted["spec"]["volumes"] = [{"name": "kube-api-access", "projected": {"sources": [certificate]}}]
    path = tmp_path / "objects.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in (plain, mounted, {"items": [listed]})))
    found = [record for _, record in kubernetes_objects(path, PodObject)]
    assert [type(one) for one in found] == [PodObject, PodObject, dict]
    assert read_trace(f"kubernetes:{path}")[0].attributes["original_id"].tolist() == ["n/a", "n/b", "n/c"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("500m", 0.5), ("1e3", 1_000), ("4Ki", 4_096), ("2Mi", 1 << 21), ("3k", 3_000), ("1.5G", 1.5e9), (7, 7)],
)
def test_quantities(text: str | int, value: float) -> None:
    assert quantity(text) == value
    assert all(np.isnan(quantity(wrong)) for wrong in ("", "k", "1_0", "2Kk", "x", "1 2"))


def node(name: str, gpus: str | None, resource: str = GPU, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": "63500m"} if gpus is None else {resource: gpus}
    labels = {"nvidia.com/gpu.product": "H100"} if resource == GPU else {}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def test_nodes_are_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    nodes = [node("a", "8"), node("b", "8", unschedulable=True), node("c", None), {"kind": "Pod"}]
    path.write_text(json.dumps({"apiVersion": "v1", "items": nodes, "kind": "List"}))
    cluster, report = read_cluster(f"kubernetes:{path}")
    assert cluster.describe() == "16 GPUs: 2 nodes x 8 H100 in 1 racks"
    assert (report.rows, report.kept, report.dropped) == (4, 2, {"no GPUs": 1, "object of another kind than Node": 1})
    assert any(remark.startswith("nodes cordoned") for remark in report.notes)
    path.write_text("\n".join(json.dumps(node(name, "4", "amd.com/gpu")) for name in "ab"))
    assert read_cluster(f"kubernetes:{path}")[0].gpus == 8
    path.write_text(json.dumps([node("a", "4", "amd.com/gpu"), node("b", "4", "x.com/gpu")]))
    with pytest.raises(TraceError, match=r"amd.com/gpu and x.com/gpu could be the GPU"):
        read_cluster(f"kubernetes:{path}")
    path.write_text(json.dumps([node("a", "4"), node("a", "4")]))
    with pytest.raises(TraceError, match=r"record 2, field 'metadata.name': 'a': this node occurs twice"):
        read_cluster(f"kubernetes:{path}")


def test_nodes_that_start_no_jobs_are_closed(tmp_path: Path) -> None:
    """Also those whose condition Ready is False or Unknown, and those that Kubernetes tainted; not those of a site."""

    def tainted(name: str, key: str, effect: str) -> dict[str, Any]:
        return node(name, "8", taints=[{"key": key, "effect": effect}])

    nodes = [node("ready", "8"), node("cordoned", "8", unschedulable=True), node("dead", "8"), node("lost", "8")]
    for one, status in zip((nodes[0], *nodes[2:]), ("True", "False", "Unknown"), strict=True):
        one["status"]["conditions"] = [condition("MemoryPressure", 1, "False"), condition("Ready", 1, status)]
    nodes += [
        tainted("unreachable", "node.kubernetes.io/unreachable", "NoExecute"),
        tainted("full", "node.kubernetes.io/disk-pressure", "NoSchedule"),
        tainted("perhaps", "node.kubernetes.io/x", "PreferNoSchedule"),
        tainted("gpu", "nvidia.com/gpu", "NoSchedule"),
    ]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps(nodes))
    assert kubernetes_node_names(path)[1] == ("cordoned", "dead", "lost", "unreachable", "full")
    cluster, report = read_cluster(f"kubernetes:{path}")
    assert cluster.gpus == 64
    told = {remark.partition(",")[0]: count for remark, count in report.notes.items()}
    assert (told["nodes that are not ready"], told["nodes cordoned (unschedulable)"]) == (4, 1)


def queue(name: str, quota: str, cohort: str = "", weight: str | None = None, **limits: str) -> dict[str, Any]:
    resource = {"name": GPU, "nominalQuota": quota, **limits}
    groups = [{"flavors": [{"name": "h100", "resources": [{"name": "cpu", "nominalQuota": "9"}, resource]}]}]
    fair = {} if weight is None else {"fairSharing": {"weight": weight}}
    return {
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"resourceGroups": groups, "cohort": cohort, **fair},
    }


def cohort(name: str, parent: str = "", quota: str = "") -> dict[str, Any]:
    made = {**queue(name, quota), "kind": "Cohort"}
    made["spec"] = {"parentName": parent, **({"resourceGroups": made["spec"]["resourceGroups"]} if quota else {})}
    return made


def test_parts_of_gpus_are_what_they_are(tmp_path: Path) -> None:
    """Slices, shares, devices of claims and GPUs of others are no CPU jobs; GPUs of AMD are GPUs of their own type."""
    shares = "shares of GPUs, which are no whole GPUs"
    slices = "slices of GPUs (MIG or partitions), which are no whole GPUs"
    claims = "devices of resource claims (DRA), whose kind the file does not tell"
    other = "GPUs of another resource, which --gpu-resource may name"
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"nvidia.com/mig-3g.20gb": "1"}, {}, slices),
        ({"amd.com/cpx_nps4": "1"}, {}, slices),
        ({"nvidia.com/gpu.shared": 1}, {}, shares),
        ({"aliyun.com/gpu-mem": 3}, {}, shares),
        ({"koordinator.sh/gpu-memory-ratio": 50}, {}, shares),
        ({GPU: 1, "nvidia.com/gpumem": 3000}, {}, shares),
        ({}, {"annotations": {"gpu-fraction": "0.5"}}, shares),
        ({}, {}, claims),
        ({"x.com/gpu": 1}, {}, other),
        ({"gpu.intel.com/i915": 1}, {}, other),
        ({"cpu": 1, "rdma/hca": 1}, {}, "CPU job (no GPUs)"),
        ({GPU: 1, "nvidia.com/gpumem-percentage": 100}, {}, ""),
        ({GPU: 2, "nvidia.com/mig-1g.5gb": 1}, {}, ""),
        ({"amd.com/gpu": 8}, {}, ""),
    ]
    pods, workloads = [], []
    for i, (limits, metadata, reason) in enumerate(cases):
        pods.append(pod(f"p{i}", 2, 9, **metadata))
        pods[-1]["spec"] = {"containers": [{"resources": {"limits": limits}}]}
        pods[-1]["spec"] |= {"resourceClaims": [{"name": "gpu"}]} if reason == claims else {}
        done = [condition("Admitted", 1), condition("Finished", 2)]
        template = {"metadata": metadata, "spec": pods[-1]["spec"]}
        workloads.append(workload(f"w{i}", done, None, podSets=[{"count": 1, "template": template}]))
        del workloads[-1]["status"]["admission"]
    lost = {reason: sum(one == reason for _, _, one in cases) for _, _, reason in cases if reason}
    for name, objects in (("kubernetes", pods), ("kueue", workloads)):
        jobs, report = read(tmp_path, name, *objects)
        assert jobs.jobs["gpus"].tolist() == [1, 2, 8]
        assert report.dropped == lost
        if name == "kueue":  # what the admission counts as GPUs of pods that ask for shares are shares
            workloads[5]["status"]["admission"] = {"podSetAssignments": [{"resourceUsage": {GPU: 1}, "count": 1}]}
            assert read(tmp_path, name, *objects)[1].dropped == lost
        now = json.loads(json.dumps(objects))
        for one in now:
            one["status"] = {"phase": "Running", "startTime": at(2), "conditions": [condition("Admitted", 1)]}
        (tmp_path / "now.json").write_text("\n".join(map(json.dumps, now)))
        found = snapshot_of(f"{name}:{tmp_path / 'now.json'}")
        assert [job.gpus for job in (*found.running, *found.queued)] == [1, 2, 8]
        told = {f"{count} jobs with {what} are left out" for what, count in lost.items() if "CPU" not in what}
        assert told < set(found.notes)
    jobs, report = read(tmp_path, "kubernetes", *pods)
    assert jobs.attributes["gpu_types"].tolist() == ["", "", "AMD"]
    assert report.notes == {f"jobs that hold, besides their whole GPUs, {slices}": 1}


def test_gpu_types_of_node_affinity(tmp_path: Path) -> None:
    """Terms of which one must be met add up; what restricts types otherwise, or in some terms only, is counted."""
    nvidia, gke = "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"

    def terms(*each: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
        written = [
            {"matchExpressions": [dict(zip(("key", "operator", "values"), one, strict=True)) for one in term]}
            for term in each
        ]
        must = "requiredDuringSchedulingIgnoredDuringExecution"
        return {"affinity": {"nodeAffinity": {must: {"nodeSelectorTerms": written}}}}

    zone = ("zone", "In", ["z"])
    specs: list[tuple[dict[str, Any], str]] = [
        (terms([(nvidia, "In", ["H100", "A100"]), zone]), "H100|A100"),
        (terms([(nvidia, "In", ["H100"])], [(gke, "In", ["l4"])]), "H100|l4"),
        (terms([zone]), ""),
        (terms([(nvidia, "Exists", [])]), ""),
        ({"nodeSelector": {gke: "l4"}}, "l4"),
        (terms([(nvidia, "Gt", ["1"])]), ""),
        (terms([(nvidia, "In", ["H100"])], [zone]), ""),
    ]
    pods = [pod(f"p{i}", 2, 9) for i in range(len(specs))]
    for one, (spec, _) in zip(pods, specs, strict=True):
        one["spec"] |= spec
    jobs, report = read(tmp_path, "kubernetes", *pods)
    assert jobs.attributes["gpu_types"].tolist() == [kind for _, kind in specs]
    assert report.notes == {"jobs whose node affinity restricts GPU types in a way that is not read": 2}


def test_cpus_and_memory_are_ignored_but_counted(tmp_path: Path) -> None:
    asks = [{"cpu": "8"}, {"memory": "1Gi"}, {}]
    done = [condition("Admitted", 1), condition("Finished", 2)]
    specs = [{"containers": [{"resources": {"requests": {GPU: 4, **more}}}]} for more in asks]
    pods = [{**pod(f"p{i}", 2, 9), "spec": spec} for i, spec in enumerate(specs)]
    sets = [[{"count": 1, "template": {"spec": spec}}] for spec in specs]
    works = [workload(f"w{i}", done, None, podSets=one) for i, one in enumerate(sets)]
    for name, objects in (("kubernetes", pods), ("kueue", works)):
        notes = read(tmp_path, name, *objects)[1].notes
        assert notes["jobs ask for CPUs or memory, which are ignored"] == 2


def test_nodes_with_parts_of_gpus_and_racks(tmp_path: Path) -> None:
    """Racks of one name in two blocks are two; the GPUs of nodes that share or slice them are no whole GPUs."""

    def labelled(name: str, gpus: str, resource: str = GPU, **labels: str) -> dict[str, Any]:
        one = node(name, gpus, resource)
        one["metadata"]["labels"] |= labels
        return one

    block, rack = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
    nodes = [
        *(labelled(f"n{i}", "8", **{block: f"b{i % 2}", rack: f"r{i // 4}"}) for i in range(8)),
        labelled("amd", "4", "amd.com/gpu", **{block: "b0", rack: "r9"}),
        labelled("free", "8"),
        labelled("shared", "40", **{"nvidia.com/gpu.replicas": "5"}),
        labelled("renamed", "40", "nvidia.com/gpu.shared"),
        labelled("mixed", "14", "nvidia.com/mig-1g.5gb"),
        labelled("single", "56", **{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}),
        labelled("whole", "8", **{"nvidia.com/gpu.replicas": "1", block: "b1", rack: "r1"}),
    ]
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(nodes))
    cluster, report = read_cluster(f"kubernetes:{tmp_path / 'nodes.yaml'}")
    assert cluster.gpus == 84
    assert cluster.racks["nodes"].tolist() == [2, 2, 2, 3, 1, 1]
    assert cluster.gpu_types == ("H100", "AMD")
    assert report.dropped == {
        "GPUs that share their time, each of which counts as several": 1,
        "shares of GPUs, which are no whole GPUs": 1,
        "slices of GPUs (MIG or partitions), which are no whole GPUs": 2,
    }
    assert report.notes == {"nodes without a label of their rack, which become racks of their own kinds": 1}
    names, _ = kubernetes_node_names(tmp_path / "nodes.yaml")
    assert " ".join(names) == "n0 n2 n1 n3 n4 n6 n5 n7 whole free amd"
    order = {name: i for i, name in enumerate(names)}
    assert cluster.nodes["rack"][[order[name] for name in ("n0", "n2", "n1", "n5")]].tolist() == [0, 0, 1, 3]
    for keys in (["cloud.google.com/gce-topology-block"], ["topology.kubernetes.io/rack"]):
        told = [labelled(f"n{i}", "8", **dict.fromkeys(keys, f"r{i % 3}")) for i in range(6)]
        (tmp_path / "nodes.yaml").write_text(yaml.safe_dump_all(told))
        assert len(read_cluster(f"kubernetes:{tmp_path / 'nodes.yaml'}")[0].racks) == 3
    for zone in ("topology.kubernetes.io/zone", "topology.kubernetes.io/region"):
        (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(labelled("n", "8", **{zone: "z"})))
        assert read_cluster(f"kubernetes:{tmp_path / 'nodes.yaml'}")[1].notes  # no rack


def test_quotas_of_kueue_are_tenants(tmp_path: Path) -> None:
    path = tmp_path / "quotas.json"
    objects = [
        queue("a", "16", "team", borrowingLimit="4"),
        queue("b", "8", "team", "500m", lendingLimit="2"),
        queue("solo", "3"),
        cohort("team", "all", "6"),
        {"kind": "ResourceFlavor"},
        queue("all", "1", "all"),
    ]
    path.write_text("\n".join(map(json.dumps, objects)))
    (tenants, local_queues, stopped), report = read_kueue_quotas(path)
    assert (local_queues, stopped) == ({}, {})
    assert tenants == Tenants(
        (
            Tenant("all (cohort)", quota=31, borrow=0, lend=0),
            Tenant("team", "all (cohort)", quota=30),
            Tenant("a", "team", quota=16, borrow=4),
            Tenant("b", "team", 0.5, quota=8, lend=2),
            Tenant("solo", quota=3, borrow=0, lend=0),
            Tenant("all", "all (cohort)", quota=1),
        ),
        by="cluster_queue",
        priority="priority",
    )
    assert (report.rows, report.kept) == (6, 5)
    log = tmp_path / "w.json"
    log.write_bytes(SAMPLES["kueue"][0].replace(b'"clusterQueue": "vis"', b'"clusterQueue": "a"'))
    assert set(tenants.assign(read_trace(f"kueue:{log}")[0], 0).attributes["tenant"].tolist()) == {"a"}
    for wrong, message in (
        ([cohort("x", "y"), cohort("y", "x"), queue("a", "1")], "its parents form a cycle"),
        ([queue("a", "1"), queue("a", "1")], "record 2, field 'metadata.name': 'a': this ClusterQueue occurs twice"),
        ([queue("a", "1", weight="-1")], "field 'weight': '-1'"),
        ([cohort("x")], "no ClusterQueue"),
    ):
        path.write_text("\n".join(map(json.dumps, wrong)))
        with pytest.raises(TraceError, match=re.escape(message)):
            read_kueue_quotas(path)


def test_a_cluster_queue_tells_its_own_policies(tmp_path: Path) -> None:
    """What it does not tell is the default of Kueue: BestEffortFIFO, and no preemption."""
    preemption = {
        "withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -5},
    }  # fmt: skip
    objects = [queue("a", "8", "team"), queue("b", "8", "team"), queue("c", "8", "team"), {"kind": "ResourceFlavor"}]
    objects[0]["spec"] |= {"queueingStrategy": "StrictFIFO", "preemption": preemption, "stopPolicy": "None"}
    never = dict.fromkeys(("withinClusterQueue", "reclaimWithinCohort"), "Never")
    objects[1]["spec"] |= {"queueingStrategy": "BestEffortFIFO", "preemption": never, "stopPolicy": "HoldAndDrain"}
    meta = {"name": "lq", "namespace": "vis"}
    objects.append({"kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": "a", "stopPolicy": "Hold"}})
    path = tmp_path / "quotas.json"
    path.write_text("\n".join(map(json.dumps, objects)))
    (tenants, local_queues, stopped), report = read_kueue_quotas(path)
    rules = {tenant.name: tenant.rules for tenant in tenants.tree}
    told = "queueing=strict,within=newer,reclaim=any,borrow_within=lower,threshold=-5"
    assert rules == {"team": "", "a": told, "b": "", "c": ""}
    assert local_queues == {"vis/lq": "a"}
    assert stopped == {"b": "HoldAndDrain", "vis/lq": "Hold"}
    assert (report.rows, report.kept) == (5, 4)
    for field, value, words in (
        ("queueingStrategy", "FIFO", "expected one of BestEffortFIFO, StrictFIFO"),
        ("stopPolicy", "Drain", "expected one of None, Hold, HoldAndDrain"),
    ):
        path.write_text(json.dumps({**objects[2], "spec": {**objects[2]["spec"], field: value}}))
        with pytest.raises(TraceError, match=re.escape(f"record 1, field '{field}': '{value}': {words}")):
            read_kueue_quotas(path)


def test_fields_of_queues_that_are_not_read_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "quotas.json"
    objects = [queue("a", "8"), queue("b", "8"), queue("c", "8")]
    objects[0]["spec"] |= {"namespaceSelector": {}, "flavorFungibility": {"whenCanBorrow": "Borrow"}}
    objects[1]["spec"] |= {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}, "admissionChecks": ["dws"]}
    objects[2]["spec"] |= {"brandNew": 1, "newer": "x", "admissionChecks": []}
    path.write_text("\n".join(map(json.dumps, objects)))
    assert read_kueue_quotas(path)[1].notes == {
        "queues with flavorFungibility, which is ignored": 2,
        "queues with admissionChecks, which is ignored": 1,
        "queues with a field of another name, which is ignored": 1,
    }


def test_cohorts_of_the_alpha_version(tmp_path: Path) -> None:
    """A Cohort of v1alpha1 names its parent ``parent``. GPUs of AMD count in quotas."""
    child = cohort("team", "", "2")
    child["spec"]["parent"] = "all"
    (tmp_path / "q").write_text(yaml.safe_dump_all([queue("a", "8", "team"), child, queue("b", "1", "team")]))
    quotas, _ = read_kueue_quotas(tmp_path / "q")
    assert {one.name: (one.parent, one.quota) for one in quotas.tenants.tree} == {
        "all": ("", 11),
        "team": ("all", 11),
        "a": ("team", 8),
        "b": ("team", 1),
    }
    amd = json.dumps(queue("c", "5")).replace(GPU, "amd.com/gpu")
    (tmp_path / "q").write_text(amd)
    assert [one.quota for one in read_kueue_quotas(tmp_path / "q")[0].tenants.tree] == [5]


NODES = "\n".join(json.dumps(one) for one in (node("a", "8"), node("b", "4"), node("c", None)))
QUOTAS = "\n".join(
    json.dumps(one) for one in (queue("a", "8", "t", "1"), queue("b", "4", "t"), cohort("t", "top", "1"))
)


WORKLOADS: list[tuple[dict[str, Any], str]] = [
    ({"metadata": 3}, "record 2, field 'metadata': 3: expected a JSON object"),
    ({"metadata": {"name": ""}}, "record 2, field 'metadata.name': '': an object without a name"),
    (
        {"metadata": {"name": "ok", "namespace": "vis"}},
        "record 2, field 'metadata.name': 'vis/ok': this id occurs twice",
    ),
    ({"spec": {"priority": "high"}}, "record 2, field 'priority': 'high': expected a whole number"),
    ({"spec": {"podSets": {}}}, "record 2, field 'podSets': {}: expected a list of JSON objects"),
    (
        {"status": {"conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": "9"}]}},
        "field 'lastTransitionTime': '9'",
    ),
    (
        {"status": {"admission": {"podSetAssignments": [{"resourceUsage": {GPU: "1.5"}}]}}},
        f"field '{GPU}': '1.5': expected a whole",
    ),
]
PODS: list[tuple[dict[str, Any], str]] = [
    ({"metadata": 3}, "record 2, field 'metadata': 3: expected a JSON object"),
    ({"metadata": {"name": 7}}, "record 2, field 'name': 7: expected a text"),
    ({"metadata": {"namespace": "n"}}, "record 2, field 'metadata.name': '': an object without a name"),
    ({"metadata": {"name": "b", "ownerReferences": [1]}}, "field 'ownerReferences': 1: expected a JSON object"),
    ({"metadata": {"name": "b", "labels": {"kueue.x-k8s.io/queue-name": 1}}}, "1: expected a text"),
    ({"spec": {"containers": {}}}, "record 2, field 'containers': {}: expected a list of JSON objects"),
    ({"spec": {"priority": True}}, "record 2, field 'priority': True: expected a whole number"),
    ({"spec": {"priority": 1 << 40}}, "field 'priority': 1099511627776: expected a whole number"),
    ({"spec": {"priority": 1 << 70}}, "expected a whole number"),
    (
        {"spec": {"containers": [{"resources": {"limits": {GPU: "1.5"}}}]}},
        f"field '{GPU}': '1.5': expected a whole",
    ),
    ({"status": {"startTime": "9"}}, "record 2, field 'startTime': '9': expected a time"),
    ({"status": {"containerStatuses": [{"state": []}]}}, "field 'state': []: expected a JSON object"),
    ({"status": {"\ud800": 1}}, "record 2, field 'object'"),
]


@pytest.mark.parametrize(
    ("name", "change", "message"), [*(("kueue", *one) for one in WORKLOADS), *(("kubernetes", *one) for one in PODS)]
)
def test_malformed_objects_are_refused(tmp_path: Path, name: str, change: dict[str, Any], message: str) -> None:
    good, bad = pod("a", 2, 3), pod("b", 2, 3)
    if name == "kueue":
        good, bad = workload("ok", [condition("Admitted", 1), condition("Finished", 2)]), workload("bad", [])
    with pytest.raises(TraceError, match=re.escape(message)):
        read(tmp_path, name, good, {**bad, **change})
    assert read(tmp_path, name, good, {**bad, **change}, skip_bad_rows=True)[1].kept == 1
