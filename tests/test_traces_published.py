"""The readers on the published files, when they lie beside the repository."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.traces import generate_workload, read_trace

TRACES = Path(__file__).parents[2] / "shared" / "traces"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="published traces are not here: ../shared/traces is absent")


@pytest.mark.parametrize(
    ("name", "file", "rows", "kept", "dropped"),
    [
        ("philly", "philly/philly_jobs.csv.gz", 62_861, 62_861, {}),
        ("philly", "philly/full_log_sample_1000.csv", 1_000, 1_000, {}),
        ("philly", "philly/cluster_job_log_sample.json", 3, 2, {"no attempt with a start and an end": 1}),
        ("helios", "helios/venus_gpu_jobs_to_2020-07.csv.gz", 77_574, 77_574, {}),
        ("helios", "helios/cluster_log_sample.csv", 13, 13, {}),
    ],
)
def test_every_row_is_kept_or_counted(name: str, file: str, rows: int, kept: int, dropped: dict[str, int]) -> None:
    workload, report = read_trace(f"{name}:{TRACES / file}")
    assert (report.rows, report.kept, len(workload), report.dropped) == (rows, kept, kept, dropped)
    assert workload.jobs["arrival_s"].min() == 0


def test_philly_statistics_are_the_published_ones() -> None:
    workload, report = read_trace(f"philly:{TRACES / 'philly/philly_jobs.csv.gz'}")
    duration = workload.jobs["duration_s"]
    assert np.median(duration) == pytest.approx(1_622, rel=1e-3)
    assert np.quantile(duration, 0.9) == pytest.approx(10_960, rel=1e-3)
    assert report.origin.startswith("2017-09-0")


def test_venus_generator_has_the_run_times_of_the_file() -> None:
    """The file ends in July, the calibration in September."""
    real = np.sort(read_trace(f"helios:{TRACES / 'helios/venus_gpu_jobs_to_2020-07.csv.gz'}")[0].jobs["duration_s"])
    drawn = np.sort(np.rint(generate_workload("venus", 0, 50_000).jobs["duration_s"]))
    at = np.unique(real)
    below = [np.searchsorted(sample, at, side="right") / len(sample) for sample in (real, drawn)]
    assert np.abs(below[0] - below[1]).max() <= 0.03


def test_published_example_job() -> None:
    workload, _ = read_trace(f"philly:{TRACES / 'philly/cluster_job_log_sample.json'}")
    assert workload.jobs["duration_s"][0] == 193_256  # the sum over two attempts that the Pollux artifact gives
    assert workload.jobs["gpus"][0] == 8


def test_reading_is_fast() -> None:
    began = time.perf_counter()
    read_trace(f"philly:{TRACES / 'philly/philly_jobs.csv.gz'}")
    assert time.perf_counter() - began < 3.0  # 0.3 s on a laptop core
