"""The report of a read: every dropped row and every remark with its line, in a file that is whole or absent."""

from __future__ import annotations

import csv
import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError
from gpusched_env.traces import ReadReport, read_trace

SWF = "{job} 10 0 {run} {got} -1 -1 2 60 -1 1 7 -1 -1 2 -1 -1 -1\n"
LONG = "jobs that ran longer than the time they requested; both times are kept"
OTHER = "jobs whose allocated and requested processors differ; the allocated are used"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lines = [(50, 2), (-1, 2), (70, 2), (0, 2), (70, 4), (-1, 2), (61, 2), (61, 2), (61, 2), (61, 2)]
    path = tmp_path / "log.swf"
    path.write_text("; header\n" + "".join(SWF.format(job=i, run=run, got=got) for i, (run, got) in enumerate(lines)))
    return path


def test_every_place_is_written_and_a_few_are_shown(log: Path, tmp_path: Path) -> None:
    _, report = read_trace(f"swf:{log}")
    report.write_csv(tmp_path / "report.csv")
    with (tmp_path / "report.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["file"], row["unit"]) for row in rows} == {(str(log), "line")}
    assert [(int(row["number"]), row["outcome"], row["reason"]) for row in rows] == [
        (3, "dropped", "run time unknown"),
        (4, "noted", LONG),
        (5, "dropped", "zero run time"),
        (6, "noted", LONG),
        (6, "noted", OTHER),
        (7, "dropped", "run time unknown"),
        *((number, "noted", LONG) for number in (8, 9, 10, 11)),
    ]
    assert report.places == {"run time unknown": [3, 7], "zero run time": [5]}
    assert report.describe().splitlines()[-2:] == [f"  note 6: {LONG}", f"  note 1: {OTHER}"]


def test_nothing_to_report_is_a_header(tmp_path: Path) -> None:
    ReadReport("x", "y").write_csv(tmp_path / "report.csv")
    assert (tmp_path / "report.csv").read_text() == "file,unit,number,outcome,reason\n"


def test_command_writes_the_report_where_a_folder_may_be_missing(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.csv"
    result = CliRunner().invoke(app, ["traces", "read", "swf", str(log), "--output", str(target)])
    assert result.exit_code == 0, result.output
    assert len(target.read_text().splitlines()) == 11
    for wrong, message in ((log / "report.csv", "cannot be written"), (tmp_path / "report.txt", "must end in .csv")):
        result = CliRunner().invoke(app, ["traces", "read", f"swf:{log}", "--output", str(wrong)])
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr


def test_a_report_that_does_not_fit_the_disk_is_refused_and_leaves_the_old_one(log: Path, tmp_path: Path) -> None:
    _, report = read_trace(f"swf:{log}")
    target = tmp_path / "report.csv"
    target.write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # stands in for a full disk
    try:
        with pytest.raises(GpuschedError, match=r"report\.csv: cannot be written \(.+\); name another place"):
            report.write_csv(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.swf", "report.csv"]
