"""Measured testbeds: constants see no value of the test, metrics equal their definitions, and no row stops another."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from typer.testing import CliRunner

from gpusched_env.cli import app
from gpusched_env.errors import GpuschedError
from studies.reproduce.testbeds import reading, report, shockwave
from studies.reproduce.testbeds.playing import COLUMNS, Row, calibrate, measured_of, play_rows
from studies.reproduce.testbeds.reading import Chosen, Columns, Measured, Noted, Points, UnplayableError
from studies.reproduce.testbeds.scoring import RESAMPLES, Sample, score

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "traces"

# --- a family of a user's own: a line through the origin, calibrated on even x and tested on odd ones

X = np.arange(1.0, 21.0)
Y = 3.0 * X + np.where(X % 3 == 0, 0.5, -0.25)


def even(columns: Columns) -> np.ndarray:
    chosen: np.ndarray = columns["x"] % 2 == 0
    return chosen


def odd(columns: Columns) -> np.ndarray:
    return ~even(columns)


def line(leaking: bool = False, broken: str = "") -> ModuleType:
    """Make a family; one that leaks calibrates on all rows, past ``Measured.calibration``."""
    family = ModuleType("line")

    def calibrate_line(measured: Measured) -> dict[str, Any]:
        if broken == "calibrate":
            raise UnplayableError("there is no ruler")
        seen = measured.calibration("line", ["x", "y"], even)
        if leaking:
            seen = measured._table("line")
        return {"slope": float(f"{(seen['y'] / seen['x']).mean():.4g}")}

    def play_line(row: str, column: str, constants: Mapping[str, Any], measured: Measured) -> list[Points]:
        if (row, column) == ("L1", broken):
            raise UnplayableError(f"there is no {column}")
        if column == "rules":
            return []
        tested = measured.test("line", ["x", "y"], even if row == "SEEN" else odd)
        slope = constants["slope"] if column == "calibrated" else {"as is": 2.0, "floor": 2.99}[column]
        groups = ["high" if x > 10 else "low" for x in tested["x"]]
        return [Points("time [s]", groups, slope * tested["x"], tested["y"], {"makespan [s]": (slope, 3.0)})]

    family.calibrate, family.play = calibrate_line, play_line  # type: ignore[attr-defined]
    return family


def written(folder: Path) -> Path:
    """Write a TOML file with rows of the family, and its measured values."""
    text = "x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(X.tolist(), Y.tolist(), strict=True))
    (folder / "line.csv").write_text(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    names = ("measured", "hardware", "calibrate", "test", "blame", "source", "licence", "reported")
    said = "\n".join(f'{name} = "a {name}"' for name in names)
    lines = [
        f'[files.line]\nshipped = "line.csv"\nsha256 = "{sha256}"\nvalues = ["y"]',
        *(f'[[rows]]\nid = "{row}"\nfamily = "my.line"\n{said}' for row in ("L1", "SEEN")),
        '[[goals]]\nfamily = "my.line"\ngoal = "a line"\nplace = "{L1 | calibrated | time error worst}"',
        'limit = 0.1\nmissing = "a ruler"',
        '[claims."my.line"]\ntext = "A line within {L1 | calibrated | time error median; makespan}, {L2 | rules | x}."',
    ]
    (folder / "mine.toml").write_text("\n".join(lines))
    return folder / "mine.toml"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(sys.modules, "my.line", line())
    return written(tmp_path)


# --- constants see no value of the test

Change = Callable[[str, Columns], Columns]
LISTED = measured_of()[0]
FAMILIES = {row["id"]: row["family"] for row in LISTED["rows"]}
# Families whose rows have constants of their own, and rows that need no check: all their values calibrate one half or
# another (checked beside the family), they have no constants, or the constant of T3-allox
OF_ROWS = ("speeds", "fabrics", "colocation", "shockwave")
SKIPPED = ("C1-20", "C1-models", "T4", "T3-replay", "T3-max-min", "T3-ftf")
ROWS = [row for row, family in FAMILIES.items() if family in OF_ROWS and row not in SKIPPED]
OTHERS = {row: family for row, family in FAMILIES.items() if family not in OF_ROWS}


@pytest.fixture(scope="module")
def shared_logs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if SHARED.exists():
            patch.setenv("GPUSCHED_DATA", str(SHARED))
        yield


def constants_of(file: Path | None, change: Change | None = None) -> tuple[dict[str, Any], Measured]:
    """Calibrate the families of a user's list, or those of the package whose rows share their constants."""
    listed, measured = measured_of(file)
    measured.change = change
    return calibrate([Row(entry) for entry in listed["rows"] if file or entry["id"] in OTHERS], measured), measured


def narrow(measured: Measured, row: str) -> None:
    """Leave a row alone; of speeds, files of its first application."""
    entry = measured.rows[row]
    folder = entry.get("folder", "-")
    first = min((name for name in measured.listed if name.startswith(f"{folder}/")), default="-/-").split("/")[1]
    kept = {
        name: dict(of)
        for name, of in measured.listed.items()
        if "/" not in name or name.split("/")[:2] == [folder, first]
    }
    sets = kept["nccl_allreduce"]["sets"]
    kept["nccl_allreduce"]["sets"] = {row: sets[row]} if row in sets else {}
    measured.rows, measured.listed = {row: entry}, kept


def constants_of_row(row: str, change: Change | None = None, leaking: bool = False) -> tuple[Any, Measured]:
    """Calibrate one row; one that leaks multiplies what it reads by a factor from what it did not choose."""
    _, measured = measured_of()
    narrow(measured, row)
    measured.change = change
    read = measured._read

    def leak(file: str, columns: Sequence[str], chosen: Chosen, noted: Noted) -> Columns:
        found, table, values = (
            read(file, columns, chosen, noted),
            measured._table(file),
            measured.listed[file]["values"],
        )
        at = np.asarray(chosen({name: table[name] for name in table if name not in values}), bool)
        used = [name for name in columns if name in values]
        if used and at.any() and not at.all():
            factor = 1.0 + np.nanmean(table[used[0]][~at]) / np.nanmean(table[used[0]][at])
            found |= {name: found[name] * factor for name in used}
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shockwave, "TRIED_S", (30.0, 50.0))  # fewer runs, of the same code
        if leaking:
            patch.setattr(measured, "_read", leak)
        return calibrate([Row({"family": FAMILIES[row]})], measured)[FAMILIES[row]][row], measured


def unread_changed(first: Measured, seed: int, whole: bool = True) -> Change:
    """Return a change of all measured values that no calibration read: they are shuffled, and times random factors.

    ``whole`` : shuffle them; else only factors, which keep what other rows calibrate on possible
    """
    rng = np.random.default_rng(seed)
    seen: dict[tuple[str, str], np.ndarray] = {}
    for read in first.seen.values():
        for key, at in read.items():
            seen[key] = at | seen.get(key, False)

    def change(file: str, table: Columns) -> Columns:
        changed = dict(table)
        count = len(next(iter(table.values())))
        # the same for all columns of a row
        shuffled, factors = rng.permutation(count) if whole else np.arange(count), rng.uniform(0.1, 10.0, count)
        for column in first.listed[file]["values"]:
            unread = ~seen.get((file, column), np.zeros(count, bool))
            values = table[column][shuffled[unread[shuffled]]]
            changed[column] = table[column].copy()
            changed[column][unread] = values * factors[unread] if values.dtype == float else values
        return changed

    return change


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_change_of_unread_values_finds_a_leak(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = written(tmp_path_factory.mktemp("line"))
    with pytest.MonkeyPatch.context() as patch:
        for leaking in (False, True):
            patch.setitem(sys.modules, "my.line", line(leaking))
            constants, measured = constants_of(file)
            assert (constants_of(file, unread_changed(measured, seed))[0] == constants) is not leaking


def test_constants_of_the_package_see_no_value_of_the_test(shared_logs: None) -> None:
    constants, measured = constants_of(None)
    for seed in range(3):
        again, changed = constants_of(None, unread_changed(measured, seed))
        assert json.dumps(again) == json.dumps(constants)  # to the last bit
        assert {key for read in changed.seen.values() for key in read} == {
            key for read in measured.seen.values() for key in read
        }
    assert set(measured.seen) == {""}  # rows with constants of their own are below
    assert {*OTHERS.values(), *OF_ROWS} == {*LISTED["claims"]}


@pytest.mark.parametrize("row", ROWS)
def test_constants_of_a_row_see_only_what_it_reads(row: str, shared_logs: None) -> None:
    """All other values change: those of its test, and those on which other rows calibrate. A planted leak is found."""
    for leaking in (False, True):
        try:
            constants, measured = constants_of_row(row, leaking=leaking)
        except (KeyError, UnplayableError):
            if SHARED.exists():
                raise
            pytest.skip("the shared logs are not here")
        again, changed = constants_of_row(row, unread_changed(measured, 0, whole=False), leaking)
        assert (json.dumps(again) == json.dumps(constants)) is not leaking
        assert changed.seen[row].keys() == measured.seen[row].keys() != set()


def test_splits_are_those_of_the_specification() -> None:
    """The table of section 2 in ../shared/papers/testbeds.md; halves, and rows beside it, are as the rows say."""
    splits = {row["id"]: row["split"] for row in LISTED["rows"] if "split" in row}
    assert splits["Q1"] == {"first": 400}
    for row, file, seeds in (("C1", "deepshare", 1), ("C1-20", "deepshare", 20), ("C2", "lucid", 1)):
        assert splits[row] == {"file": file, "by": "pair", "types": [""], "seeds": seeds}
    other_types = {"types": ["P100", "K80"], "seeds": 1, "calibrate": ["V100"]}
    assert splits["C3"] == {"file": "gavel", "by": "pair", **other_types}
    runs = ("max_min_fairness", "finish_time_fairness", "allox,alpha=0.2")
    for row, run in zip(("T3-max-min", "T3-ftf", "T3-allox"), runs, strict=True):
        assert splits[row] == {"calibrate": "gavel:policy=max_min_fairness", "test": f"gavel:policy={run}"}
    for row in ("S1-two-machines", "S2-rtx-two-machines"):
        assert splits[row] == {"machines": 2}
    for row in ("S1-gpus", "S2-rtx-gpus", "S2-a100-gpus", "S3-elasticflow-a100-gpus", "S3-elasticflow-t4-gpus"):
        assert splits[row] == {"gpus": 8}
    for row in ("S1-batch", "S2-rtx-batch", "S2-a100-batch"):
        assert splits[row] == {"batch": "median"}
    for row in LISTED["rows"]:
        assert (row["id"] in splits) is (
            row["family"] in ("speeds", "colocation") or row["id"] in ("Q1", *(r for r in splits if r[:2] == "T3"))
        )
        assert ("folder" in row) is (row["family"] == "speeds")


def test_each_phase_refuses_the_reads_of_the_other(mine: Path) -> None:
    measured = measured_of(mine)[1]
    with pytest.raises(RuntimeError, match="before the constants are frozen"):
        measured.test("line", ["y"], odd)
    measured.frozen = True
    with pytest.raises(RuntimeError, match="constants are frozen"):
        measured.calibration("line", ["y"], even)


def test_the_choice_of_rows_sees_no_measured_value(mine: Path) -> None:
    seen = measured_of(mine)[1].calibration("line", ["x", "y"], lambda columns: np.full(20, list(columns) == ["x"]))
    np.testing.assert_array_equal(seen["y"], Y)


def test_values_that_calibration_saw_are_marked(mine: Path) -> None:
    rows, _ = play_rows(*measured_of(mine))
    assert [row.in_sample for row in rows] == [set(), {"calibrated"}]


# --- files


def test_a_changed_file_is_refused(mine: Path) -> None:
    (mine.parent / "line.csv").write_text("x,y\n1,3\n")
    rows, constants = play_rows(*measured_of(mine))
    assert constants == {}
    sha256 = measured_of(mine)[1].listed["line"]["sha256"][:12]
    reason = f"line: not the published file, whose SHA-256 is {sha256}...: fetch it again"
    assert [row.reasons for row in rows] == [dict.fromkeys(("as is", "calibrated", "floor"), reason)] * 2


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (None, r"^gavel/medium_test\.trace is not in the data folder: gpusched traces fetch gavel/medium_test\.trace$"),
        (b"no gzip", r"^gavel/medium_test\.trace cannot be read \(Not a gzipped file.*\): gpusched traces fetch .*$"),
        (gzip.compress(b"x,y\n1,3\n"), r"^log: not the published file, whose SHA-256 is [0-9a-f]{12}\.\.\.: fetch it"),
    ],
    ids=["absent", "damaged", "another"],
)
def test_an_absent_or_damaged_log_has_a_reason_in_one_line(
    damage: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    if damage is not None:
        (tmp_path / "gavel").mkdir()
        (tmp_path / "gavel" / "medium_test.trace.gz").write_bytes(damage)
    measured = Measured({"log": {"public": "gavel/medium_test.trace", "values": []}})
    with pytest.raises(UnplayableError, match=reason):
        measured.calibration("log", [], lambda columns: np.ones(1, bool))


def test_the_reason_of_a_row_names_all_files_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So one command fetches them; many are a pattern."""
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    (tmp_path / "muri" / "published").mkdir(parents=True)
    (tmp_path / "muri" / "published" / "SRTF_job.csv.gz").write_bytes(b"")  # this one is there
    measured = measured_of()[1]
    measured.frozen = True
    for file, fetch in (
        ("muri_trace", "muri/cluster_trace.csv muri/published/tiresias_job.csv"),
        ("S1/bert/placements", "'pollux/measured/*'"),
    ):
        with pytest.raises(UnplayableError) as found:
            measured.test(file, [], lambda columns: np.ones(1, bool))
        assert str(found.value).endswith(f" is not in the data folder: gpusched traces fetch {fetch}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, r"line\.csv cannot be read \(.*\): correct \[files\.line\]"),
        ("x,y\n", r"line: there are no rows below the header"),
    ],
)
def test_a_shipped_file_that_is_absent_or_empty_has_a_reason_in_one_line(
    text: str | None, reason: str, mine: Path
) -> None:
    file = mine.parent / "line.csv"
    if text is None:
        file.unlink()
    else:
        old, new = (hashlib.sha256(of.encode()).hexdigest() for of in (file.read_text(), text))
        file.write_text(text)
        mine.write_text(mine.read_text().replace(old, new))
    rows, _ = play_rows(*measured_of(mine))
    for row in rows:
        assert set(row.reasons) == {"as is", "calibrated", "floor"}
        assert all(re.fullmatch(reason, why) for why in row.reasons.values())


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('licence = "a licence"\n', "", r"mine\.toml: \[\[rows\]\] L1: add licence$"),
        ('id = "L1"\n', "", r"mine\.toml: \[\[rows\]\] 1: add id$"),
        ('values = ["y"]', "", r"mine\.toml: \[files\.line\]: add values$"),
        ("sha256 = ", "sha = ", r"mine\.toml: \[files\.line\]: add sha256$"),
        ("[[rows]]", "[[others]]", r"mine\.toml: has no \[\[rows\]\]: list one at least$"),
        ("[[rows]]\nid = ", "[rows]\nid = ", r"mine\.toml: has no \[\[rows\]\]: list one at least$"),
        ('id = "SEEN"', 'id = "L1"', r"mine\.toml: two \[\[rows\]\] have the same id$"),
        ('family = "my.line"', 'family = "speeds"', r"mine\.toml: \[\[rows\]\] L1: add folder, split$"),
    ],
)
def test_what_a_list_lacks_is_named_in_one_line(old: str, new: str, told: str, mine: Path) -> None:
    text = mine.read_text().replace(old, new)
    mine.write_text(text.partition('[rows]\nid = "SEEN"')[0] if new.startswith("[rows]") else text)
    with pytest.raises(GpuschedError, match=told):
        measured_of(mine)


def test_the_example_of_the_docs_is_a_list(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "testbeds.md").read_text(), re.DOTALL)
    monkeypatch.setitem(sys.modules, "my.steps", line())
    mine.write_text(text)
    listed, measured = measured_of(mine)
    assert set(measured.rows) == {"ours"}
    (row,) = play_rows(listed, Measured(measured_of(written(mine.parent))[1].listed, folder=mine.parent))[0]
    assert set(row.scores) == {"as is", "calibrated", "floor"}


def test_a_log_is_read_by_the_function_that_its_entry_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gavel").mkdir()
    content = b"3 4"
    (tmp_path / "gavel" / "medium_test.trace.gz").write_bytes(gzip.compress(content))
    reader = ModuleType("my.reader")
    reader.read = lambda read: {"y": np.array(read.split(), float)}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my.reader", reader)
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path))
    monkeypatch.setattr(reading, "find", lambda name: SimpleNamespace(sha256=hashlib.sha256(content).hexdigest()))
    measured = Measured({"log": {"public": "gavel/medium_test.trace", "values": [], "rows": "my.reader:read"}})
    assert measured.calibration("log", ["y"], lambda columns: columns["y"] > 3)["y"].tolist() == [4.0]


# --- no row stops another


@pytest.mark.parametrize("broken", ["calibrate", "as is", "calibrated", "floor"])
def test_a_row_that_cannot_be_played_says_why(broken: str, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "my.line", line(broken=broken))
    rows, _ = play_rows(*measured_of(mine))
    if broken == "calibrate":
        assert [row.reasons for row in rows] == [{"calibrated": "there is no ruler"}] * 2
        assert [set(row.scores) for row in rows] == [{"as is", "floor"}] * 2
        return
    assert [row.reasons for row in rows] == [{broken: f"there is no {broken}"}, {}]
    assert set(rows[0].scores) == {"as is", "calibrated", "floor"} - {broken}
    assert set(rows[1].scores) == {"as is", "calibrated", "floor"}


def test_a_mistake_in_a_family_is_no_reason(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = line()
    monkeypatch.setattr(wrong, "play", lambda *_: 1 // 0)
    monkeypatch.setitem(sys.modules, "my.line", wrong)
    with pytest.raises(ZeroDivisionError):
        play_rows(*measured_of(mine))


def test_quick_leaves_out_slow_rows(mine: Path) -> None:
    listed, measured = measured_of(mine)
    listed["rows"][0]["slow"] = True
    slow, other = play_rows(listed, measured, quick=True)[0]
    assert slow.scores == {}
    assert slow.reasons == dict.fromkeys(COLUMNS, "left out by --quick")
    assert set(other.scores) == {"as is", "calibrated", "floor"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--output", "a-file"], "--output a-file/results.json: cannot be written"),
        (["--backend", "foo"], "--backend 'foo': write processes, ray, or ray:ADDRESS"),
        (["--workers", "0"], "workers is 0: give a number of processes >= 1"),
    ],
)
def test_wrong_options_are_told_before_the_rows_are_played(
    options: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a-file").write_text("")
    monkeypatch.setattr("studies.reproduce.command._testbeds", pytest.fail)
    result = CliRunner().invoke(app, ["reproduce", "testbeds", *options])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


def test_a_missing_family_and_a_missing_list_are_named(mine: Path, tmp_path: Path) -> None:
    mine.write_text(mine.read_text().replace("my.line", "nowhere.at_all"))
    with pytest.raises(GpuschedError, match=r"family 'nowhere\.at_all': cannot be imported"):
        play_rows(*measured_of(mine))
    with pytest.raises(GpuschedError, match=r"none\.toml: No such file"):
        measured_of(tmp_path / "none.toml")


# --- metrics

P, M = np.array([11.0, 18.0, 33.0, 36.0, 50.0]), np.array([10.0, 20.0, 30.0, 40.0, 50.0])


def values(points: Points) -> dict[str, float]:
    return {name: one.value.mean for name, one in score([points]).items()}


def test_metrics_of_a_run_equal_those_worked_out_by_hand() -> None:
    found = values(Points("JCT [s]", list("abcde"), P, M, {"makespan [s]": (99.0, 90.0)}))
    assert found == pytest.approx(
        {
            "JCT mean": 148 / 150 - 1,
            "JCT median": 33 / 30 - 1,
            "JCT p99": (36 + 0.96 * 14) / (40 + 0.96 * 10) - 1,  # at 3.96 of 0 to 4
            "JCT rank": 1.0,
            "JCT error median": 0.1,
            "JCT error p90": 0.1,
            "makespan": 0.1,
        }
    )


def test_metrics_of_rates_times_and_waits_equal_those_worked_out_by_hand() -> None:
    assert values(Points("rate", list("aabbc"), P[::-1], M)) == pytest.approx(
        {
            "rate MAE": (40 + 16 + 3 + 22 + 39) / 5,
            "rate error median": 0.78,  # of 4, 0.8, 0.1, 0.55, 0.78
            "rate error p90": 0.8 + 0.6 * 3.2,
            "rate rank": -1.0,
        }
    )
    found = values(Points("time [s], to 1 MiB", list("aabbb"), P, M))
    assert found == pytest.approx(
        {
            "time bias, to 1 MiB": 0.0,  # the median of .1, -.1, .1, -.1, 0
            "time error median, to 1 MiB": 0.1,
            "time error p90, to 1 MiB": 0.1,
            "time error worst, to 1 MiB": 0.1,
            "time bias, to 1 MiB of a": 0.0,
            "time error median, to 1 MiB of a": 0.1,
            "time error p90, to 1 MiB of a": 0.1,
            "time error worst, to 1 MiB of a": 0.1,
            "time bias, to 1 MiB of b": 0.0,
            "time error median, to 1 MiB of b": 0.1,
            "time error p90, to 1 MiB of b": 0.1,
            "time error worst, to 1 MiB of b": 0.1,
        }
    )
    waits = Points("wait [s]", ["1 GPU"] * 4, np.array([0.0, 0.0, 60.0, 100.0]), np.array([10.0, 70.0, 80.0, 90.0]))
    assert values(waits) == pytest.approx(
        {"wait mean": 160 / 250 - 1, "wait p90": 88 / 87 - 1, "wait share above 60 s": 0.25 - 0.75}
    )


def test_refused_predictions_are_counted_and_judge_nothing_else() -> None:
    found = values(Points("time [s]", ["a"] * 4, np.array([1.1, np.nan, 2.2, np.nan]), np.array([1.0, 5.0, 2.0, 9.0])))
    assert found["time refused"] == 0.5
    assert found["time error median"] == pytest.approx(0.1)
    assert values(Points("time [s]", ["a"], np.array([np.nan]), np.ones(1))) == {"time refused": 1.0}


def test_two_results_of_one_name_are_refused() -> None:
    points = Points("rate", ["a"], np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="name a part after a comma"):
        score([points, points])
    with pytest.raises(ValueError, match="differ in number"):
        score([Points("rate", ["a", "b"], np.ones(1), np.ones(1))])


@given(
    rows=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 4)), min_size=2, max_size=12),
    share=st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]),
)
def test_metrics_of_counts_equal_those_of_repeated_values(rows: list[tuple[int, int, int]], share: float) -> None:
    p, m, counts = (np.array(column) for column in zip(*rows, strict=True))
    counts[0] += 1
    sample = Sample(p.astype(float), m.astype(float), counts[None, :])
    repeated_p, repeated_m = np.repeat(p, counts), np.repeat(m, counts)
    assert sample.quantiles(sample.predicted, share)[0] == pytest.approx(np.quantile(repeated_p, share))
    assert sample.mean(sample.measured) == pytest.approx(repeated_m.mean())
    if len(set(repeated_p.tolist())) > 1 and len(set(repeated_m.tolist())) > 1:
        assert sample.rank() == pytest.approx(spearmanr(repeated_p, repeated_m).statistic)


# --- intervals


@pytest.mark.parametrize("quantity", ["JCT [s]", "time [s]"])
def test_intervals_cover_the_median_about_as_often_as_they_say(quantity: str) -> None:
    rng, covered = np.random.default_rng(1), 0
    for _ in range(100):
        errors = rng.exponential(0.1, 40)
        found = score([Points(quantity, [str(job) for job in range(40)], 1.0 + errors, np.ones(40))])
        interval = found[f"{quantity[:-4]} error median"].value
        assert interval.count == 40
        covered += interval.low <= 0.1 * np.log(2.0) <= interval.high
    assert 88 <= covered <= 100


def test_pairs_are_drawn_as_a_whole_and_applications_before_their_rows() -> None:
    """Ten equal rows in each of six groups: the rates' interval is that of six values, a job's that of sixty."""
    errors = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    groups, many = np.repeat(list("abcdef"), 10).tolist(), 1.0 + np.repeat(errors, 10)
    width = {}
    for name, of in (("six", list("abcdef")), ("whole", groups), ("sixty", [str(row) for row in range(60)])):
        p = 1.0 + errors if name == "six" else many
        interval = score([Points("rate", of, p, np.ones(len(p)))])["rate MAE"].value
        width[name] = interval.high - interval.low
    assert width["whole"] == pytest.approx(width["six"])
    assert width["sixty"] < 0.5 * width["six"]
    of_times = score([Points("time [s]", groups, many, np.ones(60))])["time error median"].value
    assert of_times.high - of_times.low > 1.5 * width["sixty"]


def test_a_single_group_and_a_total_have_no_interval() -> None:
    found = score([Points("JCT [s]", ["a"], P[:1], M[:1], {"makespan [s]": (1.0, 2.0)})])
    assert all(np.isnan([one.value.low, one.value.high]).all() for one in found.values())


def test_equal_points_have_equal_intervals_and_resamples_are_fixed() -> None:
    points = Points("rate", list("abcde"), P, M)
    assert score([points]) == score([points])
    assert RESAMPLES == 1_000


# --- the table


def test_claims_of_the_package_type_no_number_of_an_error() -> None:
    for family, said in measured_of()[0]["claims"].items():
        assert not re.search(r"\d ?%", re.sub(r"\{[^{}]*\}", "", said["text"])), family


def test_claims_of_the_package_set_floors_beside_the_errors_of_the_same_rows() -> None:
    """Else the largest floor of more rows would make the predictions look better than those of the authors."""
    text = measured_of()[0]["claims"]["shockwave"]["text"]
    places = [
        [{one.strip() for one in part.split(";")} for part in place.groups()]
        for place in re.finditer(r"\{([^|{}]+)\|([^|{}]+)\|([^{}]+)\}", text)
    ]
    rows_of = {
        column: [(r, m) for r, columns, m in places if columns == {column}] for column in ("calibrated", "floor")
    }
    assert len(rows_of["floor"]) == 3
    for place in rows_of["floor"]:
        assert place in rows_of["calibrated"], place


def test_rows_of_the_package_say_what_they_are() -> None:
    listed, measured = measured_of()
    for row in listed["rows"]:
        assert {"id", "family", "measured", "hardware", "calibrate", "test", "blame", "source", "licence"} <= set(row)
        assert set(row.get("in_sample", ())) <= set(COLUMNS)
    assert {row["family"] for row in listed["rows"]} == set(listed["claims"])
    for name, file in measured.listed.items():
        assert {"values", "source", "licence"} <= set(file), name
        assert ("sha256" if "shipped" in file else "public") in file, name


def test_floors_flag_luck_and_claims_are_computed(mine: Path) -> None:
    rows, _ = play_rows(*measured_of(mine))
    slope, tested = 2.986, X % 2 == 1
    assert slope == round(float((Y[~tested] / X[~tested]).mean()), 3)
    for name, of in (("median", 0.5), ("p90", 0.9), ("worst", 1.0)):
        own, floor = (np.quantile(np.abs(a * X[tested] / Y[tested] - 1.0), of) for a in (slope, 2.99))
        assert rows[0].is_luck("calibrated", f"time error {name}") is bool(own < floor)
    assert not rows[0].is_luck("as is", "time error median")
    median = 100 * np.median(np.abs(slope * X[tested] / Y[tested] - 1.0))
    text = (
        "{L1 | calibrated | time error median; makespan} {L1 | as is ; calibrated | makespan} {L1 | as is | JCT mean}"
    )
    assert median > 100 * (1 - slope / 3.0)
    assert report.claim(text, rows) == f"{median:.1f} % 33.3 % (not played here)"
    assert report.claim("Within {L1 | as is | JCT mean}, {L3 | as is | JCT p99}.", rows) == "Not played here."
    assert report.claim("No number.", rows) == "No number."


def played(*columns: tuple[str, list[Points]], **entry: Any) -> Row:
    said = dict.fromkeys(("measured", "hardware", "calibrate", "test", "blame", "source", "licence"), "a few words")
    row = Row({"id": "R", "family": "f", **said, **entry})
    for column, points in columns:
        row.points[column], row.scores[column] = points, score(points)
    return row


def errors_of(rows: list[Row]) -> Any:
    return next(table for table in report.report_tables(rows, {}, {}) if table.caption == report.ERRORS)


def test_goals_are_compared_with_the_largest_error_of_their_place() -> None:
    points = [Points("time [s]", ["a", "b"], np.array([1.05, 1.3]), np.ones(2), {"makespan [s]": (0.8, 1.0)})]
    common = {"family": "f", "goal": "g", "missing": "a ruler"}
    for metric, limit, result, verdict in (
        ("time error worst", 25, "30.0 %", "missed by 5.0 points: a ruler"),
        ("time error worst; makespan", 31, "30.0 %", "met"),
        ("makespan", 20.5, "-20.0 %", "met"),
        ("JCT mean", 20, "-", "not played here"),
    ):
        of = {**common, "place": f"{{R | calibrated | {metric}}}", "limit": limit}
        told = report.goal(of, [played(("calibrated", points))])
        assert (told["result"], told["verdict"]) == (result, verdict), metric
    with pytest.raises(GpuschedError, match=r"goal 'g': place 'R' is not '\{rows \| columns \| metrics\}'"):
        report.goal({**common, "place": "R", "limit": 1}, [])


def test_goals_of_the_package_are_places_of_played_rows(whole: tuple[str, str, Path]) -> None:
    if whole[0] == "shipped":
        pytest.skip("some rows are not played")
    assert "Goals" in whole[1]
    assert whole[1].count("not played here") == 1  # the caption of what is reported elsewhere
    assert report.ABSENT not in whole[1]


def test_calibrated_errors_above_those_of_the_defaults_have_a_mark() -> None:
    good, bad = (Points("rate", list("abcde"), M * by, M) for by in (1.1, 1.2))
    for first, last, marks in ((good, bad, [report.WORSE]), (bad, good, []), (good, good, [])):
        (line, *_) = errors_of([played(("as is", [first]), ("calibrated", [last]))]).rows
        assert [mark for cell in line.cells for mark in cell.notes] == marks


def test_a_list_whose_files_are_not_beside_it_gives_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of the package, elsewhere."""
    monkeypatch.setenv("GPUSCHED_DATA", str(tmp_path / "nothing"))
    (tmp_path / "mine.toml").write_text((Path(report.__file__).parent / "testbeds.toml").read_text())
    result = CliRunner().invoke(app, ["reproduce", str(tmp_path / "mine.toml"), "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (told["metrics"], told["files"]) == ([], {})
    assert all(row["reasons"] for row in told["rows"])


def test_a_narrow_terminal_shows_what_is_calibrated_and_its_floor() -> None:
    points = [Points("JCT [s]", list("abcde"), P, M)]
    row = played(*((column, points) for column in (*COLUMNS, "floor")), id="S3-elasticflow-a100-gpus")
    shown = [one.heading for one in errors_of([row]).fitting(80).columns]
    assert shown[:4] == ["row", "metric", "calibrated", "floor"]


def test_constants_are_printed_with_what_has_them() -> None:
    frozen = {"f": {"slopes": [2.5, 3.0], "of": [{"a": 1.0, "*": 2e-5}]}}
    listed = [{"family": "f", "name": name, "where": "a.field"} for name in ("slopes", "slopes/0", "of/0", "of/0/a")]
    (table,) = report.report_tables([], {"constants": [*listed, {**listed[0], "family": "not played"}]}, frozen)
    assert [row.cells[2].text for row in table.rows] == ["2.5, 3", "2.5", "a 1, * 2e-05", "1"]
    (absent,) = report.report_tables([], {"constants": [{**listed[0], "name": "of/1"}]}, frozen)
    assert absent.rows[0].cells[2].text == report.ABSENT  # its file is not here


def test_claims_and_goals_come_first_and_a_goal_has_its_interval() -> None:
    points = [Points("JCT [s]", list("abcde"), P, M)]
    row = played(("calibrated", points))
    place = {"family": "f", "goal": "g", "place": "{R | calibrated | JCT mean}", "limit": 50, "missing": "a ruler"}
    tables = report.report_tables([row], {"claims": {"f": {"text": "All."}}, "goals": [place]}, {})
    assert [table.caption.split()[0] for table in tables] == ["What", "Goals", "Predicted", "What"]
    value = row.scores["calibrated"]["JCT mean"].value
    ends = f"[{100 * value.low:+.1f}, {100 * value.high:+.1f} %]"
    assert tables[1].rows[0].cells[3].text == f"{100 * value.mean:+.1f} % {ends}"
    assert tables[1].rows[0].cells[4].text == "met"
    middle = 50 * (abs(value.mean) + max(-value.low, value.high))
    assert report.goal({**place, "limit": middle}, [row])["verdict"] == "met, but not by the whole interval"
    assert tables[2].rows[0].cells[6].text == ends


def test_the_worst_group_of_each_band_is_printed() -> None:
    groups = ["a, small", "b, small", "a, large", "b, large"] * 2
    found = [Points("time [s]", groups, np.array([1.1, 1.2, 1.4, 1.3] * 2), np.ones(8))]
    table = errors_of([played(("calibrated", found))])
    lines = {row.cells[1].text: row.cells[2].text for row in table.rows}
    assert lines["  worst of 2: b, small"] == "20.0 %"
    assert lines["  worst of 2: a, large"] == "40.0 %"


def test_intervals_are_those_of_calibrated_alone() -> None:
    points = [Points("time [s]", list("abcde"), P, M)]
    for column, printed in (("as is", False), ("calibrated", True)):
        (row, *_) = errors_of([played((column, points))]).rows
        assert bool(row.cells[6].text) is printed


def test_a_floor_that_bounds_nothing_marks_no_luck() -> None:
    lucky = (("calibrated", 1.1), ("floor", 1.2))
    columns = [(name, [Points("time [s]", ["a"], np.array([p]), np.ones(1))]) for name, p in lucky]
    for beside in (False, True):
        row = played(*columns, beside=beside)
        cells = errors_of([row]).rows[0].cells
        assert row.is_luck("calibrated", "time error median") is not beside
        assert list(cells[2].notes) == [report.LUCK] * (not beside)
        assert list(cells[3].notes) == [report.BESIDE] * beside


def test_a_long_sentence_is_printed_once() -> None:
    long = "a sentence of more than thirty letters"
    rows = [played(id="R1", blame=long), played(id="R2", blame=long), played(id="R3", test=long)]
    told = [row.cells[1].text for row in report.report_tables(rows, {}, {})[-1].rows]
    assert f"To blame: {long}." in told[0]
    assert "To blame: as R1." in told[1]
    assert f"Tested on: {long}." in told[2]
    assert all("Measured: a few words; a few words." in text for text in told)


def test_a_panel_shows_one_quantity_and_no_case_that_one_column_alone_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr(report, "save", lambda figure, path: figures.append(figure))
    parts = ("time [s]", "time [s], by rank", "time [s], cards limit", "time [s], refused")
    both = [
        [Points(part, ["a"], np.array([np.nan if at and "refused" in part else 1.0]), np.ones(1)) for part in of]
        for at, of in enumerate((parts[:2] + parts[3:], parts))
    ]
    assert report.draw([played(("as is", both[0]), ("calibrated", both[1]))], tmp_path) == ["f.png"]
    panels = [axes for axes in figures[0].axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["R: time [s]", "R: time [s], by rank"]
    assert [[text.get_text() for text in axes.get_legend().get_texts()] for axes in panels] == [
        ["as is", "calibrated"]
    ] * 2


def test_the_command_plays_a_users_list(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "my.line", line(broken="as is"))
    folder = mine.parent / "out"
    result = CliRunner().invoke(app, ["reproduce", str(mine), "--output", str(folder)])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines()[:-1])) <= 120
    for text in (
        "L1",
        "worst of 2",
        "Goals",
        "a line",
        "missed by 8.5 points: a ruler",
        "in sample",
        "there is no as is",
        "never one number for all",
        "a reported",
    ):
        assert text in result.output
    told = json.loads((folder / "results.json").read_text())
    assert told["constants"] == {"my.line": {"slope": 2.986}}
    assert told["rows"][0]["reasons"] == {"as is": "there is no as is"}
    assert told["files"] == {"line.csv": hashlib.sha256((mine.parent / "line.csv").read_bytes()).hexdigest()}
    with (folder / "results.csv").open() as stream:
        metrics = {(one["row"], one["column"], one["metric"], one["group"]): one for one in csv.DictReader(stream)}
    assert metrics["L1", "calibrated", "time error median", ""]["in_sample"] == "False"
    assert metrics["SEEN", "calibrated", "time error median", "low"]["in_sample"] == "True"
    page = (folder / "testbeds.html").read_text()
    assert "data:image/png;base64" in page
    assert "never one number for all" in page
    assert (folder / "line.png").stat().st_size > 10_000


@pytest.fixture(scope="module", params=["shipped", "shared"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """The command on the files that are shipped alone, and with the shared logs: which, its output and its folder."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "shared" and not SHARED.exists():
        pytest.skip("the shared logs are not here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSCHED_DATA", str(SHARED if request.param == "shared" else folder / "nothing"))
        result = CliRunner().invoke(app, ["reproduce", "testbeds", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    return request.param, result.output, folder


def test_the_command_plays_what_is_here_and_says_how_to_get_the_rest(whole: tuple[str, str, Path]) -> None:
    which, output, folder = whole
    told = json.loads((folder / "results.json").read_text())
    assert max(map(len, output.splitlines())) <= 120
    for row in told["rows"]:
        played = {one["column"] for one in told["metrics"] if one["row"] == row["id"]}
        assert played or row["reasons"], row["id"]
        fetch = [why for why in row["reasons"].values() if "gpusched traces fetch" in why]
        assert not fetch or which == "shipped", row["id"]
        assert row["id"] in output
    reasons = [why for row in told["rows"] for why in row["reasons"].values()]
    assert any("gpusched traces fetch muri/" in why for why in reasons) is (which == "shipped")
    assert ("Not played here." in output) is (which == "shipped")
    assert "time error median" in output  # rows of shipped files are played in any case


def test_only_declared_rows_are_in_sample(whole: tuple[str, str, Path]) -> None:
    rows = json.loads((whole[2] / "results.json").read_text())["rows"]
    declared = {entry["id"]: entry.get("in_sample", []) for entry in measured_of()[0]["rows"]}
    assert {row["id"]: row["in_sample"] for row in rows} == declared


def test_docs_show_what_the_command_prints(whole: tuple[str, str, Path]) -> None:
    """Other processors may give other last digits; texts are equal."""
    if whole[0] == "shipped":
        pytest.skip("the page shows all rows")
    number = re.compile(r"[+-]?\d+\.\d+|[ \u2500-\u257f]+")
    stored, fresh = ((ROOT / "docs" / "testbeds.txt").read_text(), whole[1])
    assert number.sub(" ", stored).strip() == number.sub(" ", fresh[: fresh.rindex("\nin ")]).strip()
    of_both = [np.array(re.findall(r"[+-]?\d+\.\d+", text), float) for text in (stored, fresh)]
    np.testing.assert_allclose(*of_both, rtol=0.02, atol=0.3)
