"""``estimate=FILE``: predicted run times are joined to the jobs of a log by their ids."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from trace_samples import WRITERS

from gpusched_env.errors import TraceError
from gpusched_env.evaluation import evaluate
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import read_trace

LOG = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n7,1,0,6,vgg,100,1\n9,1,0,6,vgg,10,1\n"


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(LOG)
    return f"tiresias:{path}"


def predictions(folder: Path, text: str) -> str:
    path = folder / "predicted.csv"
    path.write_text(text)
    return str(path)


def test_predictions_are_joined_by_the_ids_of_the_log(log: str, tmp_path: Path) -> None:
    file = predictions(tmp_path, "user,job_id,predicted_duration_min\nu,9,1.5\nu,8,3\n")
    workload, report = read_trace(log, estimate=file)
    assert math.isnan(workload.jobs["estimate_s"][0])
    assert workload.jobs["estimate_s"][1] == 90
    assert report.notes == {
        "estimates are predicted_duration_min of predicted.csv [minutes]": 1,
        "jobs without an estimate in predicted.csv": 1,
    }


def test_helios_predictions_have_an_id_and_one_other_column(log: str, tmp_path: Path) -> None:
    workload, report = read_trace(log, estimate=predictions(tmp_path, "job_id,priority\n7,5\n9,500\n"))
    assert workload.jobs["estimate_s"].tolist() == [5, 500]
    assert report.notes == {"estimates are priority of predicted.csv [seconds]": 2}


def test_a_scheduler_sees_the_predictions(log: str, tmp_path: Path) -> None:
    file = predictions(tmp_path, "job_id,estimate_s\n7,5\n9,500\n")
    scenario = get_scenario("tiny-v1").with_workload(log, parameters={"estimate": file}, profiles="unit")
    scenario = scenario.with_cluster(type(scenario.cluster).parse("1x1"))
    (claimed,) = evaluate(scenario, ["sjf:estimator=user"], [0], keep_logs=True)
    (true,) = evaluate(scenario, ["sjf"], [0], keep_logs=True)
    assert claimed.metrics["mean_jct_s"] == (100 + 110) / 2  # the long job is predicted to be short
    assert true.metrics["mean_jct_s"] == (10 + 110) / 2


def test_a_log_without_ids_is_joined_by_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log.trace"
    path.write_bytes(WRITERS["gavel"][0](3))
    file = predictions(tmp_path, "job_id,estimate\n2,5\n0,7\n")
    estimates = read_trace(f"gavel:{path}", estimate=file)[0].jobs["estimate_s"].tolist()
    assert estimates[0] == 7
    assert math.isnan(estimates[1])
    assert estimates[2] == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job_id,estimate_s\n7,x\n", "line 2, field 'estimate_s': 'x': expected a finite number of seconds"),
        ("job_id,estimate_s\n7,1\n7,2\n", "line 3, field 'job_id': '7': this id occurs twice, first in line 2"),
        ("job_id,estimate_s\n1,1\n", "none of its ids occurs in"),
        (
            "job_id,a,b\n1,1,1\n",
            "expected the columns job_id and estimate_s, or job_id and one other; found job_id, a, b",
        ),
        ("name,estimate_s\n1,1\n", "expected the columns job_id and estimate_s"),
    ],
)
def test_files_that_do_not_fit_are_refused(log: str, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_trace(log, estimate=predictions(tmp_path, text))
    assert words in str(caught.value)


def test_bad_rows_of_the_predictions_are_skipped_too(log: str, tmp_path: Path) -> None:
    file = predictions(tmp_path, "job_id,estimate_s\n7,x\n9,1\n")
    workload, report = read_trace(log, estimate=file, skip_bad_rows=True)
    assert workload.jobs["estimate_s"][1] == 1
    assert report.notes["malformed rows of predicted.csv, skipped"] == 1
    assert report.dropped == {}


def test_the_fingerprint_depends_on_the_bytes_of_the_file_not_on_its_path(log: str, tmp_path: Path) -> None:
    text = "job_id,estimate_s\n7,5\n"
    (tmp_path / "other").mkdir()
    tiny = get_scenario("tiny-v1")
    one = tiny.with_workload(log, parameters={"estimate": predictions(tmp_path, text)})
    moved = tiny.with_workload(log, parameters={"estimate": predictions(tmp_path / "other", text)})
    assert one.fingerprint() == moved.fingerprint() != tiny.with_workload(log).fingerprint()
    before = one.fingerprint()
    predictions(tmp_path, text.replace("5", "6"))
    assert one.fingerprint() != before
