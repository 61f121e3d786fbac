"""Snapshots of Kueue and Kubernetes, bad rows of snapshots, and the nodes that files name."""

from __future__ import annotations

import json
import math
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.traces import read_cluster
from gpusched_env.twin import Pool
from gpusched_env.twin.placing import gpus_of_running
from gpusched_env.twin.snapshot import PresentJob, Snapshot, in_natural_order, iso, with_node_names
from gpusched_env.twin.snapshot_sources import recorded_nodes, snapshot_of

GPU = "nvidia.com/gpu"
EXAMPLES = int(os.environ.get("GPUSCHED_FUZZ", "40"))  # damages of each kind; GPUSCHED_FUZZ=2000 tries 10,000


def at(minute: int) -> str:
    return f"2025-03-03T09:{minute:02}:00Z"


def condition(kind: str, minute: int, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "", "lastTransitionTime": at(minute)}


def workload(name: str, conditions: list[dict[str, str]], gpus: int = 8, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"resources": {"requests": {GPU: gpus // 2}}}]}}
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "vis", "creationTimestamp": at(0)},
        "spec": {"queueName": "q", "podSets": [{"count": 2, "template": template}], **spec},
        "status": {"conditions": conditions},
    }


def pod(name: str, node: str = "", start: int | None = None, gpus: int = 4, owner: str = "", **metadata: Any) -> Any:
    owners = {"ownerReferences": [{"kind": "Job", "name": owner}]} if owner else {}
    status = {"phase": "Pending"} if start is None else {"phase": "Running", "startTime": at(start)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "n", "creationTimestamp": at(1), **owners, **metadata},
        "spec": {"containers": [{"resources": {"requests": {GPU: gpus}}}], **({"nodeName": node} if node else {})},
        "status": status,
    }


def taken(folder: Path, kind: str, *objects: object, **options: Any) -> Snapshot:
    path = folder / "now.json"
    path.write_text("\n".join(map(json.dumps, objects)))
    return snapshot_of(f"{kind}:{path}", **options)


def told(jobs: tuple[PresentJob, ...]) -> list[tuple[str, int, str, str]]:
    return [(job.id, job.gpus, job.user, "" if job.waits else iso(job.start_s)[11:]) for job in jobs]


def test_the_gpu_types_of_pods_are_those_of_their_node_selectors(tmp_path):
    pods = [pod("a", owner="j"), pod("b", owner="j"), pod("c", "n1", 2), pod("d")]
    for one, product in zip(pods, ("H100", "A100", "H100", ""), strict=True):
        one["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": product} if product else {}
    found = taken(tmp_path, "kubernetes", *pods)
    types = {job.id: job.gpu_types for job in (*found.running, *found.queued)}
    assert types == {"n/j": "H100|A100", "n/c": "H100", "n/d": ""}


def test_workloads_of_kueue(tmp_path: Path) -> None:
    """Admitted ones run, evicted ones wait again, inactive ones are held, and finished ones are gone."""
    evicted = [condition("QuotaReserved", 4, "False"), condition("Admitted", 4, "False"), condition("Evicted", 4)]
    found = taken(
        tmp_path,
        "kueue",
        workload("a", [condition("QuotaReserved", 2), condition("Admitted", 3)], maximumExecutionTimeSeconds=600),
        workload("b", [], priority=7),
        workload("c", evicted, 4, priority=-1),
        workload("d", [condition("Admitted", 3), condition("Finished", 5)]),
        workload("e", [], active=False),
        workload("f", [], 0),
        {"kind": "LocalQueue"},
    )
    assert iso(found.time_s) == "2025-03-03T09:05:00"
    assert told(found.running) == [("vis/a", 8, "vis", "09:03:00")]
    assert found.running[0].limit_s == 600
    assert told(found.queued) == [("vis/b", 8, "vis", ""), ("vis/c", 4, "vis", "")]
    assert [job.priority for job in found.queued] == [7, 0]
    assert found.queued[0].arrival_s == found.time_s - 300
    assert math.isnan(found.queued[0].limit_s)
    assert found.held == ("vis/e",)
    assert set(found.notes) == {
        "1 jobs that have ended are left out",
        "1 jobs without GPUs, or whose GPUs the file does not tell, are left out",
        "1 objects of other kinds are left out",
        "1 jobs of negative priority, which is taken as 0",
        "the file tells no time: it is taken as the last change in it; --at says when it was written",
    }


HOSTS = ["kubernetes.io/hostname"]
RACKS = [*(f"1-node-{i}" for i in (1, 2, 3)), *(f"2-node-{i}" for i in (1, 2))]
NODES = dict.fromkeys([f"rack-{one}" for one in RACKS], 2)
UNIVERSAL = [{"domainCount": 1, "valuesPerLevel": [{"universalValue": "n1"}], "podCounts": [5]}]


@pytest.mark.parametrize(
    ("assignment", "nodes"),
    [
        # v1beta1, and the ways of v1beta2 to write the same: one slice, and two with longer prefixes
        ({"levels": HOSTS, "domains": [{"values": [name], "count": 1} for name in NODES]}, NODES),
        (
            {
                "levels": HOSTS,
                "slices": [
                    {"domainCount": 5, "valuesPerLevel": [{"prefix": "rack-", "roots": RACKS}], "universalPodCount": 1}
                ],
            },
            NODES,
        ),
        (
            {
                "levels": HOSTS,
                "slices": [
                    {
                        "domainCount": len(roots),
                        "valuesPerLevel": [{"prefix": f"rack-{rack}-node-", "roots": roots}],
                        "podCounts": [1] * len(roots),
                    }
                    for rack, roots in ((1, ["1", "2", "3"]), (2, ["1", "2"]))
                ],
            },
            NODES,
        ),
        ({"levels": HOSTS, "slices": UNIVERSAL}, {"n1": 10}),
        ({"levels": ["block", "rack"], "slices": UNIVERSAL}, {}),
        ({"levels": HOSTS, "domains": [{"values": ["n1"], "count": 2}]}, {}),  # not all pods
        (None, {}),
    ],
)
def test_topology_assignments_tell_nodes(tmp_path: Path, assignment: Any, nodes: dict[str, int]) -> None:
    one = workload("a", [condition("Admitted", 3)], 4)
    one["spec"]["podSets"][0]["count"] = 5
    given = {"count": 5, "resourceUsage": {GPU: "10"}, "topologyAssignment": assignment}
    one["status"]["admission"] = {"clusterQueue": "q", "podSetAssignments": [given]}
    [job] = taken(tmp_path, "kueue", one).running
    assert job.nodes == nodes
    assert (job.gpus, job.min_nodes, job.max_nodes) == (10, 1, 5)
    for wrong in ({"levels": "x"}, {"levels": HOSTS, "slices": [{"valuesPerLevel": [{"roots": [1]}]}]}):
        given["topologyAssignment"] = wrong
        with pytest.raises(GpuschedError, match=r"field '(levels|roots)': .*: expected a list of texts"):
            taken(tmp_path, "kueue", one)


def test_pods_and_pod_groups(tmp_path: Path) -> None:
    mark = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "n", "creationTimestamp": at(0)},
        "spec": {"queue": "nlp"},
    }
    waits = {
        **group,
        "metadata": {**group["metadata"], "name": "w"},
        "spec": {"minResources": {f"requests.{GPU}": "6"}},
    }
    ended = pod("z", "n1", 2)
    ended["status"]["phase"] = "Succeeded"
    found = taken(
        tmp_path,
        "volcano",
        pod("a-0", "n10", 4, owner="a"),
        pod("a-1", "n2", 3, owner="a"),
        pod("a-2", "n2", 3, 2, owner="a"),
        pod("a-3", owner="a"),
        pod("g-0", **mark),
        pod("g-1", **mark),
        group,
        waits,
        ended,
        pod("cpu", "n1", 3, 0),
        at="2025-03-03T10:10:00+01:00",
    )
    assert iso(found.time_s) == "2025-03-03T09:10:00"
    assert told(found.running) == [("n/a", 10, "n", "09:03:00")]
    assert found.running[0].nodes == {"n10": 4, "n2": 6}
    assert found.node_names == ("n2", "n10")
    assert told(found.queued) == [("n/w", 6, "n", ""), ("n/g", 8, "n", "")]
    assert found.queued[1].arrival_s == found.time_s - 600
    assert set(found.notes) == {
        "1 jobs of which only some pods have nodes; their gang is that of these pods",
        "1 jobs without GPUs, or whose GPUs the file does not tell, are left out",
        "1 jobs that have ended are left out",
    }


def test_bad_objects_are_refused_or_skipped_and_counted(tmp_path: Path) -> None:
    bad = [
        workload("a", []),
        workload("a", []),
        workload("b", [], priority="high"),
        workload("c", [condition("Admitted", 9)]),
        workload("x" * 300, []),
    ]
    for wrong, words in (
        (bad[:2], "record 2, field 'metadata.name': 'vis/a': this object occurs twice"),
        (bad[2:3], "record 1, field 'priority': 'high'"),
        (bad[3:4], "record 1, field 'start of job vis/c': '2025-03-03T09:09:00': this is after the snapshot"),
        (bad[4:], "record 1, field 'object'"),
        ([{"kind": "Pod"}], "no job runs or waits"),
    ):
        with pytest.raises(GpuschedError, match=re.escape(words)) as caught:
            taken(tmp_path, "kueue", *wrong, at="2025-03-03T09:05:00")
        assert "now.json" in str(caught.value)
    found = taken(tmp_path, "kueue", *bad, at="2025-03-03T09:05:00", skip_bad_rows=True)
    assert told(found.queued) == [("vis/a", 8, "vis", "")]
    skipped = [note for note in found.notes if "skipped" in note]
    assert len(skipped) == 4
    assert any(note.startswith("1 rows are skipped: malformed: field 'priority'") for note in skipped)
    assert any(note.endswith("(4)") for note in skipped)


HEADER = "JOBID|USER|ACCOUNT|PARTITION|QOS|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|NODELIST|TRES_PER_NODE"
DAY = "2025-03-03T"
GOOD = f"1|bo|nlp|gpu|n|RUNNING|3:00:00|4:00:00|{DAY}08:00:00|{DAY}09:00:00|2|n[2,10]|gres/gpu:4"
WAITS = f"2|cy|nlp|gpu|n|PENDING|0:00|1:00:00|{DAY}11:00:00|N/A|1||gres/gpu:4"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("3|bo", "line 4: 2 fields where the header has 13"),
        (WAITS, "line 4, field 'JOBID': '2': this job occurs twice"),
        (WAITS.replace("2|cy", "3|cy").replace("|1:00:00|", "|x|"), "line 4, field 'TIME_LIMIT'"),
        (WAITS.replace("2|cy", "3|" + "y" * 300), "line 4: user is longer than 256 characters"),
        (
            WAITS.replace("2|cy", "3|cy").replace("T11", "T13"),
            "line 4, field 'arrival of job 3': '2025-03-03T13:00:00'",
        ),
    ],
)
def test_one_bad_line_of_squeue_does_not_lose_the_others(tmp_path: Path, row: str, words: str) -> None:
    path = tmp_path / "squeue.txt"
    path.write_text("\n".join([HEADER, GOOD, WAITS, row, WAITS.replace("2|cy", "4|cy")]))
    with pytest.raises(GpuschedError, match=re.escape(words)):
        snapshot_of(f"squeue:{path}")
    found = snapshot_of(f"squeue:{path}", skip_bad_rows=True)
    assert [job.id for job in (*found.running, *found.queued)] == ["1", "2", "4"]
    assert sum(note.startswith("1 rows are skipped: ") and note.endswith("(4)") for note in found.notes) == 1
    assert found.node_names == ("n2", "n10")


def test_sources_of_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "now.json"
    path.write_text('{"time": "2025-03-03T12:00:00", "queued": [{"id": "1", "gpus": 2}]}')
    assert snapshot_of(str(path)) == snapshot_of(f"json:{path}")
    for source, options, words in (
        ("sqeue:x", {}, "unknown format of a snapshot 'sqeue': did you mean 'squeue'"),
        ("squeue:x", {"at": "noon"}, "write YYYY-MM-DDTHH:MM:SS, in the zone of the file"),
        ("squeue:x", {"at": "2025-03-03T12:00:00Z"}, "in the zone of the file"),
        ("kueue:x", {"at": "9"}, "in UTC, or with a zone"),
        (str(path), {"at": "2025-03-03T12:00:00"}, "now.json tells it; leave out --at"),
    ):
        with pytest.raises(GpuschedError, match=re.escape(words)):
            snapshot_of(source, **options)


def test_nodes_are_ordered_as_people_number_them() -> None:
    assert in_natural_order(["n10", "n2", "m", "n02", "n1a10", "n1a9"]) == ["m", "n1a9", "n1a10", "n02", "n2", "n10"]


def test_a_cluster_file_names_the_nodes(tmp_path: Path) -> None:
    """The job holds n10, which is node 2 in the order of the files: after n2 and the nodes of the first kind."""
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=n[2,10] Gres=gpu:a100:4\nNodeName=big1 Gres=gpu:h100:8\nPartitionName=p Nodes=ALL\n")
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {GPU: gpus}}}
        for name, gpus in (("n2", 4), ("big1", 8), ("cpu", 0), ("n10", 4))
    ]
    nodes[1]["spec"] = {"unschedulable": True}
    (tmp_path / "nodes.json").write_text("\n".join(map(json.dumps, nodes)))
    job = PresentJob("a", 4, 0.0, 0.0, nodes={"n10": 4})
    other = PresentJob("b", 1, 0.0, 0.0, nodes={"gone": 1})
    bare = Snapshot(5.0, (job, other), node_names=("gone", "n10"))
    for source in (str(conf), f"slurm:{conf}", f"kubernetes:{tmp_path / 'nodes.json'}"):
        names, closed = recorded_nodes(source)
        assert names == ("n2", "n10", "big1")
        assert closed == (("big1",) if "nodes.json" in source else ())  # slurm.conf tells no states
        named = with_node_names(bare, names)
        cluster, _ = read_cluster(source if ":" in source else f"slurm:{source}")
        assert gpus_of_running(Pool("p", cluster.groups), named, list(named.running)) == [(4, 5, 6, 7), (0,)]
        assert named.notes == ("1 running jobs are on nodes that the cluster does not have, such as gone",)
    assert recorded_nodes("3x4") == ((), ())
    assert recorded_nodes("helios:x.csv") == ((), ())
    still = Snapshot(5.0, (PresentJob("a", 4, 0.0, 0.0),))
    assert with_node_names(still, ("n2",)) is still
    assert Cluster.parse("1x4").gpus == 4


def test_a_forecast_from_kueue(tmp_path: Path) -> None:
    past = []
    for i in range(60):
        done = [condition("Admitted", i % 5), condition("Finished", 10 + i % 40)]
        past.append(workload(f"p{i}", done, 2 + 2 * (i % 3)))
    (tmp_path / "past.json").write_text("\n".join(map(json.dumps, past)))
    now = [workload(f"r{i}", [condition("Admitted", 50 + i)], 4) for i in range(3)]
    now += [workload(f"q{i}", [], 4) for i in range(2)]
    (tmp_path / "now.json").write_text("\n".join(map(json.dumps, now)))
    command = ["twin", "forecast", "--snapshot", f"kueue:{tmp_path / 'now.json'}", "--at", "2025-03-03T10:00:00Z"]
    command += ["--history", f"kueue:{tmp_path / 'past.json'}", "--cluster", "3x4", "--futures", "20", "--no-arrivals"]
    command += ["--scheduler", "slurm"]
    out = tmp_path / "out.csv"
    shown = CliRunner().invoke(app, [*command, "--output", str(out)])
    assert shown.exit_code == 0, shown.output
    rows = out.read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["job", "vis/q0", "vis/q1"]
    # the cluster is full, and all past runs took less than 50 minutes: all start within an hour, and not at once
    assert all(row.split(",")[2] == "1.0000" and float(row.split(",")[5]) > 0 for row in rows[1:])


NOW = {
    "kueue": [workload("a", [condition("Admitted", 3)]), workload("b", [], priority=7, maximumExecutionTimeSeconds=60)],
    "kubernetes": [pod("a-0", "n10", 4, owner="a"), pod("a-1", "n2", 3, owner="a"), pod("b")],
    "volcano": [
        {
            "kind": "PodGroup",
            "metadata": {"name": "w", "namespace": "n", "creationTimestamp": at(0)},
            "spec": {"minResources": {GPU: "6"}},
        },
        pod("b", "n1", 2),
    ],
}
WRONG = [
    "null", "-1", "1e400", '"x"', "[]", "{}", "true", '"' + "x" * 300 + '"', '"\\u0000"', "9" * 30, '""', "NaN",
    "\u2028\u00e9",
]  # fmt: skip
VALUE = re.compile(r'"[^"]*"(?!\s*:)|\d+|\[\]|\{\}|true')
CELL = re.compile(r"[^|\n]+")


@pytest.mark.parametrize("kind", [*NOW, "squeue"])
def test_damaged_snapshots_are_refused_or_read(tmp_path: Path, kind: str) -> None:
    for seed in range(EXAMPLES):
        rng = random.Random(seed)
        text = "\n".join(map(json.dumps, NOW.get(kind, []))) or "\n".join([HEADER, GOOD, WAITS, ""])
        for _ in range(rng.randint(1, 3)):
            found = (CELL if kind == "squeue" else VALUE).finditer(text)
            begin, end = rng.choice([one.span() for one in found] or [(0, 0)])
            value = rng.choice(WRONG).strip('"') if kind == "squeue" else rng.choice(WRONG)
            text = text[:begin] + value + text[end:] if rng.random() < 0.8 else text[: rng.randint(0, len(text))]
        path = tmp_path / "damaged"
        path.write_text(text)
        complaint = str(path)
        try:
            snapshot_of(f"{kind}:{path}", None, 0, GPU, rng.random() < 0.5)
        except GpuschedError as error:
            complaint = str(error)
        assert str(path) in complaint, seed
