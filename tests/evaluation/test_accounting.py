"""A run written as the log of a cluster: what is read back is the same workload, and its run the same event log."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import RunResult, evaluate
from gpusched_env.evaluation.accounting import FORMATS, SACCT, export_run
from gpusched_env.event_log import PREEMPT
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.traces import read_trace

READER = {"sacct": "slurm", "swf": "swf", "csv": "csv"}


def scenario_of(source: str) -> Scenario:
    tiny = get_scenario("tiny-v1").with_workload(source, profiles="unit")
    tiny = tiny.with_cluster(Cluster.parse("2x4@A100,2x4/2@H100"))
    return tiny.replace(semantics=dataclasses.replace(tiny.semantics, checkpoint_s=7.0, restore_s=11.0))


def play(scenario: Scenario, scheduler: str) -> RunResult:
    return evaluate(scenario, [scheduler], [0], keep_logs=True)[0]


def drawn(folder: Path, seed: int, part_s: float = 1.0, jobs: int = 60) -> str:
    """Save jobs whose times are multiples of ``part_s``; several arrive together."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.integers(0, 3, jobs) * rng.integers(0, 60, jobs)) * part_s
    estimate = np.where(rng.random(jobs) < 0.3, np.nan, rng.integers(1, 4_000, jobs))
    workload = Workload.from_columns(
        arrival - arrival[0],
        rng.integers(1, 9, jobs),
        rng.integers(1, 2_000, jobs) * part_s,
        estimate_s=estimate,
        attributes={"user": np.array([f"u{i % 5}" for i in range(jobs)]), "qos": np.array(["a|b"] * jobs)},
    )
    workload.save(folder / "jobs.npz")
    return f"file:{folder / 'jobs.npz'}"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("scheduler", ["fifo", "srtf", "tiresias"])
def test_what_is_read_back_replays_with_an_equal_digest(tmp_path: Path, form: str, scheduler: str) -> None:
    for seed in range(3):
        scenario = scenario_of(drawn(tmp_path, seed, part_s=0.25 if form == "csv" else 1.0))
        first = play(scenario, scheduler)
        assert first.log is not None
        path = tmp_path / f"run.{form}"
        assert export_run(scenario.instance(0), first.log, form, path) == []
        again = scenario.with_workload(f"{READER[form]}:{path}", profiles="unit")
        assert play(again, scheduler).digest == first.digest
        before, after = scenario.instance(0).workload, again.instance(0).workload
        for name in ("arrival_s", "gpus", "duration_s", "estimate_s"):
            np.testing.assert_array_equal(before.jobs[name], after.jobs[name])
        if form != "swf":  # it numbers the users
            assert before.attributes["user"].tolist() == after.attributes["user"].tolist()


def test_a_csv_keeps_the_gpu_types_that_jobs_ask_for(tmp_path: Path) -> None:
    asked = ["H100", "", "A100", "H100|A100"]
    jobs = Workload.from_columns(
        [0.0, 1.0, 2.0, 3.0], [8, 2, 8, 4], [50.0] * 4, attributes={"gpu_types": np.array(asked)}
    )
    jobs.save(tmp_path / "jobs.npz")
    scenario = scenario_of(f"file:{tmp_path / 'jobs.npz'}")
    first = play(scenario, "fifo")
    assert first.log is not None
    export_run(scenario.instance(0), first.log, "csv", tmp_path / "run.csv")
    again = scenario.with_workload(f"csv:{tmp_path / 'run.csv'}", profiles="unit")
    assert again.instance(0).workload.attributes["gpu_types"].tolist() == asked
    assert play(again, "fifo").digest == first.digest


def test_preemption_was_part_of_the_round_trip(tmp_path: Path) -> None:
    log = play(scenario_of(drawn(tmp_path, 0)), "srtf").log
    assert log is not None
    assert np.count_nonzero(log.events["kind"] == PREEMPT) > 5


def test_a_row_of_sacct(tmp_path: Path) -> None:
    """Two jobs on one machine of eight GPUs; the short one preempts the other for 100 s, and both costs are paid."""
    workload = Workload.from_columns([0, 50], [8, 8], [200.0, 100.0], attributes={"user": np.array(["ann", "b|c"])})
    workload.save(tmp_path / "jobs.npz")
    scenario = scenario_of(f"file:{tmp_path / 'jobs.npz'}").with_cluster(Cluster.parse("1x8@H100"))
    result = play(scenario, "srtf")
    assert result.log is not None
    export_run(scenario.instance(0), result.log, "sacct", tmp_path / "t", "2025-03-03T09:00:00")
    header, one, two = (tmp_path / "t").read_text().splitlines()
    assert header == SACCT
    # 50 s of progress, 7 s of checkpoint, 100 s of the other job, 11 s of restoring, 150 s of progress
    assert one == (
        "1|1|ann||||2025-03-03T09:00:00|2025-03-03T09:00:00|2025-03-03T09:00:00|2025-03-03T09:05:18|00:03:20|00:01:58|"
        "COMPLETED|UNLIMITED|gres/gpu=8|gres/gpu=8,gres/gpu:H100=8,node=1|1|n[0]"
    )
    assert two == (
        "2|2|b_c||||2025-03-03T09:00:50|2025-03-03T09:00:50|2025-03-03T09:00:57|2025-03-03T09:02:37|00:01:40|00:00:00|"
        "COMPLETED|UNLIMITED|gres/gpu=8|gres/gpu=8,gres/gpu:H100=8,node=1|1|n[0]"
    )


def test_times_that_are_not_whole_seconds_are_told(tmp_path: Path) -> None:
    scenario = scenario_of(drawn(tmp_path, 0, part_s=0.25))
    log = play(scenario, "fifo").log
    assert log is not None
    for form in ("sacct", "swf"):
        (remark,) = export_run(scenario.instance(0), log, form, tmp_path / "t")
        assert remark.endswith(" of 60 jobs have times that are not whole seconds, which this format rounds")
        assert len(read_trace(f"{READER[form]}:{tmp_path / 't'}")[0]) == 60


def test_jobs_that_did_not_finish(tmp_path: Path) -> None:
    scenario = scenario_of(drawn(tmp_path, 1))
    scenario = scenario.replace(semantics=dataclasses.replace(scenario.semantics, time_limit_s=5_000.0))
    result = play(scenario, "fifo")
    assert result.log is not None
    open_jobs = int(result.metrics["jobs"] - result.metrics["finished"])
    assert open_jobs > 0
    for form, name in READER.items():
        remarks = export_run(scenario.instance(0), result.log, form, tmp_path / "t")
        assert remarks == [f"{open_jobs} of 60 jobs did not finish"]
        assert len(read_trace(f"{name}:{tmp_path / 't'}")[0]) == 60 - open_jobs


def test_the_command_writes_what_the_other_commands_read(tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    command = ["traces", "export", "--scenario", "tiny-v1", "--profiles", "unit", "--scheduler", "srtf"]
    done = CliRunner().invoke(app, [*command, "--format", "csv", "--output", str(out)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert f"{len(rows)} jobs played by srtf" in done.output
    read = CliRunner().invoke(app, ["traces", "read", f"csv:{out}"])
    assert f"{len(rows)} lines read, {len(rows)} jobs kept" in read.output
    wrong = CliRunner().invoke(app, [*command, "--format", "xml", "--output", str(out)])
    assert (wrong.exit_code, "unknown format 'xml'" in wrong.stderr) == (2, True)


def test_copies_of_a_gang_are_refused(tmp_path: Path) -> None:
    scenario = scenario_of(drawn(tmp_path, 0))
    log = play(scenario, "fifo").log
    assert log is not None
    copies = scenario.replace(semantics=dataclasses.replace(scenario.semantics, max_copies=2))
    with pytest.raises(GpuschedError, match="several copies"):
        export_run(copies.instance(0), log, "sacct", tmp_path / "t")
