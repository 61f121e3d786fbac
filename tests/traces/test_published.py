"""The readers on the published files, if they are beside the repository."""

from __future__ import annotations

import csv
from datetime import datetime

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.traces import generate_workload, read_trace

pytestmark = here


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
