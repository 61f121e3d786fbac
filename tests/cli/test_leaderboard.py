"""The commands of the leaderboard: output, files and errors."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from gpusched_env.cli import app
from gpusched_env.leaderboard import (
    TRACKS,
    About,
    Track,
    baseline_entries,
    make_entry,
    read_entry,
    tracks,
    verify,
    write_entry,
)
from gpusched_env.leaderboard.baseline_entries import FOLDER, baseline_file, known_baselines, shipped_entries
from tools.__main__ import app as tools_app
from tools.leaderboard import site

ABOUT = About(title="", authors="", how="", hardware="", training_seeds=[], link="", licence="")
TINY = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", reports=3)


@pytest.fixture(autouse=True)
def tiny_track(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tracks._BY_NAME, TINY.name, TINY)


def leaderboard(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["leaderboard", *map(str, arguments)])


def tools(*arguments: str | Path) -> Result:
    return CliRunner().invoke(tools_app, [*map(str, arguments)])


def test_an_entry_is_made_and_verified(tmp_path):
    path = tmp_path / "new" / "mine.entry.xz"
    words = ["--title", "Mine", "--authors", "Ä", "--training-seeds", "0:10", "--training-seeds", "20:30"]
    made = leaderboard("submit", "--scheduler", "sjf:key=gpu-time", "--track", TINY.name, "--output", path, *words)
    assert made.exit_code == 0, made.output
    assert "Mine on tiny-test" in made.stdout
    assert "score" in made.stdout
    entry = read_entry(path)
    assert (entry.about.title, entry.about.authors, entry.about.training_seeds) == ("Mine", "Ä", [(0, 10), (20, 30)])
    assert entry.player.spec == "sjf:key=gpu-time"
    assert entry.player.clairvoyant
    runs = verify(entry)

    damaged = tmp_path / "damaged.entry.xz"
    damaged.write_bytes(path.read_bytes()[:-1])
    checked = leaderboard("verify", path, damaged, tmp_path / "absent.entry.xz")
    assert checked.exit_code == 1
    lines = checked.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["verified", "refused", "refused"]
    assert f"mean JCT {sum(run.metrics['mean_jct_s'] for run in runs) / 3:,.0f} s" in lines[0]
    assert leaderboard("verify", path).exit_code == 0


def test_the_name_before_a_spec_is_the_title(tmp_path):
    path = tmp_path / "a.entry.xz"
    for scheduler, words, title in (("mine=las", (), "mine"), ("las", (), "las"), ("mine=las", ("--title", "T"), "T")):
        made = leaderboard("submit", "--scheduler", scheduler, "--track", TINY.name, "--output", path, *words)
        assert made.exit_code == 0, made.output
        entry = read_entry(path)
        assert (entry.about.title, entry.player.spec) == (title, "las")


def test_a_file_of_baselines_is_told_apart_from_entries(tmp_path):
    path = tmp_path / "general-v1.jsonl"
    path.write_bytes(baseline_file(FOLDER, "general-v1").read_bytes())
    checked = leaderboard("verify", path)
    assert checked.exit_code == 1
    assert "as the package has it of its entries, is no entry: give a file NAME.entry.xz" in checked.stdout
    assert "xz (" not in checked.stdout  # no word about damage


def test_wrong_input_is_named(tmp_path):
    out = tmp_path / "entry.entry.xz"
    given = ["submit", "--scheduler", "fifo", "--track", TINY.name, "--output", out]
    for arguments, message in (
        ([*given, "--training-seeds", "ten"], "write FIRST:END"),
        ([*given, "--training-seeds", "0:300000"], "which the track keeps for reports"),
        ([*given[:-1], tmp_path / "entry.json"], "must end in .entry.xz"),
        ([*given[:-1], tmp_path / "entry.zst"], "must end in .entry.xz"),  # build would ignore it
        ([*given[:-1], tmp_path / ".entry.xz"], "must end in .entry.xz"),
        (["submit", "--scheduler", "fifo", "--track", "nowhere", "--output", out], "unknown track"),
        (["submit", "--scheduler", "fifa", "--track", TINY.name, "--output", out], "unknown scheduler"),
        ([*given, "--link", "ftp://a"], "not an entry"),
    ):
        result = leaderboard(*arguments)
        assert result.exit_code == 2
        assert message in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_refused_entry_says_what_to_check(tmp_path):
    path = tmp_path / "a.entry.xz"
    entry = make_entry(TINY, "fifo", ABOUT, progress=False)
    runs = [msgspec.structs.replace(entry.runs[0], digest="0" * 64), *entry.runs[1:]]
    write_entry(msgspec.structs.replace(entry, runs=runs), path)
    checked = leaderboard("verify", path)
    assert checked.exit_code == 1
    refused, advice = checked.stdout.splitlines()
    assert refused.startswith(f"refused: {path}: seed 200000: digest: the entry says 000")
    for words in ("results version", "constraints.txt", "python -m tools.portability"):
        assert words in advice
    path.write_bytes(b"x")
    assert len(leaderboard("verify", path).stdout.splitlines()) == 1  # another machine would refuse it too


def test_an_entry_whose_log_is_missing_is_not_refused(tmp_path):
    path = tmp_path / "philly.entry.xz"
    write_entry(shipped_entries("philly-log-v0")[0], path)
    missing = ["verify", "--workload", tmp_path / "absent.csv", path]
    checked = leaderboard(*missing)
    assert checked.exit_code == 3
    assert checked.stdout.startswith(f"not verified: {path}: track philly-log-v0: needs the log")
    (tmp_path / "bad.entry.xz").write_bytes(b"x")
    # the exit code of a refusal takes precedence
    assert leaderboard(*missing, tmp_path / "bad.entry.xz").exit_code == 1
    assert leaderboard("verify", tmp_path / "bad.entry.xz", *missing[1:]).exit_code == 1


def test_control_characters_of_file_names_are_escaped(tmp_path):
    path = tmp_path / "\x1b[31m\nverified: all.entry.xz"
    path.write_bytes(b"x")
    checked = leaderboard("verify", path)
    assert "\x1b" not in checked.stdout
    [line] = checked.stdout.splitlines()
    assert line.startswith("refused:")
    assert line.count("verified: all.entry.xz") == 1  # the path is told once
    assert "\\x1b[31m\\nverified" in line


def test_verify_names_the_baseline_of_the_same_schedule(tmp_path, monkeypatch):
    entry = make_entry(TINY, "fifo", ABOUT, progress=False)
    write_entry(entry, tmp_path / "a.entry.xz")
    known = known_baselines([entry])
    monkeypatch.setattr(baseline_entries, "shipped_baselines", lambda track: known)
    mine = msgspec.structs.replace(entry, about=msgspec.structs.replace(ABOUT, title="mine"))
    write_entry(mine, tmp_path / "b.entry.xz")
    assert "s, same schedule as fifo (" in leaderboard("verify", tmp_path / "b.entry.xz").stdout
    other = make_entry(TINY, "srtf", ABOUT, progress=False)
    write_entry(other, tmp_path / "c.entry.xz")
    assert "same schedule" not in leaderboard("verify", tmp_path / "c.entry.xz").stdout


def test_an_interrupted_build_says_what_is_kept(tmp_path, monkeypatch):
    pytest.importorskip("jinja2")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "entries").mkdir()
    monkeypatch.setattr(site, "_replay", stop)
    build = ["site", tmp_path / "entries", "--output", tmp_path / "site", "--no-baselines"]
    stopped = tools(*build)
    assert stopped.exit_code == 130
    assert "nothing was written" in stopped.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["entries"]
    monkeypatch.undo()
    assert tools(*build).exit_code == 0
    monkeypatch.setattr(site, "_replay", stop)
    assert "the site that was there stays" in tools(*build).stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_tracks_and_baselines(tmp_path):
    listed = leaderboard("list")
    assert listed.exit_code == 0
    assert all(track.name in listed.stdout for track in TRACKS)
    assert listed.stdout.count("Scored: makespan.") == 1
    arguments = ["entries", "--output", tmp_path, "--tracks", TINY.name, "--schedulers", "fifo,las"]
    assert tools(*arguments).exit_code == 0
    [path] = tmp_path.iterdir()
    assert path.name == "tiny-test.jsonl"
    written = path.read_text()
    assert [line[:14] for line in written.splitlines()[1:]] == ['{"spec":"fifo"', '{"spec":"las",']
    assert tools(*arguments).stdout.count(": has ") == 2
    assert tools(*arguments, "--again").exit_code == 0
    assert path.read_text() == written
    for line, message in (("x", "line 2: JSON is malformed"), (written.splitlines()[1][:-1] + ',"a":1}', "field `a`")):
        path.write_text(f"{written.splitlines()[0]}\n{line}\n")
        refused = tools(*arguments)
        assert refused.exit_code == 2
        assert message in refused.output
    path.write_text(written.replace('"results_version":"', '"results_version":"0'))
    assert "made with another results version" in tools(*arguments).output


def test_entries_of_the_package_are_listed():
    told = leaderboard("show", "heterogeneous-v1")
    assert told.exit_code == 0
    assert "hadar" in told.stdout
