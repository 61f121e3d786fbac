"""``traces describe``: its numbers equal those of the jobs, its figures are drawn, and its errors name the remedy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers import ink
from typer.testing import CliRunner, Result

from gpusched_env.cli import app
from gpusched_env.evaluation.workload_plots import PANELS
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import generate_workload
from gpusched_env.traces.description import by_class, demanded_gpus, hour_of_week, largest_groups, with_run_times

# Submissions on Monday, 9 October 2017: minute, seconds, GPUs, virtual cluster
ROWS = [(0, 3600, 1, "a"), (0, 7200, 8, "[b]"), (60, 1800, 1, "a"), (120, 60, 2, "a"), (180, 120, 4, "c")]


def gpusched(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def cells(result: Result) -> dict[str, list[str]]:
    """Rows of all tables: first column -> other columns; the first row of a name counts."""
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")] for line in result.stdout.splitlines() if "│" in line]
    return {row[0]: row[1:] for row in reversed(rows)}


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    rows = "".join(f"2017-10-09 {m // 60:02d}:{m % 60:02d}:00,{s},{g},0,{vc}\n" for m, s, g, vc in ROWS)
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + rows)
    return f"philly:{path}"


def test_the_numbers_are_those_of_the_jobs(log: str) -> None:
    result = gpusched("traces", "describe", log, "--cluster", "2x8")
    rows = cells(result)
    assert rows["jobs"] == ["5"]
    assert rows["from the first to the last arrival"] == ["3.00 h"]
    assert rows["arrivals per hour"] == ["1.67"]
    assert rows["arrivals in the busiest hour"] == ["2"]
    assert rows["gaps up to 10 s"] == ["25.0%"]
    gpu_seconds = 3600 + 8 * 7200 + 1800 + 2 * 60 + 4 * 120
    assert rows["GPUs demanded at once (work / time of arrivals)"] == [f"{gpu_seconds / 10800:.2f}"]
    assert rows["most GPUs in use if no job waited"] == ["9"]
    assert rows["load on 16 GPUs (work / GPUs / time of arrivals)"] == [f"{gpu_seconds / 10800 / 16:.3f}"]
    share = f"{8 * 7200 / gpu_seconds:.1%}"
    assert rows["8"] == ["1", "20.0%", share, *["2.00 h"] * 5]
    assert rows["[b]"] == ["1", "20.0%", share]  # not markup
    assert rows["a"] == ["3", "60.0%", f"{(3600 + 1800 + 120) / gpu_seconds:.1%}"]
    assert rows["run time p50 [s]"][:2] == ["1,800", "1,415"]
    assert rows["correlation of hours of the day"][0] != "-"  # the log has dates
    assert "compared with Philly, 68,510 jobs" in result.stdout


def test_jobs_are_chosen_before_they_are_described(log: str) -> None:
    options = (
        "--where",
        "virtual_cluster=a,c",
        "--max-gpus",
        "2",
        "--window",
        "60:",
        "--cluster",
        "1x8",
        "--load",
        "0.5",
    )
    result = gpusched("traces", "describe", log, *options)
    rows = cells(result)
    assert rows["jobs"] == ["2"]
    assert rows["load on 8 GPUs (work / GPUs / time of arrivals)"] == ["0.500"]
    assert "dropped 2: outside the window" in result.stdout
    assert "dropped 1: more than 2 GPUs" in result.stdout
    assert "first submission 2017-10-09T01:00:00 is time 0" in result.stdout


def test_jobs_given_by_iterations_have_run_times_on_a_cluster() -> None:
    source = ("traces", "describe", "synthetic:ring-all-reduce", "--jobs", "160")
    without = cells(gpusched(*source))
    assert without["work"] == ["given by iterations: run times and load need a cluster (--cluster)"]
    assert without["all"][:3] == ["160", "100.0%", "-"]
    assert without["from the first to the last arrival"] == ["0 s"]
    on = gpusched(*source, "--cluster", "20x32")
    assert "run time p50" in on.stdout
    workload = generate_workload("ring-all-reduce", 0, 160)
    timed = with_run_times(workload, Cluster.parse("20x32"))
    ideal = Instance(Cluster.parse("20x32"), workload).ideal_s
    assert timed.jobs["duration_s"].tolist() == ideal.tolist()
    assert sum(part.gpu_time for part in by_class(timed)[:-1]) == pytest.approx(1)


def test_generators_are_compared_with_their_logs() -> None:
    own = gpusched("traces", "describe", "synthetic:pai", "--jobs", "200")
    assert "28 of 28 within their bounds" in own.stdout
    assert "medians of 40 draws of 50,000 jobs" in own.stdout
    other = gpusched("traces", "describe", "synthetic:poisson", "--calibration", "pai")
    rows = cells(other)
    assert rows["cv of gaps"][-1] == rows["run time p50 [s]"][-1] == "no"
    assert rows["correlation of hours of the day"][0] == "-"
    assert "compared with" not in gpusched("traces", "describe", "synthetic:poisson").stdout


def test_a_log_is_compared_with_its_calibration_unchanged(tmp_path: Path) -> None:
    """Also where format and calibration have the same name, as ``pai`` does."""
    path = tmp_path / "log.csv"
    path.write_text("job_id,arrival_s,service_sec,gpu_count\n" + "".join(f"j{i},{i}0,20.0,1\n" for i in range(9)))
    result = gpusched("traces", "describe", f"pai:{path}")
    assert "these jobs; the bounds are for medians of many draws" in result.stdout
    assert cells(result)["run time p50 [s]"][:2] == ["20.0", "618"]


def test_figures(log: str, tmp_path: Path) -> None:
    source = ("traces", "describe", log, "--cluster", "2x8", "--plot")
    for number in (1, 2):
        assert gpusched(*source, tmp_path / f"{number}.svg").exit_code == 0
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()
    drawn = (tmp_path / "1.svg").read_text()
    for label in (
        "arrivals [jobs/h]",
        "demand [GPU]",
        "run time (log scale)",
        "cluster: 16",
        "Poisson arrivals",
        "virtual cluster",
    ):
        assert f"<!-- {label}" in drawn
    assert gpusched(*source, tmp_path / "folder").exit_code == 0
    names = {f"{panel}.png" for panel in PANELS}
    assert len(names) == 8
    assert {path.name for path in (tmp_path / "folder").iterdir()} == names
    for name in names:
        assert ink(tmp_path / "folder" / name) > 0.005, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--calibration", "venus"], "did you mean 'helios-venus'"),
        (["--load", "0.9"], "give --cluster too"),
        (["--cluster", "1x4"], "demands 8 GPUs but the cluster has 4"),
        (["--plot", "a.gif"], "must end in .png or .svg or .pdf"),
        (["--window", "60"], "START:STOP"),
        (["--window", "x:"], "START:STOP"),
        (["--window", "0:inf"], "leave stop_s out"),
        (["--where", "user=ann"], "unknown attribute 'user'"),
        (["--where", "virtual_cluster"], "ATTRIBUTE=VALUE"),
        (["--sample", "1"], "at least 2"),
    ],
)
def test_wrong_input_is_one_line(log: str, options: list[str], message: str) -> None:
    result = gpusched("traces", "describe", log, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_errors_of_plot(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    result = gpusched("traces", "describe", log, "--plot", tmp_path / "file")
    assert "this is a file; name a folder" in result.stderr
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = gpusched("traces", "describe", log, "--plot", tmp_path / "folder")
    assert result.exit_code == 2
    assert result.stderr == "gpusched: --plot needs matplotlib: pip install 'gpusched-env[plot]'\n"


def test_commands_play_the_chosen_jobs(log: str) -> None:
    options = ("--where", "virtual_cluster!=c", "--jobs", "3", "--load", "0.7", "--cluster", "1x8")
    result = gpusched("run", "--scheduler", "fifo", "--workload", log, *options)
    assert result.exit_code == 0, result.output
    assert "virtual_cluster!=c + jobs 3 + load 0.7 + 1x8" in result.stdout
    assert re.search(r"^│ jobs +│ +3 ", result.stdout, re.MULTILINE)
    own = gpusched("compare", "--scenario", "tiny-v1", "--schedulers", "fifo", "--seeds", "1", "--jobs", "5")
    assert "tiny-v1 + jobs 5" in own.stdout
    cut = gpusched("run", "--scheduler", "fifo", "--scenario", "tiny-v1", "--sample", "0.5")
    assert "sample applies to logs only" in cut.stderr


def test_demand_at_once() -> None:
    times, gpus = demanded_gpus(Workload.from_columns([0, 5, 10], [1, 2, 4], [10.0, 10.0, 2.0]))
    assert times.tolist() == [0, 5, 10, 12, 15]
    assert gpus.tolist() == [1, 3, 6, 2, 0]


def test_groups_are_ordered_by_jobs() -> None:
    users = {"user": np.array(["c", "a", "b", "a"])}
    workload = Workload.from_columns([0] * 4, [1, 1, 1, 5], [1.0] * 4, attributes=users)
    parts, count = largest_groups(workload, "user", 2)
    assert [(part.name, part.jobs, part.share, part.gpu_time) for part in parts] == [
        ("a", 2, 0.5, 0.75),
        ("b", 1, 0.25, 0.125),
    ]
    assert count == 3


def test_hours_of_the_week() -> None:
    assert hour_of_week("2017-10-09T00:00:00") == 0  # a Monday
    assert hour_of_week("2020-03-18T04:30:00") == 48 + 4.5
    assert hour_of_week("2023-05-21T23:00:00+08:00") == 167
    assert np.isnan(hour_of_week(""))
