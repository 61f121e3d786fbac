"""GPU types that jobs ask for: the nodes that they may use, alone and inside partitions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Semantics, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.cli.parsing import chosen_scenario
from gpusched_env.errors import ScenarioError, SchedulerError, WorkloadError
from gpusched_env.event_log import RESUME, START
from gpusched_env.metrics import validate
from gpusched_env.problem.partitions import Partition, Partitions
from gpusched_env.problem.workload import GPU_TYPES, Profiles
from gpusched_env.simulator import simulate

CLUSTER = "1x8@A100,2x4@T4,1x4@H100"
TYPES = ("A100", "T4", "H100")
NODES = {"A100": {0}, "T4": {1, 2}, "H100": {3}}
FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)


def jobs_of(asked: list[str], gpus: list[int], duration_s: list[float], **attributes: np.ndarray) -> Workload:
    told = {GPU_TYPES: np.array(asked)} | attributes
    return Workload.from_columns(
        np.zeros(len(gpus)), gpus, duration_s, estimate_s=duration_s, attributes=told, profiles=Profiles.unit(*TYPES)
    )


def starts_of(instance: Instance, spec: str) -> dict[int, tuple[float, set[int]]]:
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    nodes = instance.cluster.node_of_gpu
    return {
        int(event["job"]): (float(event["time_s"]), set(nodes[log.gang(number)].tolist()))
        for number, event in enumerate(log.events)
        if event["kind"] in (START, RESUME)
    }


@pytest.mark.parametrize("spec", ["fifo-skip", "slurm", "srtf"])
def test_a_job_runs_only_on_the_types_that_it_asks_for(spec: str) -> None:
    asked = ["T4", "T4", "a100|H100", ""]
    instance = Instance(Cluster.parse(CLUSTER), jobs_of(asked, [8, 4, 12, 4], [10.0] * 4), semantics=FREE)
    starts = starts_of(instance, spec)
    assert (starts[2], instance.ignored) == ((0.0, {0, 3}), {})
    assert sorted(starts[row][0] for row in (0, 1, 3)) in ([0.0, 10.0, 10.0], [0.0, 0.0, 10.0])
    assert starts[0][1] == {1, 2} > starts[1][1]


def test_types_and_partitions_meet() -> None:
    rules = Partitions((Partition("left", nodes="0-1"), Partition("all", default=True)))
    where = {"partition": np.array(["left", "all"])}
    instance = Instance(
        Cluster.parse(CLUSTER), jobs_of(["T4", "T4"], [4, 8], [10.0, 10.0], **where), semantics=FREE, partitions=rules
    )
    assert starts_of(instance, "fifo") == {0: (0.0, {1}), 1: (10.0, {1, 2})}
    with pytest.raises(WorkloadError, match=r"job 0: it wants 8 GPUs of the types T4, and its partition 'left' has"):
        Instance(Cluster.parse(CLUSTER), jobs_of(["T4"], [8], [10.0], partition=np.array(["left"])), partitions=rules)


def test_of_several_partitions_those_without_the_type_do_not_count() -> None:
    rules = Partitions((Partition("left", nodes="0-1"), Partition("right", nodes="2-3")))
    several = jobs_of(["H100"], [4], [10.0], partition=np.array(["left,right"]))
    instance = Instance(Cluster.parse(CLUSTER), several, semantics=FREE, partitions=rules)
    assert starts_of(instance, "slurm") == {0: (0.0, {3})}


def test_types_that_no_node_has_are_ignored_and_counted() -> None:
    asked = ["V100M32", "", "G2|P100", "T4"]
    plain = Instance(Cluster.parse("2x4@T4"), jobs_of(["", "", "", ""], [4] * 4, [10.0] * 4), semantics=FREE)
    for cluster in ("2x4@T4", "1x4@K80,1x4@RTX"):
        machines = Cluster.parse(cluster)
        jobs = jobs_of(asked, [4] * 4, [10.0] * 4)
        told = Workload(jobs.jobs, Profiles.unit(*machines.gpu_types), attributes=jobs.attributes)
        instance = Instance(machines, told, semantics=FREE)
        assert instance.node_sets is None  # so every scheduler plays it
        assert list(instance.ignored.values()) == [2 if "T4" in machines.gpu_types else 3]
        log = simulate(instance, make_scheduler("dally"))
        assert log.digest() == simulate(plain, make_scheduler("dally")).digest()


def test_a_type_that_the_cluster_lacks_binds_no_job_while_those_that_it_has_do() -> None:
    jobs = jobs_of(["T4|P100", "P100"], [8, 20], [10.0, 10.0])
    instance = Instance(Cluster.parse(CLUSTER), jobs, semantics=FREE)
    assert starts_of(instance, "fifo") == {0: (0.0, {1, 2}), 1: (10.0, {0, 1, 2, 3})}
    assert instance.ignored == {"jobs ask for a GPU type other than A100, T4, H100": 1}


def test_a_job_larger_than_the_nodes_of_its_types_is_an_error() -> None:
    with pytest.raises(WorkloadError, match=r"job 0: it wants 9 GPUs of the types T4\|H100"):
        Instance(Cluster.parse("1x8@A100,1x4@T4,1x4@H100"), jobs_of(["T4|H100"], [9], [1.0]))


def test_a_scheduler_that_chooses_machines_itself_refuses_types_with_the_remedy() -> None:
    instance = Instance(Cluster.parse(CLUSTER), jobs_of(["T4"], [1], [1.0]))
    with pytest.raises(SchedulerError, match=r"GPU types that jobs ask for.*ignore_types"):
        simulate(instance, make_scheduler("dally"))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), spec=st.sampled_from(["fifo-skip", "fifo-easy", "slurm", "tiresias", "las", "kueue"]))
def test_every_gang_lies_on_nodes_of_its_types(data: st.DataObject, spec: str) -> None:
    asked, gpus = [], []
    for _ in range(data.draw(st.integers(1, 10))):
        names = data.draw(st.lists(st.sampled_from(TYPES), max_size=2, unique=True))
        room = sum(8 if name in ("A100", "T4") else 4 for name in names) or 20
        asked.append("|".join(names))
        gpus.append(data.draw(st.integers(1, room)))
    duration_s = [float(data.draw(st.integers(1, 60))) for _ in asked]
    instance = Instance(Cluster.parse(CLUSTER), jobs_of(asked, gpus, duration_s), semantics=FREE)
    for job, (_, nodes) in starts_of(instance, spec).items():
        names = asked[job].split("|") if asked[job] else TYPES
        assert nodes <= set().union(*(NODES[name] for name in names))


def test_elastic_jobs_cannot_ask_for_types() -> None:
    from gpusched_env.traces.elastic import elastic_jobs

    jobs = elastic_jobs(jobs_of(["T4"], [2], [60.0]), rule="amdahl", serial=0.1)
    with pytest.raises(ScenarioError, match="ignore_types"):
        Instance(Cluster.parse(CLUSTER), jobs)


def pod(name: str, product: str) -> dict[str, Any]:
    done = {"state": {"terminated": {"startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T01:00:00Z"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu.product": product} if product else {},
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}],
        },
        "status": {"phase": "Succeeded", "startTime": "2026-01-01T00:00:10Z", "containerStatuses": [done]},
    }


def test_pods_start_on_the_product_that_their_selector_names(tmp_path: Path) -> None:
    pods = [pod("a", "H100"), pod("b", "H100"), pod("c", "T4"), pod("d", "")]
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}), encoding="utf-8")
    scenario = chosen_scenario(None, f"kubernetes:{tmp_path / 'pods.json'}", CLUSTER)
    starts = starts_of(scenario.instance(0), "fifo-skip")
    assert [starts[row][1] for row in range(3)] == [{3}, {3}, starts[2][1] & {1, 2}]
    assert starts[1][0] > starts[0][0] == starts[2][0] == starts[3][0]
    free = chosen_scenario(
        None, f"kubernetes:{tmp_path / 'pods.json'}", CLUSTER, {"ignore_types": True, "ignore_nodes": True}
    ).instance(0)
    assert free.node_sets is None
    assert {begin for begin, _ in starts_of(free, "fifo-skip").values()} == {0.0}
    assert free.node_counts is None
    assert starts_of(free, "dally")  # which refuses jobs that ask for nodes
