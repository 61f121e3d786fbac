"""Hydra's job list: a run time for each GPU type."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest
from helpers import finish
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.traces import read_trace, read_workload

FILE = TRACES / "hydra" / "20_ddl.csv.gz"
TYPES = ("A100", "V100", "GTX2080Ti")
HEADER = ",job_name,norm_job_submit_time,ddl,A100,V100,GTX2080Ti\n"
LOG = HEADER + "0,a,0,inf,1020.0,1540.0,2595.0\n1,b,10,2500.0,5384.0,8235.0,10278.0\n2,c,5,inf,0,1,2\n"


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return f"hydra:{path}"


@pytest.mark.parametrize(
    ("gpu_type", "seconds"), [("A100", [1020, 5384]), ("V100", [1540, 8235]), ("GTX2080Ti", [2595, 10278])]
)
def test_run_times_are_those_of_the_gpu_type(tmp_path: Path, gpu_type: str, seconds: list[float]) -> None:
    workload, report = read_trace(write(tmp_path / "log", LOG))
    assert report.dropped == {"zero run time": 1}
    instance = Instance(Cluster([NodeGroup(1, 2, gpu_type)]), workload)
    assert instance.ideal_s.tolist() == pytest.approx(seconds, rel=4e-16)
    assert finish(instance, "fifo") == pytest.approx([seconds[0], 10 + seconds[1]], rel=4e-16)


def test_deadlines_count_from_the_submission(tmp_path: Path) -> None:
    workload = read_workload(write(tmp_path / "log", LOG))
    assert workload.attributes["deadline_s"].tolist() == [np.inf, 2490]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,a,0,inf,1,2\n", "line 2: 6 fields"),
        ("0,a,0,never,1,2,3\n", "line 2, field 'ddl'"),
        ("0,a,0,inf,1,-2,3\n", "line 2, field 'V100'"),
        ("0,a,0,inf,1e-320,3,3\n", "line 2, field 'A100': '1e-320': cannot be compared"),
        ("0,a,0,inf,1,2,3\n0,a,0,inf,1,2,3\n", "line 3, field 'job_name'"),
    ],
)
def test_malformed_rows_are_refused(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(write(tmp_path / "log", HEADER + row))


@here
def test_published_file() -> None:
    workload, report = read_trace(f"hydra:{FILE}")
    with gzip.open(FILE, "rt", newline="") as stream:
        published = np.array([[float(row[name]) for name in TYPES] for row in csv.DictReader(stream)])
    assert (report.rows, report.kept) == (5_000, 5_000)
    assert set(workload.jobs["gpus"].tolist()) == {1}
    times = workload.jobs["iterations"][:, None] * workload.profiles.compute_s[workload.jobs["profile"]]
    np.testing.assert_allclose(times, published, rtol=2.3e-16, atol=0)
    assert np.isfinite(workload.attributes["deadline_s"]).sum() == 985
