"""The benchmark table:
every row can be measured, a failed run loses only its own rows, and the page shows the samples.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import small_scenario
from rich.console import Console

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # its scripts import each other by their bare names

pytest.importorskip("resource")
commits, contention, measurements, memory, rows, startup, table = map(
    importlib.import_module, ("commits", "contention", "measurements", "memory", "rows", "startup", "table")
)
ROWS, RUNS, Row, Run = rows.ROWS, rows.RUNS, rows.Row, rows.Run

MEASURED = ROOT / "docs" / "performance" / "table.json"


@pytest.mark.parametrize("name", RUNS)
def test_every_run_has_arguments_that_its_function_accepts(name: str) -> None:
    function = inspect.signature(getattr(measurements, RUNS[name].function))
    assert function.bind(**table.arguments_of(RUNS[name], quick=False)).arguments == RUNS[name].arguments
    if RUNS[name].quick is None:
        assert table.arguments_of(RUNS[name], quick=True) is None
    else:
        quick = function.bind(**table.arguments_of(RUNS[name], quick=True)).arguments
        assert quick == {**RUNS[name].arguments, **RUNS[name].quick}


def test_every_row_reads_a_run_and_every_run_has_a_row() -> None:
    assert {row.run for row in ROWS} == set(RUNS)


@pytest.mark.parametrize(
    ("at_least", "value", "says"),
    [
        (True, 1.5, "reached"), (True, 3.0, "reached"), (True, 0.75, "missed by 50%"),
        (False, 1.5, "reached"), (False, 0.1, "reached"), (False, 3.0, "missed by 100%"),
    ],
)  # fmt: skip
def test_a_target_is_reached_or_missed_by_a_share_of_it(at_least: bool, value: float, says: str) -> None:
    assert table.verdict(Row("", "", "", "", "x", 1.5, at_least), value) == says
    assert table.verdict(Row("", "", "", "", "x"), value) == ""


def test_a_run_that_fails_loses_its_own_rows_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [Row("part", "good", "long", "seconds", "s", 2.0), Row("part", "bad", "broken", "seconds", "s", 1.0)]
    runs = {"broken": Run("none such"), "long": Run("agent"), "unmeasured": Run("agent")}
    monkeypatch.setattr(table, "ROWS", [*shown, Row("other", "slow", "unmeasured", "seconds", "s", 1.0)])
    for name, run in runs.items():
        monkeypatch.setitem(table.RUNS, name, run)
    failed = table.measure_apart("broken", quick=False)  # a real process, which knows no such run
    assert failed["missing"].startswith("failed: KeyError")
    assert table.measure_apart("long", quick=True) == {"missing": table.LEFT_OUT}
    answers = {"broken": failed, "long": {"samples": {"seconds": [1.0, 9.0, 0.5]}, "wall_s": 1.0}}
    monkeypatch.setattr(table, "measure_apart", lambda name, quick: answers[name])
    path, page = tmp_path / "table.json", tmp_path / "page.md"
    page.write_text("before\n" + "old\n".join(table.MARKS) + "after\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="failed: broken"):
        table.main(table.Settings(only=("broken", "long"), output=path, page=page))
    assert "missed" not in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n" + table.MARKS[0])
    assert text.endswith(table.MARKS[1] + "after\n")
    assert "old" not in text
    assert "`python benchmarks/table.py --only broken long`" in text
    assert "| good | 1 s | ≤ 2 s |" in text
    assert "| bad |  | ≤ 1 s, failed: KeyError: 'broken' |" in text
    assert "| slow |  | ≤ 1 s, not measured |" in text
    assert json.loads(path.read_text(encoding="utf-8"))["runs"]["long"]["samples"]["seconds"] == [1.0, 9.0, 0.5]


def test_the_page_has_the_table_of_the_measured_samples() -> None:
    data: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    begin, end = table.MARKS
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.partition(begin)[2].partition(end)[0] == table.markdown(data)
    printed = io.StringIO()
    table.show(data, Console(width=200, file=printed))
    assert all(row.what in printed.getvalue() for row in ROWS)


def test_the_page_leaves_out_details_alone_and_none_of_a_run_that_misses_a_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"first": 1.0, "growth": 3.0, "events": 2.0}
    shown = [
        Row(run, f"{figure} of {run}", run, figure, "x", target, detail=figure != "first")
        for run, limit in (("fast", 4.0), ("slow", 2.0))
        for figure, target in (("first", 0.5), ("growth", limit), ("events", None))
    ]
    monkeypatch.setattr(table, "ROWS", shown)
    runs = {run: {"samples": {figure: [value] for figure, value in values.items()}} for run in ("fast", "slow")}
    pages = {
        details: [row[0] for rows in table.parts({"runs": runs}, details=details).values() for row in rows]
        for details in (True, False)
    }
    assert pages[True] == [row.what for row in shown]
    assert pages[False] == ["first of fast", "first of slow", "growth of slow", "events of slow"]


def test_a_commit_is_measured_by_its_own_code(tmp_path: Path) -> None:
    """Its package is imported, not the one of the benchmark."""
    (tmp_path / "gpusched_env").mkdir()
    (tmp_path / "gpusched_env" / "__init__.py").write_text("raise SystemExit('the code of this commit')\n")
    with commits.worker(tmp_path) as measure, pytest.raises(SystemExit, match="'batch philly-256' failed"):
        measure("batch philly-256")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc, as Linux has it")
def test_incremental_rates_equal_rates_from_scratch() -> None:
    settings = contention.Settings(events=40, repeats=1)
    for mix in contention.MIXES:
        found = [contention.measure(settings, mix, 4.0, scratch) for scratch in (False, True)]
        assert found[0]["digest"] == found[1]["digest"]
        assert found[0]["rates_told"] == found[1]["rates_told"] > 0.5


def test_many_decisions_leave_no_memory_behind() -> None:
    """A leak of two bytes a decision, or of a few hundred bytes an episode, would be detected."""
    told = list(memory.long_run(small_scenario(30), 256, 400_000, parts=4, queue_window=6, running_window=4))
    # in the first half memory still grows to what the longest episodes need
    (decisions, resident, episodes), (later, resident_later, episodes_later) = told[1], told[-1]
    assert later - decisions > 180_000
    assert episodes_later - episodes > 1_000
    assert resident_later - resident < 400_000


CACHE = """
import os, pathlib
kept = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
print(len(list(kept.iterdir())), file=open({told!r}, "a"))
(kept / "kernel").touch()
"""


def test_a_start_is_measured_with_an_empty_kernel_cache_then_with_the_one_it_has_filled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    program = startup.Program("counts its kernels", ("-c", CACHE.format(told=str(told))), 20.0)
    monkeypatch.setitem(startup.PROGRAMS, "counts", program)
    found = startup.measure("counts", repeats=2)
    assert told.read_text(encoding="utf-8").split() == ["0", "1", "1"]
    assert min(found[cache]["cpu_s"] for cache in ("empty", "filled")) > 0.0
    printed = io.StringIO()
    yardstick = {cache: {"cpu_s": 1.3, "wall_s": 1.3} for cache in ("empty", "filled")}
    measured = {startup.YARDSTICK: yardstick, "counts": found, "warmup": {"missing": "no such command"}}
    Console(width=200, file=printed).print(startup.table(measured))
    assert "≤ 10.00" in printed.getvalue()  # this yardstick is half of YARDSTICK_S, so goals are halved
    assert "no such command" in printed.getvalue()


def test_a_start_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"divides failed: (.|\n)*ZeroDivisionError"):
        startup.cost(startup.Program("divides", ("-c", "1 / 0")), "nowhere")
    with pytest.raises(SystemExit, match="no moon; there are torch, "):
        startup.main(startup.Settings(only=("moon",)))
