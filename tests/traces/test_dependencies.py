"""Logs that hold jobs: readers fill earliest starts and dependencies, and exports write them back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from gpusched_env import Cluster, Instance, Semantics, Workload, make_scheduler
from gpusched_env.errors import TraceError
from gpusched_env.evaluation.accounting import export_run
from gpusched_env.metrics import job_times, validate
from gpusched_env.simulator import simulate
from gpusched_env.traces import read_trace
from gpusched_env.traces.parsing import dependencies
from gpusched_env.traces.parsing.dependencies import LOST

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)


def line(job: int, submit: int, run: int, before: int = -1, think: object = -1, gpus: int = 1) -> str:
    return f"{job} {submit} 0 {run} {gpus} -1 -1 {gpus} -1 -1 1 7 -1 -1 2 -1 {before} {think}\n"


def test_a_preceding_job_of_swf_holds_a_job_until_it_has_ended_and_its_user_has_thought(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "; a session\n" + line(10, 0, 50) + line(11, 60, 5, 10, 10) + line(12, 61, 5, 10) + line(13, 62, 5, 10, 40.5)
    )
    jobs, report = read_trace(f"swf:{path}")
    assert jobs.attributes["dependency"].tolist() == ["", "afterany:0+10s", "afterany:0+0s", "afterany:0+40.5s"]
    assert "preceding" not in jobs.attributes
    assert list(report.notes.values()) == [3]
    instance = Instance(Cluster.parse("1x4"), jobs, semantics=FREE)
    assert job_times(instance, simulate(instance, make_scheduler("fifo")))["arrival_s"].tolist() == [0, 60, 61, 90.5]


def test_a_preceding_job_that_is_not_kept_or_is_submitted_later_is_noted_and_ignored(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line(1, 0, 0) + line(2, 1, 5, 1, 10) + line(3, 2, 5, 4) + line(4, 3, 5))
    jobs, report = read_trace(f"swf:{path}")
    assert "dependency" not in jobs.attributes
    assert [count for note, count in report.notes.items() if "ignored" in note] == [2]


def test_without_preceding_jobs_a_log_is_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line(1, 0, 5) + line(2, 1, 5))
    jobs, report = read_trace(f"swf:{path}")
    assert sorted(jobs.attributes) == ["name", "original_id", "queue", "status", "user"]
    assert report.notes == {}


def test_a_malformed_preceding_job_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line(1, 0, 5) + line(2, 1, 5, 1, "x"))
    with pytest.raises(TraceError, match=r"line 2.*'think time'"):
        read_trace(f"swf:{path}")


def test_columns_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,arrival,gpus,duration,depends_on,earliest_start_min\n"
        'a,0,1,30,,\nb-1,5,1,30,afterok:a,\nc,6,1,30,"afterok:a:b-1+2,afterany:cpu",0.5\ncpu,0,0,30,,\n'
    )
    jobs, report = read_trace(f"csv:{path}")
    assert jobs.attributes["dependency"].tolist() == ["", "afterok:0", "afterok:0:1+2"]
    assert jobs.attributes["begin_s"].tolist() == [0.0, 0.0, 30.0]
    assert [count for note, count in report.notes.items() if "ignored" in note] == [1]


def test_a_dependency_on_an_array_waits_for_all_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = [
        "7_1,0,1,30,",
        "7_2,0,1,90,",
        "17_1,0,1,30,",
        "7_3,0,0,30,",
        "8,5,1,9,afterok:7+1",
        "9,5,1,9,afterany:7_*(unfulfilled)",
    ]
    rows += ['10,6,1,9,"afterok:7_2:8"']
    path.write_text("\n".join(["job_id,arrival,gpus,duration,dependency", *rows]) + "\n")
    jobs, report = read_trace(f"csv:{path}")
    assert jobs.attributes["dependency"].tolist()[3:] == ["afterok:0+1:1+1", "afterany:0:1", "afterok:1:4"]
    assert report.notes[LOST] == 2  # the task without GPUs
    instance = Instance(Cluster.parse("1x8"), jobs, semantics=FREE)
    starts = job_times(instance, simulate(instance, make_scheduler("fifo")))["arrival_s"]
    assert starts[3:5].tolist() == [150.0, 90.0]


def test_a_dependency_on_a_large_array_takes_memory_in_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.csv"
    rows = [f"7_{i},0,1,30," for i in range(300)] + ["8,5,1,9,afterok:7", "9,5,1,9,afterok:7"]
    path.write_text("\n".join(["job_id,arrival,gpus,duration,dependency", *rows]) + "\n")
    jobs, _ = read_trace(f"csv:{path}")
    column = jobs.attributes["dependency"]
    assert column.nbytes < len(column) * len(column[-1])  # text of a fixed width has 4 bytes a sign in every row
    jobs.save(tmp_path / "jobs.npz")
    again = Workload.load(tmp_path / "jobs.npz")
    assert again.attributes["dependency"].tolist() == column.tolist()
    assert again.fingerprint() == jobs.fingerprint()
    assert again.select(np.arange(2, 302)).attributes["dependency"].nbytes < column.nbytes
    monkeypatch.setattr(dependencies, "MOST", 599)
    with pytest.raises(TraceError, match=r"line 303, field .dependency.: .afterok:7.: .* than 599 jobs in all"):
        read_trace(f"csv:{path}")


def test_a_dependency_on_an_id_that_no_row_has_is_refused_with_its_line(tmp_path: Path) -> None:
    for header, first, other in (("job_id", "a", "gone"), ("job_id", "7_1", "8"), ("user", "x", "5")):
        path = tmp_path / "jobs.csv"
        path.write_text(f"{header},arrival,gpus,duration,dependency\n{first},0,1,30,\nb,5,1,30,afterok:{other}\n")
        with pytest.raises(TraceError, match=f"line 3, field 'dependency': '{other}': no job has this id"):
            read_trace(f"csv:{path}")
        assert read_trace(f"csv:{path}", skip_bad_rows=True)[1].notes == {LOST: 1}


@pytest.mark.parametrize("other", ["7", "7_2"])
def test_a_dependency_on_tasks_in_one_row_is_refused_with_the_remedy(tmp_path: Path, other: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"id,arrival,gpus,duration,dependency\n7_[1-3],0,1,30,\n8,5,1,30,afterok:{other}\n")
    with pytest.raises(
        TraceError, match=f"line 3, .*'{other}': several tasks .*write a row for each task, such as 7_1"
    ):
        read_trace(f"csv:{path}")


def test_the_header_of_swf_tells_the_time_of_its_first_second(tmp_path: Path) -> None:
    def written(name: str, *heads: str) -> str:
        (tmp_path / name).write_text("".join(f"; {head}\n" for head in heads) + line(1, 60, 10) + line(2, 90, 10))
        return f"swf:{tmp_path / name}"

    assert read_trace(written("a.swf", "UnixStartTime: 1740992400"))[1].origin == "2025-03-03T09:01:00"
    assert (
        read_trace(written("a.swf", "UnixStartTime: 1740992400", "TimeZone: 3600"))[1].origin == "2025-03-03T10:01:00"
    )
    assert read_trace(written("a.swf"))[1].origin == ""
    assert read_trace(written("a.swf", "UnixStartTime: -1"))[1].origin == ""
    with pytest.raises(TraceError, match="field 'UnixStartTime': 'soon'"):
        read_trace(written("a.swf", "UnixStartTime: soon"))
    workload = sessions(0, False)
    instance = Instance(Cluster.parse("2x4"), workload, semantics=FREE)
    export_run(instance, simulate(instance, make_scheduler("fifo")), "swf", tmp_path / "run", "2024-02-29T12:00:00")
    assert read_trace(f"swf:{tmp_path / 'run'}")[1].origin == "2024-02-29T12:00:00"
    written("b-1.swf", "UnixStartTime: 1000")
    (tmp_path / "b-2.swf").write_text("; UnixStartTime: 2000\n" + line(3, 5, 10))
    assert read_trace(f"swf:{tmp_path}/b-*.swf")[0].jobs["arrival_s"].tolist() == [0.0, 30.0, 945.0]


def test_a_csv_may_have_the_dependencies_that_squeue_prints(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,arrival,gpus,duration,dependency\na,0,1,30,null\nb,5,1,30,afterok:a(unfulfilled)\n"
        'c,6,1,30,"afterany:a+1(fulfilled), after:b(failed)"\n'
    )
    jobs, report = read_trace(f"csv:{path}")
    assert jobs.attributes["dependency"].tolist() == ["", "afterok:0", "afterany:0+1,after:1"]
    assert not [note for note in report.notes if "ignored" in note]


@pytest.mark.parametrize("text", ["behind:a", "afterok:a?afterok:b", "singleton", "afterok", "after:a+x", "after:a,"])
def test_a_dependency_that_is_not_read_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f'job_id,arrival,gpus,duration,dependency\na,0,1,30,\nb,5,1,30,"{text}"\n')
    with pytest.raises(TraceError, match=r"line 3, field 'dependency'.*afterok:12:13"):
        read_trace(f"csv:{path}")
    jobs, report = read_trace(f"csv:{path}", skip_bad_rows=True)
    assert len(jobs) == 1
    assert list(report.dropped.values()) == [1]


def sessions(seed: int, others: bool) -> Workload:
    rng = np.random.default_rng(seed)
    texts = [""]
    for row in range(1, 60):
        kind = rng.choice(["afterok", "after"]) if others and rng.random() < 0.3 else "afterany"
        texts.append(f"{kind}:{rng.integers(row)}+{rng.integers(90)}s" if rng.random() < 0.5 else "")
    told = {"dependency": np.array(texts)}
    told |= {"begin_s": rng.choice([0.0, 0.0, 40.0], 60)} if others else {}
    arrival = np.cumsum(rng.integers(0, 40, 60))
    return Workload.from_columns(
        arrival - arrival[0], rng.integers(1, 5, 60), rng.integers(1, 300, 60), attributes=told
    )


@pytest.mark.parametrize(("form", "others"), [("swf", False), ("csv", False), ("csv", True)])
def test_what_is_read_back_replays_with_an_equal_digest(tmp_path: Path, form: str, others: bool) -> None:
    for seed in range(3):
        instance = Instance(Cluster.parse("2x4"), sessions(seed, others), semantics=FREE)
        assert instance.holds is not None
        log = simulate(instance, make_scheduler("srtf"))
        validate(instance, log)
        assert export_run(instance, log, form, tmp_path / "run") == []
        jobs, _ = read_trace(f"{form}:{tmp_path / 'run'}")
        again = Instance(Cluster.parse("2x4"), jobs, semantics=FREE)
        assert again.workload.edges.tolist() == instance.workload.edges.tolist()
        assert simulate(again, make_scheduler("srtf")).digest() == log.digest()


@pytest.mark.parametrize(("form", "source"), [("csv", "csv"), ("sacct", "slurm")])
def test_node_counts_are_read_back(tmp_path: Path, form: str, source: str) -> None:
    counts = {"min_nodes": np.array([2, 0, 1]), "max_nodes": np.array([2, 0, 4 if form == "csv" else 1])}
    jobs = Workload.from_columns([0, 10, 20], [8, 8, 4], [60, 60, 60], attributes=counts)
    instance = Instance(Cluster.parse("2x4"), jobs, semantics=FREE)
    assert export_run(instance, simulate(instance, make_scheduler("fifo")), form, tmp_path / "run") == []
    again, _ = read_trace(f"{source}:{tmp_path / 'run'}")
    assert {name: again.attributes[name].tolist() for name in counts} == {
        name: column.tolist() for name, column in counts.items()
    }


def test_a_csv_tells_singletons_by_the_jobs_before_them(tmp_path: Path) -> None:
    told = {
        "dependency": np.array(["", "", "after:1+90s,singleton", "singleton"]),
        "user": np.array(["u", "v", "u", "u"]),
        "name": np.array(["a"] * 4),
    }
    jobs = Workload.from_columns([0, 0, 1, 2], [1] * 4, [10.0] * 4, attributes=told)
    instance = Instance(Cluster.parse("1x4"), jobs, semantics=FREE)
    log = simulate(instance, make_scheduler("fifo"))
    assert export_run(instance, log, "csv", tmp_path / "run") == []
    again, _ = read_trace(f"csv:{tmp_path / 'run'}")
    assert again.edges.tolist() == jobs.edges.tolist()
    assert len(again.edges) == 4


def test_what_a_format_cannot_tell_is_counted(tmp_path: Path) -> None:
    """In SWF, an earliest start becomes the submission, and only one end of a job can be waited for."""
    jobs = Workload.from_columns(
        [0, 0, 0, 0], [1] * 4, [10.0] * 4,
        attributes={"dependency": np.array(["", "afterok:0", "afterany:0:1", "afterany:0+5s"]),
                    "begin_s": np.array([20.0, 0, 0, 0])},
    )  # fmt: skip
    instance = Instance(Cluster.parse("1x4"), jobs, semantics=FREE)
    log = simulate(instance, make_scheduler("fifo"))
    (remark,) = export_run(instance, log, "swf", tmp_path / "t")
    assert remark == "2 of 4 jobs depend on others in a way that this format cannot tell"
    rows = [text.split() for text in (tmp_path / "t").read_text().splitlines() if not text.startswith(";")]
    assert [row[1] for row in rows] == ["20", "0", "0", "0"]  # submission
    assert [row[2] for row in rows] == ["0", "30", "40", "35"]  # from the submission to the start
    assert [row[16:] for row in rows] == [["-1", "-1"], ["-1", "-1"], ["-1", "-1"], ["1", "5"]]


def test_sacct_tells_submission_and_eligibility_and_what_was_cancelled(tmp_path: Path) -> None:
    jobs = Workload.from_columns(
        [0, 0, 0], [1] * 3, [10.0] * 3, attributes={"dependency": np.array(["", "afterok:0", "afternotok:0"])}
    )
    instance = Instance(Cluster.parse("1x4"), jobs, semantics=FREE)
    log = simulate(instance, make_scheduler("fifo"))
    assert len(export_run(instance, log, "sacct", tmp_path / "t", "2025-03-03T09:00:00")) == 2
    header, *rows = (text.split("|") for text in (tmp_path / "t").read_text().splitlines())
    told = [[dict(zip(header, row, strict=True))[name] for name in ("Submit", "Eligible", "State")] for row in rows]
    day = "2025-03-03T09:00"
    assert told == [
        [f"{day}:00", f"{day}:00", "COMPLETED"],
        [f"{day}:00", f"{day}:10", "COMPLETED"],
        [f"{day}:00", f"{day}:10", "CANCELLED"],
    ]
    again, _ = read_trace(f"slurm:{tmp_path / 't'}")  # arrives when it was eligible, so that queueing is the same
    assert again.jobs["arrival_s"].tolist() == [0.0, 10.0]


def test_a_time_limit_leaves_jobs_that_are_still_held(tmp_path: Path) -> None:
    jobs = Workload.from_columns([0, 0], [1, 1], [10.0, 10.0], attributes={"dependency": np.array(["", "afterok:0"])})
    rules = dataclasses.replace(FREE, time_limit_s=5.0)
    instance = Instance(Cluster.parse("1x4"), jobs, semantics=rules)
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    assert job_times(instance, log)["queueing_s"].tolist() == [0.0, 0.0]
    assert "2 of 2 jobs did not finish" in export_run(instance, log, "csv", tmp_path / "t")
