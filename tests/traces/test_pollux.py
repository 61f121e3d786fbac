"""Workloads of Pollux and Sia: jobs as applications to train, and Pollux's eight-hour workloads drawn from a seed."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.traces import generate_workload, read_trace, read_workload
from gpusched_env.traces.generators.pollux_jobs import CLASSES, HOURLY, TUNED

HEADER = "name,time,application,num_replicas,batch_size\n"


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@here
def test_ideal_times_are_those_of_undisturbed_published_jobs() -> None:
    """The shortest run of each kind of job in Pollux's simulation of Tiresias, minus its 30 s for a start.

    imagenet jobs (at least 24 of 64 GPUs) are never undisturbed.
    """
    summary = json.loads((TRACES / "pollux/published/results-jobload/tiresias-1.0/summary.json").read_text())
    kinds: dict[tuple[str, int, str], tuple[float, float]] = {}
    for number in range(1, 7):
        workload = read_workload(f"pollux:{TRACES / f'pollux/workloads/workload-{number}.csv'}")
        played = Instance(Cluster([NodeGroup(16, 4, "T4")]), workload)
        labels = [played.workload.attributes[key].tolist() for key in ("original_id", "model", "batch_size")]
        gangs = played.workload.jobs["gpus"].tolist()
        for name, model, batch, gpus, ideal_s in zip(*labels, gangs, played.ideal_s.tolist(), strict=True):
            jct = summary["jcts"][f"workload-{number}"][name]
            shortest, _ = kinds.get((model, gpus, batch), (math.inf, 0.0))
            kinds[model, gpus, batch] = min(jct - 30, shortest), ideal_s
    assert len(kinds) == sum(map(len, TUNED.values()))
    for kind, (shortest, ideal_s) in kinds.items():
        if kind[0] != "imagenet":
            assert ideal_s == pytest.approx(shortest, rel=0.2), kind


def test_jobs_are_iterations_of_measured_applications(tmp_path: Path) -> None:
    rows = [
        "bert-0,100,bert,12,384",
        "cifar10-1,40,cifar10,4,768",
        "ncf-2,7,ncf,0,256",
        "gpt-3,7,gpt_pmp,8,48",
        "yolov3-4,7,yolov3,1,1024",
        "yolov3-5,7.5,yolov3,1,8",
    ]
    workload, report = read_trace("pollux:" + write(tmp_path / "workload.csv", HEADER + "\n".join(rows) + "\n\n"))
    columns = ["id", "arrival_s", "gpus", "iterations"]
    assert workload.jobs[columns].tolist() == [(0, 92.5, 12, 480.0), (1, 32.5, 4, 8168.5), (5, 0.0, 1, 103444.0)]
    assert np.isnan(workload.jobs["duration_s"]).all()
    assert workload.profiles.gpu_types == ("T4",)
    assert {key: column.tolist() for key, column in workload.attributes.items()} == {
        "original_id": ["bert-0", "cifar10-1", "yolov3-5"],
        "model": ["bert", "cifar10", "yolov3"],
        "batch_size": ["384", "768", "8"],
    }
    assert list(report.places.values()) == [[4], [5], [6]]
    assert [reason.split(" (")[0] for reason in report.dropped] == [
        "CPU job",
        "no measurements of data-parallel training of this application",
        "batch size beyond those that were trained to completion",
    ]
    more = read_workload(f"sia:{tmp_path / 'workload.csv'}")
    assert np.array_equal(more.jobs["iterations"], workload.jobs["iterations"])
    assert more.profiles.gpu_types == ("A100", "QuadroRTX6000", "RTX2080Ti", "T4")


# The generator


def drawn(seeds: int, **parameters: object) -> dict[str, float]:
    """Medians over the seeds of statistics of Pollux's workloads."""
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        workload = generate_workload("pollux", seed, 160, **parameters)
        counts = Counter(workload.attributes["model"].tolist())
        values = {name: counts[name] / 160 for name in TUNED}
        values |= {"gpus": workload.jobs["gpus"].mean(), "rate": 160 * 3600 / workload.jobs["arrival_s"].max()}
        for key, value in values.items():
            found.setdefault(key, []).append(value)
    return {key: float(np.median(values)) for key, values in found.items()}


@pytest.mark.parametrize(("realistic", "gpus"), [(False, (5.8, 7.4)), (True, (1.36, 1.4))])
def test_generated_workloads_are_like_the_published_ones(realistic: bool, gpus: tuple[float, float]) -> None:
    bounds = {
        "rate": (19.9, 20.9),
        "gpus": gpus,
        "ncf": (0.34, 0.46),
        "cifar10": (0.32, 0.42),
        "deepspeech2": (0.06, 0.11),
        "bert": (0.04, 0.09),
        "yolov3": (0.02, 0.09),
        "imagenet": (0.0, 0.03),
    }
    found = drawn(200, realistic=realistic)
    for key, (low, high) in bounds.items():
        assert low <= found[key] <= high, key


def test_relative_load_is_the_number_of_jobs_of_a_window() -> None:
    """Pollux's workload of relative load 2 holds 320 jobs in the same eight hours."""
    for load, jobs in ((0.5, 80), (2.0, 320)):
        arrival = generate_workload("pollux", 5, jobs, relative_load=load).jobs["arrival_s"]
        assert 7 < arrival[-1] / 3600 < 8
        assert np.all(np.diff(arrival) >= 0)
    gaps = np.diff(generate_workload("pollux", 5, 400).jobs["arrival_s"]) / 3600
    assert gaps[159] + gaps[319] < 1  # windows are consecutive
    whole = generate_workload("pollux", 5, 320).jobs["arrival_s"] / 3600
    assert 7.5 < whole[160] < 8.1 < 15 < whole[-1] < 16
    for load in (0.0, -1.0):
        with pytest.raises(WorkloadError, match="relative_load"):
            generate_workload("pollux", 0, 10, relative_load=load)


def test_arrivals_have_the_share_of_each_hour() -> None:
    hours = generate_workload("pollux", 3, 20_000, relative_load=125.0).jobs["arrival_s"] / 3600
    found = np.bincount(hours.astype(int), minlength=8) / 20_000
    assert found == pytest.approx(HOURLY, abs=0.012)


def test_generated_jobs_play_on_t4(tmp_path: Path) -> None:
    workload = generate_workload("pollux", 1, 50, max_gpus=8)
    assert workload.jobs["gpus"].max() <= 8
    assert Instance(Cluster([NodeGroup(16, 4, "T4")]), workload).ideal_s.min() > 0
    workload.save(tmp_path / "jobs.npz")
    assert read_workload(f"file:{tmp_path / 'jobs.npz'}").fingerprint() == workload.fingerprint()
    assert generate_workload("pollux", 1, 50, max_gpus=8).fingerprint() == workload.fingerprint()
    with pytest.raises(WorkloadError, match="GPU type 'V100'"):
        Instance(Cluster([NodeGroup(16, 4, "V100")]), workload)


@here
def test_tuned_gangs_are_those_of_the_published_workloads() -> None:
    found: dict[str, set[tuple[int, int]]] = {}
    for file in sorted((TRACES / "pollux/workloads").glob("*.csv")):
        with file.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                found.setdefault(row["application"], set()).add((int(row["num_replicas"]), int(row["batch_size"])))
    assert {name: tuple(sorted(choices)) for name, choices in found.items()} == TUNED


@here
def test_shares_are_those_of_the_log_under_the_filters_of_pollux() -> None:
    with gzip.open(TRACES / "philly/philly_jobs.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ("duration", "gpu_time", "num_gpus")
    log = [(datetime.fromisoformat(row["timestamp"]).hour, *(float(row[c]) for c in columns)) for row in rows]
    jobs = np.array([row for row in log if 2 <= row[0] < 10 and row[1] >= 60 and row[2] < 1000 * 3600])
    assert len(jobs) == 26_383
    assert np.bincount(jobs[:, 0].astype(int) - 2) / len(jobs) == pytest.approx(HOURLY, rel=1e-3)
    kind = np.searchsorted([3600, 36_000, 360_000], jobs[:, 2], side="right")
    for index, (share, _, gangs) in enumerate(CLASSES):
        mine = jobs[kind == index]
        assert len(mine) / len(jobs) == pytest.approx(share, rel=1e-3)
        mine = mine[mine[:, 1] <= 24 * 3600] if index >= 2 else mine
        sizes, counts = np.unique(mine[:, 3].astype(int), return_counts=True)
        assert dict(zip(sizes.tolist(), (counts / len(mine)).tolist(), strict=True)) == pytest.approx(gangs, rel=1e-3)
