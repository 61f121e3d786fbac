"""The generator of jobs of LLMs: Acme's shares within their bounds, and evaluations behind running pretraining jobs."""

from __future__ import annotations

import csv
import gzip

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import WorkloadError
from gpusched_env.event_log import ARRIVAL, START
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.dependencies import AFTER, DEPENDENCY
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.traces import generate_workload
from gpusched_env.traces.generators.llm_shares import FIRST, SIZES, compare, measure, measure_llm_dev


def drawn(seed: int, jobs: int, **parameters: float) -> Workload:
    return generate_workload("llm-dev", seed, jobs, **parameters)


def test_shares_are_those_of_the_log() -> None:
    """The deviations are the ones that are documented: GPU time of large gangs, and Kalos beyond its first jobs."""
    checks = {check.name: check for check in compare(measure_llm_dev())}
    far = {name for name, check in checks.items() if not check.passed}
    assert far == {
        "first 800: 64-255 GPUs, of GPU time", "first 800: 256+ GPUs, of GPU time", "Kalos: mean GPUs",
        "Kalos: median GPUs", "Kalos: pretrain, of GPU time*", "Kalos: evaluation, of jobs**",
        "Kalos: more than 8 GPUs, of jobs*", "Kalos: 256+ GPUs, of GPU time*",
    }  # fmt: skip
    assert checks["first 800: 256+ GPUs, of GPU time"].measured == pytest.approx(0.749, abs=0.12)


@here
def test_published_numbers_are_those_of_the_file() -> None:
    with gzip.open(TRACES / "acme/kalos_gpu_jobs_first800.csv.gz", "rt") as file:
        rows = [(int(row["gpu_num"]), float(row["duration"]) - float(row["queue"])) for row in csv.DictReader(file)]
    gpus, run_s = map(np.array, zip(*rows, strict=True))
    size = np.searchsorted(list(SIZES), gpus, side="right") - 1
    assert len(rows) == FIRST
    assert np.bincount(size).tolist() == [count for count, _ in SIZES.values()]
    of_time = np.bincount(size, gpus * run_s) / (gpus * run_s).sum()
    assert of_time == pytest.approx([share for _, share in SIZES.values()], abs=6e-4)
    states = {"queue": np.full(FIRST, ""), "status": np.full(FIRST, "")}
    found = measure(Workload.from_columns(np.zeros(FIRST), gpus, np.maximum(run_s, 1e-9), attributes=states))
    log = {check.name: check.log for check in compare(dict.fromkeys(measure(drawn(0, 9)), 0.0))}
    for name in ("mean GPUs", "median GPUs", "median run time [s]"):
        assert log[f"first 800: {name}"] == pytest.approx(found[name], abs=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_evaluations_follow_checkpoints_of_a_pretraining_job(seed: int) -> None:
    workload = drawn(seed, 3_000)
    jobs, queue, edges = workload.jobs, workload.attributes["queue"], workload.edges
    behind = queue == "evaluation"
    assert np.array_equal(np.flatnonzero(behind), np.sort(edges["after"]))
    assert (edges["kind"] == AFTER).all()
    assert (queue[edges["before"]] == "pretrain").all()
    assert (edges["delay_s"] % 86_400 == 0).all()
    assert (edges["delay_s"] < jobs["duration_s"][edges["before"]]).all()  # it is still running
    due_s = jobs["arrival_s"][edges["before"]] + edges["delay_s"]
    assert jobs["arrival_s"][edges["after"]] == pytest.approx(due_s)
    whole = edges[due_s < jobs["arrival_s"][-1]]  # the last batch may be cut
    _, counts = np.unique(np.stack([whole["before"], whole["delay_s"]]), axis=1, return_counts=True)
    assert counts.min() >= 10
    assert counts.max() <= 60
    pretrain = np.flatnonzero(queue == "pretrain")
    expected = np.minimum(
        np.ceil(jobs["duration_s"][pretrain] / 86_400) - 1,
        np.floor((jobs["arrival_s"][-1] - jobs["arrival_s"][pretrain]) / 86_400),
    )
    assert len(np.unique(edges[["before", "delay_s"]])) == expected.sum()
    assert (workload.attributes["priority_class"][behind] < workload.attributes["priority_class"][~behind].min()).all()


def test_a_batch_enters_the_queue_when_its_checkpoint_is_due() -> None:
    """Played: every arrival of an evaluation is a start of its pretraining job plus whole days."""
    workload = drawn(3, 600, mean_gap_s=2_000.0)
    instance = Instance(Cluster.parse("128x8"), workload)
    events = simulate(instance, make_scheduler("fifo")).events
    arrival, start = (dict(events[events["kind"] == kind][["job", "time_s"]].tolist()) for kind in (ARRIVAL, START))
    edges = instance.workload.edges
    assert len(edges) > 10
    assert [arrival[row] for row in edges["after"].tolist()] == pytest.approx(
        [start[edge["before"]] + edge["delay_s"] for edge in edges]
    )


def test_sizes_and_statuses_go_together() -> None:
    workload = drawn(1, 5_000, evaluate_every_s=36_000.0, least_batch=2, most_batch=3)
    gpus, queue, status = workload.jobs["gpus"], workload.attributes["queue"], workload.attributes["status"]
    assert set(gpus[queue == "evaluation"].tolist()) == {1, 2}
    assert set(gpus[queue == "pretrain"].tolist()) == {256, 320}
    assert np.array_equal(workload.attributes["fails"] == 1, status == "FAILED")
    early = workload.jobs["duration_s"] <= 240
    assert (status[early] == "FAILED").mean() == pytest.approx(0.75, abs=0.03)
    assert np.median(workload.jobs["duration_s"][status == "FAILED"]) < 240  # a few minutes
    small = drawn(1, 500, max_gpus=64)
    assert set(small.attributes["queue"].tolist()) == {"debug", "sft"}
    assert not any(small.attributes[DEPENDENCY])


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"max_gpus": 4}, "max_gpus is 4: the smallest"),
        ({"mean_gap_s": 0.0}, "mean_gap_s is 0.0"),
        ({"evaluate_every_s": 599.0}, "evaluate_every_s is 599.0.*600"),
        ({"least_batch": 7, "most_batch": 6}, "least_batch and most_batch are 7 and 6"),
        ({"least_batch": 1.5}, "least_batch and most_batch are 1.5"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, float], told: str) -> None:
    with pytest.raises(WorkloadError, match=told):
        drawn(0, 10, **parameters)


def test_extremes() -> None:
    """A checkpoint every ten minutes, batches of a million: as many jobs as asked for, in order."""
    for jobs in (1, 7, 400):
        for parameters in (
            {"evaluate_every_s": 600.0},
            {"max_duration_s": 1.0},
            {"least_batch": 1e6, "most_batch": 1e6},
        ):
            workload = drawn(jobs, jobs, **parameters)
            assert len(workload) == jobs
            assert (np.diff(workload.jobs["arrival_s"]) >= 0).all()
            assert (workload.edges["before"] < workload.edges["after"]).all()
