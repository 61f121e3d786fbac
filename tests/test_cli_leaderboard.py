"""The commands of the leaderboard: what they print, what they write, how they refuse."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpusched_env.cli import app
from gpusched_env.leaderboard import TRACKS, Track, read_entry, tracks, verify

TINY = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", reports=3)


@pytest.fixture(autouse=True)
def tiny_track(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tracks._BY_NAME, TINY.name, TINY)


def leaderboard(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["leaderboard", *map(str, arguments)])


def test_an_entry_is_made_and_verified(tmp_path):
    path = tmp_path / "new" / "mine.json.zst"
    words = ["--title", "Mine", "--authors", "Ä", "--training-seeds", "0:10", "--training-seeds", "20:30"]
    made = leaderboard("submit", "--scheduler", "sjf:key=gpu-time", "--track", TINY.name, "--out", path, *words)
    assert made.exit_code == 0, made.output
    assert "Mine on tiny-test" in made.stdout
    assert "score" in made.stdout
    entry = read_entry(path)
    assert (entry.about.title, entry.about.authors, entry.about.training_seeds) == ("Mine", "Ä", [(0, 10), (20, 30)])
    assert entry.player.spec == "sjf:key=gpu-time"
    assert entry.player.clairvoyant
    runs = verify(entry)

    damaged = tmp_path / "damaged.json.zst"
    damaged.write_bytes(path.read_bytes()[:-1])
    checked = leaderboard("verify", path, damaged, tmp_path / "absent.json.zst")
    assert checked.exit_code == 1
    lines = checked.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["verified", "refused", "refused"]
    assert f"mean JCT {sum(run.metrics['mean_jct_s'] for run in runs) / 3:,.0f} s" in lines[0]
    assert leaderboard("verify", path).exit_code == 0


def test_wrong_input_is_named(tmp_path):
    out = tmp_path / "entry.json.zst"
    given = ["submit", "--scheduler", "fifo", "--track", TINY.name, "--out", out]
    for arguments, message in (
        ([*given, "--training-seeds", "ten"], "write FIRST:END"),
        ([*given, "--training-seeds", "0:300000"], "which the track keeps for reports"),
        ([*given[:-1], tmp_path / "entry.json"], "must end in"),
        (["submit", "--scheduler", "fifo", "--track", "nowhere", "--out", out], "unknown track"),
        (["submit", "--scheduler", "fifa", "--track", TINY.name, "--out", out], "unknown scheduler"),
        ([*given, "--link", "ftp://a"], "not an entry"),
    ):
        result = leaderboard(*arguments)
        assert result.exit_code == 2
        assert message in result.output
    assert list(tmp_path.iterdir()) == []


def test_tracks_and_baselines(tmp_path):
    listed = leaderboard("tracks")
    assert listed.exit_code == 0
    assert all(track.name in listed.stdout for track in TRACKS)
    arguments = ["baselines", "--out", tmp_path, "--tracks", TINY.name, "--schedulers", "fifo,las"]
    assert leaderboard(*arguments).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"tiny-test-fifo.json.zst", "tiny-test-las.json.zst"}
    assert leaderboard(*arguments).stdout.count("is there") == 2


def test_what_comes_with_the_package_is_told():
    told = leaderboard("baselines", "--tracks", "heterogeneous-v1,philly-log-v0")
    assert told.exit_code == 0
    assert "about links" in told.stdout
    assert "las-2d" in told.stdout
