"""The tracks: their scores, their baselines, their seeds, and windows of a log."""

import dataclasses
from pathlib import Path

import pytest
from entry_case import TINY

from gpusched_env.errors import MissingLogError
from gpusched_env.leaderboard import (
    TRACKS,
    get_track,
)
from tools.leaderboard.baselines import fitting

DOCS = Path(__file__).parents[2] / "docs" / "leaderboard.md"


def test_each_track_is_scored_by_the_metric_of_its_paper():
    metrics = {track.name.rpartition("-")[0]: track.metric for track in TRACKS}
    assert metrics.pop("ring-all-reduce") == "makespan_s"
    assert metrics.pop("slo") == "deadlines_met"
    assert set(metrics.values()) == {"mean_jct_s"}
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    for track in TRACKS:
        [row] = [row for row in rows if row.startswith(f"| `{track.name}` |")]
        assert row.split("|")[4].strip().startswith(track.scored)
    by_makespan = dataclasses.replace(TINY, metric="makespan_s")
    assert by_makespan.problem().fingerprint() != TINY.problem().fingerprint()


def test_baselines_fit_their_track():
    names = {track.name: set(fitting(track.problem())) for track in TRACKS if not track.absence()}
    assert all({"fifo", "random", "tiresias"} <= fit for fit in names.values())
    assert "srtf" in names["general-v1"]
    assert "sjf-bco" in names["ring-all-reduce-v0"] - names["general-v1"]
    assert "hadar" in names["heterogeneous-v1"] - names["general-v1"]


def test_tracks_keep_their_seeds_apart():
    assert len({track.name for track in TRACKS}) == len(TRACKS)
    for track in TRACKS:
        assert track.name == get_track(track.name).name
        if track.absence():
            continue
        problem = track.problem()
        ranges = problem.scenario.seeds
        assert len(problem.seeds) >= 10
        assert problem.seeds[0] == ranges.report[0]
        assert problem.seeds[-1] < ranges.report[1]


def test_windows_of_a_log(tmp_path):
    log = Path(__file__).parents[3] / "shared" / "traces" / "muri" / "trace2.csv.gz"
    track = get_track("philly-log-v0")
    with pytest.raises(MissingLogError, match="needs the log muri/trace2"):
        track.problem(tmp_path / "absent.csv")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("job_id\n")
    with pytest.raises(MissingLogError, match="its SHA-256 is not that"):
        track.problem(wrong)
    if not log.is_file():
        pytest.skip("the log is not here")
    import gzip

    plain = tmp_path / "trace2.csv"
    plain.write_bytes(gzip.decompress(log.read_bytes()))
    problem = track.problem(plain)
    assert len(problem.seeds) == 10
    fingerprint = problem.fingerprint()
    moved = plain.rename(tmp_path / "moved.csv")
    assert track.problem(moved).fingerprint() == fingerprint
    problem = track.problem(moved)
    sizes = []
    for number in (problem.seeds[0], problem.seeds[-1]):
        instance = problem.instance(number)
        sizes.append(len(instance.workload))
        assert instance.workload.jobs["arrival_s"].max() < 3.6 * 86_400
    assert sizes[0] != sizes[1]
