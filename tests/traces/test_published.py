"""The readers on the published files, if they are beside the repository."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.traces import generate_workload, read_trace

pytestmark = here

CPU = "CPU job (no GPUs)"


@pytest.mark.parametrize(
    ("name", "file", "rows", "kept", "dropped"),
    [
        ("philly", "philly/philly_jobs.csv.gz", 62_861, 62_861, {}),
        ("philly", "philly/full_log_sample_1000.csv", 1_000, 1_000, {}),
        ("philly", "philly/cluster_job_log_sample.json", 3, 2, {"no attempt with a start and an end": 1}),
        ("helios", "helios/venus_gpu_jobs_to_2020-07.csv.gz", 77_574, 77_574, {}),
        ("helios", "helios/cluster_log_sample.csv", 13, 13, {}),
        ("acme", "acme/kalos_gpu_jobs_first800.csv.gz", 800, 800, {}),
        ("acme", "acme/trace_kalos_sample.csv", 5, 5, {}),
        ("acme", "acme/trace_seren_sample.csv", 5, 5, {}),
        ("pai", "alibaba/pai2020_gpu_tasks_days00-31.csv.gz", 27_119, 27_119, {}),
        ("openb", "alibaba/openb_pod_list_default.csv.gz", 8_152, 6_203, {CPU: 1_088, "never scheduled": 861}),
        ("openb", "alibaba/openb_pod_list_cpu050.csv.gz", 7_439, 6_203, {CPU: 375, "never scheduled": 861}),
        ("openb", "alibaba/openb_pod_list_gpushare40.csv.gz", 8_152, 6_119, {CPU: 1_088, "never scheduled": 945}),
        ("openb", "alibaba/openb_pod_list_gpuspec10.csv.gz", 8_152, 6_203, {CPU: 1_088, "never scheduled": 861}),
        ("elasticflow", "philly/elasticflow_103959.csv.gz", 876, 876, {}),
        ("chronus", "chronus/trace_job_Philly_MIX2.csv.gz", 30_940, 30_746, {CPU: 194}),
        ("swf", "swf/hpc2n_extract.swf.gz", 3_170, 3_145, {"run time unknown": 25}),
        ("swf", "swf/lublin_256.swf.gz", 10_000, 10_000, {}),
    ],
)
def test_every_row_is_kept_or_counted(name: str, file: str, rows: int, kept: int, dropped: dict[str, int]) -> None:
    workload, report = read_trace(f"{name}:{TRACES / file}")
    assert (report.rows, report.kept, len(workload), report.dropped) == (rows, kept, kept, dropped)
    assert workload.jobs["arrival_s"].min() == 0
    with (TRACES / "MANIFEST.csv").open(encoding="utf-8", newline="") as manifest:
        published = {row["file"]: int(row["rows"]) for row in csv.DictReader(manifest)}[file]
    if name == "swf":  # for this file the manifest counts all lines
        lines = gzip.decompress((TRACES / file).read_bytes()).splitlines()
        rows += sum(line.startswith(b";") or not line.strip() for line in lines)
    assert rows == published


def test_kalos_run_times_leave_out_the_queue() -> None:
    """The five-column excerpt begins with the five jobs of the original layout, which has start and end."""
    path = TRACES / "acme/trace_kalos_sample.csv"
    original, report = read_trace(f"acme:{path}")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    measured = [
        (datetime.fromisoformat(row["end_time"]) - datetime.fromisoformat(row["start_time"])).total_seconds()
        for row in rows
    ]
    assert original.jobs["duration_s"].tolist() == measured
    assert report.notes == {}
    excerpt, _ = read_trace(f"acme:{TRACES / 'acme/kalos_gpu_jobs_first800.csv.gz'}")
    for column in ("arrival_s", "gpus", "duration_s"):
        assert excerpt.jobs[column][:5].tolist() == original.jobs[column].tolist()


def test_pod_list_without_times_is_refused() -> None:
    with pytest.raises(TraceError, match="'creation_time' is missing"):
        read_trace(f"openb:{TRACES / 'alibaba/openb_pod_list_multigpu20.csv.gz'}")


def test_philly_statistics_are_the_published_ones() -> None:
    workload, report = read_trace(f"philly:{TRACES / 'philly/philly_jobs.csv.gz'}")
    duration = workload.jobs["duration_s"]
    assert np.median(duration) == pytest.approx(1_622, rel=1e-3)
    assert np.quantile(duration, 0.9) == pytest.approx(10_960, rel=1e-3)
    assert report.origin.startswith("2017-09-0")


def test_venus_generator_has_the_run_times_of_the_file() -> None:
    """The file ends in July, the calibration in September."""
    real = np.sort(read_trace(f"helios:{TRACES / 'helios/venus_gpu_jobs_to_2020-07.csv.gz'}")[0].jobs["duration_s"])
    drawn = np.sort(np.rint(generate_workload("helios-venus", 0, 50_000).jobs["duration_s"]))
    at = np.unique(real)
    below = [np.searchsorted(sample, at, side="right") / len(sample) for sample in (real, drawn)]
    assert np.abs(below[0] - below[1]).max() <= 0.03


def test_published_example_job() -> None:
    workload, _ = read_trace(f"philly:{TRACES / 'philly/cluster_job_log_sample.json'}")
    assert workload.jobs["duration_s"][0] == 193_256  # the sum over two attempts that the Pollux artifact gives
    assert workload.jobs["gpus"][0] == 8
