"""The commands: output, files and errors."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ink
from published import TRACES
from rich.console import Console
from typer.testing import CliRunner, Result

import gpusched_env
from gpusched_env.baselines import BASELINES, make_scheduler
from gpusched_env.cli import app
from gpusched_env.cli.listing import list_schedulers
from gpusched_env.errors import unknown_name
from gpusched_env.evaluation import evaluate, read_json
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import COLUMNS
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario, list_scenarios, scenario_from_dict
from gpusched_env.simulator import simulate

ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(gpusched_env.__file__).parents[1])}  # also without an installation
TINY = ["--scenario", "tiny-v1"]
LOG = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"2017-10-09 00:{m:02d}:00,{60 * g},{g},0,a\n" for m, g in enumerate([1, 2, 0, 4, 8, 1])
)


def gpusched(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def shell(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpusched_env.cli", *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_run_prints_every_metric_and_names_the_run() -> None:
    result = gpusched("run", *TINY, "--scheduler", "tiresias:knob=8")
    assert result.exit_code == 0
    title, *lines = result.stdout.splitlines()
    seed = get_scenario("tiny-v1").seeds.report[0]
    expected = f"tiresias:knob=8 on tiny-v1 ({get_scenario('tiny-v1').fingerprint()[:12]}), seed {seed}, gpusched-env "
    assert title == expected + gpusched_env.__version__
    assert all(any(column.formula in line for line in lines) for column in COLUMNS)
    digest = simulate(get_scenario("tiny-v1").instance(seed), make_scheduler("tiresias:knob=8"), seed=seed).digest()
    assert f"event log {digest[:12]}" in result.stdout
    assert "reads true run times" not in result.stdout
    assert "reads true run times" in gpusched("run", *TINY, "--scheduler", "sjf").stdout


def test_run_writes_results_log_and_plot(tmp_path: Path) -> None:
    files = {name: tmp_path / "new" / name for name in ("r.json", "r.csv", "e.npz", "e.txt", "p.png")}
    for output, events in (("r.json", "e.npz"), ("r.csv", "e.txt")):
        arguments = ("--scheduler", "tiresias:knob=8", "--seed", "3", "--output", files[output], "--log", files[events])
        plot = ("--plot", files["p.png"]) if output == "r.json" else ()
        assert gpusched("run", *TINY, *arguments, *plot).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(files)
    [expected] = evaluate("tiny-v1", ["tiresias:knob=8"], [3], progress=False)
    assert read_json(files["r.json"]) == [expected]
    [row] = csv.DictReader(files["r.csv"].read_text().splitlines())
    assert (row["spec"], row["digest"]) == (expected.spec, expected.digest) == ("tiresias:knob=8", expected.digest)
    with np.load(files["e.npz"]) as arrays:
        assert EventLog(**arrays).digest() == expected.digest
    assert len(files["e.txt"].read_text().splitlines()) == len(
        simulate(get_scenario("tiny-v1").instance(3), make_scheduler("tiresias:knob=8")).events
    )
    assert ink(files["p.png"]) > 0.02


def test_compare_prints_and_writes_the_results_of_evaluate(tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    result = gpusched(
        "compare", *TINY, "--schedulers", "fifo,tiresias:knob=8,packlimit=0.5,sjf", "--seeds", "3", "--output", output
    )
    assert result.exit_code == 0
    first = get_scenario("tiny-v1").seeds.report[0]
    assert f", 3 seeds {first}:{first + 3}, " in result.stdout.splitlines()[0]
    assert "95 % interval" in result.stdout.splitlines()[0]
    for expected in ("fifo", "tiresias", "sjf (*, a)", "lower bound", "±", "* reads true run times", "x bound"):
        assert expected in result.stdout
    specs = ["fifo", "tiresias:knob=8,packlimit=0.5", "sjf"]
    assert read_json(output) == evaluate("tiny-v1", specs, range(first, first + 3), progress=False)


def test_compare_writes_tables_and_their_origin(tmp_path: Path) -> None:
    shape = ("--columns", "mean_jct_s,ratio", "--reference", "A & B")
    command = ("compare", *TINY, "--schedulers", "A & B=fifo,las", "--seeds", "0:3", *shape)
    files = {suffix: tmp_path / f"t.{suffix}" for suffix in ("tex", "md", "json", "csv")}
    options = [word for path in files.values() for word in ("--output", path)]
    assert gpusched(*command, *options).exit_code == 0
    digests = {run.label: run.digest for run in read_json(files["json"])}
    assert digests.keys() == {"A & B", "las"}
    with files["csv"].open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    about = json.loads(files["json"].read_text())["about"]
    assert rows[0]["command"] == about["command"]
    for text in (files["tex"].read_text(), files["md"].read_text(), about["command"], json.dumps(about["versions"])):
        assert "compare" in text or "numba" in text
    for suffix in ("tex", "md"):
        text = files[suffix].read_text(encoding="utf-8")
        assert f"command: {about['command']}" in text
        assert all(f"{name} {number}" in text for name, number in about["versions"].items())
        assert len(re.findall(r"event logs of .*: [0-9a-f]{64}", text)) == 2
        assert "x A " in text
        assert "the scenario reserves " in text
    assert r"A \& B" in files["tex"].read_text()
    for form, suffix in (("--latex", "tex"), ("--markdown", "md")):
        told = gpusched(*command, form)
        without = [line for line in told.stdout.splitlines() if "command:" not in line]
        assert without == [line for line in files[suffix].read_text().splitlines() if "command:" not in line]


def test_results_on_standard_output_are_alone_there() -> None:
    command = ("compare", *TINY, "--schedulers", "fifo,mine=las", "--seeds", "0:3", "--output", "-", "--output", "-")
    told = gpusched(*command)
    assert told.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(told.stdout)))
    expected = evaluate("tiny-v1", ["fifo", "mine=las"], range(3), progress=False)
    assert [row["digest"] for row in rows] == [run.digest for run in expected]
    assert [row["scheduler"] for row in rows[::3]] == ["fifo", "mine"]
    assert "lower bound" in told.stderr
    assert "give one" in gpusched(*command, "--json").stderr
    run = gpusched("run", *TINY, "--scheduler", "mine=las", "--seed", "1", "--output", "-")
    assert [row["digest"] for row in csv.DictReader(io.StringIO(run.stdout))] == [expected[4].digest]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--columns", "mean_jtc_s"), "--columns unknown metric 'mean_jtc_s': did you mean 'mean_jct_s'"),
        (("--columns", "ratio,mean_jct_s"), "--columns ratio of which metric? Name it just before"),
        (("--output", "foo-"), "the file's name must end in .json or .csv or .tex or .md"),
        (("--reference", "fif"), "--reference unknown label 'fif': did you mean 'fifo'"),
        (("--latex", "--json"), "--json and --latex: give one of them"),
    ],
)
def test_unknown_columns_and_references_are_refused(options: tuple[str, ...], words: str) -> None:
    told = gpusched("compare", *TINY, "--schedulers", "fifo,las", "--seeds", "1", *options)
    assert (told.exit_code, told.stdout) == (2, "")
    assert words in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_compare_keeps_order_and_results_when_it_plots(tmp_path: Path) -> None:
    plain, plotted, plot = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "p.svg"
    arguments = ("compare", *TINY, "--scheduler", "fifo", "--scheduler", "las", "--seeds", "0:3")
    without = gpusched(*arguments, "--output", plain)
    with_plot = gpusched(*arguments, "--output", plotted, "--plot", plot)
    assert without.exit_code == with_plot.exit_code == 0
    assert without.stdout == with_plot.stdout
    assert "for training" in without.stdout
    written = [json.loads(path.read_text()) for path in (plain, plotted)]
    assert written[0]["results"] == written[1]["results"]
    assert "jobs of all 3 seeds" in plot.read_text()
    assert gpusched(*arguments[:-1], "1:2", "--plot", plot).exit_code == 0


def test_the_figure_of_a_comparison_is_that_of_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same order, labels and reference; on a log, whose seeds have one problem, all seeds count as one."""
    drawn: list[tuple[list[str], int, str, str]] = []

    def remember(instances: list[Instance], logs: dict[str, list[EventLog]], *more: Any) -> None:
        drawn.append((list(logs), len(instances), *more[-1]))

    monkeypatch.setattr("gpusched_env.evaluation.plot_runs", remember)
    common = ("compare", "--schedulers", "fifo,b=las,srtf", "--seeds", "3", "--columns", "mean_jct_s,ratio")
    assert gpusched(*common, *TINY, "--plot", tmp_path / "p.svg", "--output", tmp_path / "t.md").exit_code == 0
    header, _, *rows = [line for line in (tmp_path / "t.md").read_text("utf-8").splitlines() if line.startswith("|")]
    labels = [re.sub("<.*", "", row.split("|")[1]).strip() for row in rows[:-1]]
    assert drawn == [(labels, 3, labels[0], "mean_jct_s")]
    assert f"| x {labels[0]} |" in header
    log = tmp_path / "jobs.csv"
    log.write_text("id,submit,gpus,runtime\n" + "".join(f"{n},{n},4,{100 - n}\n" for n in range(8)))
    same = ("--workload", f"csv:{log}", "--cluster", "1x8", "--plot", tmp_path / "p.svg", "--reference", "fifo")
    told = gpusched(*common[:-1], "makespan_s,ratio", *same)
    assert told.exit_code == 0
    assert drawn[1][1:] == (1, "fifo", "makespan_s")
    assert ", seed 200000, " in told.stdout


def test_a_narrow_terminal_shows_fewer_columns_not_cut_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusched_env.support.consoles.WIDTH_OF_A_PIPE", 80)
    lines = gpusched("compare", *TINY, "--schedulers", "fifo,sjf").stdout
    assert "…" not in lines
    assert "mean JCT" in lines
    assert "more columns in a wider terminal" in " ".join(lines.split())


def test_rows_that_a_reader_dropped_are_printed(log: Path) -> None:
    result = gpusched("run", *TINY, "--workload", f"philly:{log}", "--scheduler", "fifo", "--seed", "0")
    assert result.exit_code == 0
    assert "5 jobs kept" in result.stdout
    assert re.search(r"dropped 1: .*line 4", result.stdout)
    assert "tiny-v1 + philly:log.csv" in result.stdout
    compared = gpusched("compare", *TINY, "--workload", f"philly:{log}", "--schedulers", "fifo,sjf")
    assert "dropped 1: " in compared.stdout
    # one draw only, since the jobs are those of the log
    assert f"seed {get_scenario('tiny-v1').seeds.report[0]}," in compared.stdout
    described = gpusched("traces", "read", f"philly:{log}")
    assert gpusched("traces", "read", "philly", log).stdout == described.stdout
    assert gpusched("traces", "read", "auto", log).stdout == described.stdout
    assert described.exit_code == 0
    assert "5 jobs kept" in described.stdout
    assert "max GPUs" in described.stdout


def test_scenarios_are_listed_and_shown(tmp_path: Path) -> None:
    listed = gpusched("scenarios", "list")
    assert listed.exit_code == 0
    assert all(name in listed.stdout for name in list_scenarios())
    shown = gpusched("scenarios", "show", "philly-64-v1")
    assert scenario_from_dict(json.loads(shown.stdout)) == get_scenario("philly-64-v1")
    path = tmp_path / "mine.json"
    path.write_text(gpusched("scenarios", "show", "tiny-v1").stdout)
    assert "tiny-v1" in gpusched("run", "--scenario", path, "--scheduler", "fifo").stdout


def test_scenarios_are_drawn_with_links_and_loads(tmp_path: Path) -> None:
    plain, busy, again, other = (tmp_path / name for name in ("a.svg", "b.svg", "c.svg", "d.png"))
    draw = ("scenarios", "draw", "rar-160-v0")
    drawn = gpusched(*draw, "--output", plain)
    assert (drawn.exit_code, drawn.stdout) == (0, f"{plain}\n")
    for file in (busy, again):
        assert gpusched(*draw, "--scheduler", "fifo:placement=spread", "--output", file).exit_code == 0
    assert "rar-160-v0" in plain.read_text()
    assert "load of the link" not in plain.read_text()
    assert "fifo:placement=spread on rar-160-v0, seed 200000: busiest after" in busy.read_text()
    assert "load of the link" in busy.read_text()
    assert busy.read_bytes() == again.read_bytes()
    assert gpusched("scenarios", "draw", "tiny-v1", "--network", "oversub4", "--output", other).exit_code == 0
    assert ink(other) > 0.01


def test_links_of_a_preset_are_played_and_compared_by_communication() -> None:
    tiny = ("compare", *TINY, "--schedulers", "fifo,sjf", "--seeds", "1")
    assert "communication [%]" not in gpusched(*tiny).stdout
    linked = gpusched(*tiny, "--network", "pcie4-10g", "--contention", "kway:xi1=0.5")
    assert linked.stdout.startswith("tiny-v1 + pcie4-10g + kway:xi1=0.5 (")
    assert "communication [%]" in linked.stdout


def test_schedulers_are_listed_in_a_line_each_and_explained() -> None:
    lines = gpusched("schedulers", "list").stdout.splitlines()
    assert len(lines) == len(BASELINES) + 3  # headings, a rule, a caption
    for line, (name, baseline) in zip(lines[2:], BASELINES.items(), strict=False):
        assert line.startswith(name)
        assert baseline.summary in line  # a pipe is wide
        assert gpusched("schedulers", "show", name).exit_code == 0
    assert [line for line in lines if line.startswith("sjf-bsbf* ") and line.endswith("sharing")]
    shown = gpusched("schedulers", "show", "sjf").stdout
    assert "strict :" in shown
    assert "sigma :" in shown  # inherited
    shown = gpusched("schedulers", "show", "gavel-fifo").stdout
    assert "to be itself it needs: several GPU types\ndefaults: gavel-fifo:policy=fifo_perf,round_s=360," in shown


def test_a_list_of_schedulers_fits_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, summaries are cut, names and needs are not."""
    stream = io.StringIO()
    terminal = Console(file=stream, width=100, force_terminal=True, no_color=True, highlight=False)
    monkeypatch.setattr("gpusched_env.support.consoles.console", lambda: terminal)
    list_schedulers()
    lines = re.sub(r"\x1b\[[\d;]*m", "", stream.getvalue()).splitlines()
    assert len(lines) == len(BASELINES) + 3
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.startswith("dally-fully-consolidated ") and "… │ spread" in line]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--scheduler", "fif"], "unknown scheduler 'fif': did you mean 'fifo'"),
        (["run", "--scheduler", "fifo,sjf"], "names 2 schedulers"),
        (["run", "--scheduler", "learned:greedy=on"], "give the model's path"),
        (["run", "--scheduler", "fifo", "--scenario", "tiny"], "unknown scenario 'tiny'"),
        (["run", "--scheduler", "fifo", "--scenario", "nowhere.json"], "cannot be read"),
        (["run", "--scheduler", "fifo", "--cluster", "8"], "write NODESxGPUS"),
        (["run", "--scheduler", "fifo", "--cluster", "1x2"], "but the cluster has 2"),
        (["run", "--scheduler", "fifo", "--cluster", "2x4", "--workload", "phily:log.csv"], "did you mean 'philly'"),
        (["run", "--scheduler", "fifo", "--cluster", "2x4", "--workload", "philly:nowhere.csv"], "no such file"),
        (["run", "--scheduler", "fifo", "--workload", "philly:log.csv"], "on which machines? Give --cluster"),
        (["run", "--scheduler", "fifo", "--log", "log.csv"], "must end in .npz or .txt"),
        (["run", "--scheduler", "fifo", "--plot", "plot.gif"], "must end in .png or .svg or .pdf"),
        (["compare", "--schedulers", "fifo,fifo"], "are the same"),
        (["compare", "--schedulers", "fifo", "--seeds", "99"], "has 20 report seeds"),
        (["compare", "--schedulers", "fifo", "--workers", "0"], "workers is 0"),
        (["schedulers", "show", "fif"], "unknown scheduler"),
        (["scenarios", "show", "nix"], "unknown scenario"),
        (["scenarios", "draw", "tiny-v1", "--output", "a.png"], "priced by tiers and has no links to draw"),
        (["scenarios", "draw", "rar-160-v0", "--output", "a.gif"], "--output a.gif: the file's name must end in .png"),
        (["run", "--scheduler", "fifo", "--network", "oversub"], "did you mean 'oversub4'"),
        (["run", "--scheduler", "fifo", "--contention", "kway"], "give --network as well"),
        (["traces", "read", "log.csv"], "write FORMAT:PATH, or auto:PATH"),
        (["traces", "read", "philly:log.csv", "log.csv"], "not both"),
        (["traces", "read", "auto", "nowhere.csv"], "no such file"),
    ],
)
def test_wrong_input_is_one_line_on_stderr(arguments: list[str], message: str) -> None:
    result = gpusched(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("gpusched: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["run", "--scheduler", "TIRESIAS"], "tiresias"),
        (["schedulers", "show", "sjf-bsf"], "sjf-bsbf"),
        (["compare", "--schedulers", "learned:phily"], "philly-64"),
        (["run", "--scheduler", "fifo", "--scenario", "phily-64"], "philly-64-v1"),
        (["leaderboard", "show", "genral-v1"], "general-v1"),
        (["traces", "show", "phily"], "philly"),
    ],
)
def test_of_many_names_only_the_most_similar_are_told(arguments: list[str], near: str) -> None:
    told = gpusched(*arguments).stderr
    assert f"{near!r}" in told
    assert told.count(" or '") <= 2
    assert re.search(r"\? gpusched (schedulers|agents|scenarios|leaderboard|traces) list( '\*')? names them all", told)
    assert len(told) < 250


@pytest.mark.parametrize(("name", "agent"), [("learned", "general"), ("learned:philly-64", "philly-64")])
def test_the_name_of_a_scheduler_shows_the_agent_that_it_plays(name: str, agent: str) -> None:
    shown = gpusched("agents", "show", name)
    assert shown.exit_code == 0
    assert shown.stdout == gpusched("agents", "show", agent).stdout


@pytest.mark.parametrize(
    ("known", "listed_by", "message"),
    [
        (["one", "two"], "gpusched x list", "unknown thing 'zzz': known: one, two"),
        ([], "", "unknown thing 'zzz': known: none"),
        ([f"n{i}" for i in range(9)], "gpusched x list", "unknown thing 'zzz': gpusched x list names them all"),
        ([f"n{i}" for i in range(9)], "", "unknown thing 'zzz': known: n0, n1, n2, n3, n4, n5, n6, n7, n8"),
        (["ZZ", *(f"n{i}" for i in range(9))], "", "unknown thing 'zzz': did you mean 'ZZ'?"),
    ],
)
def test_an_unknown_name_always_has_a_remedy(known: list[str], listed_by: str, message: str) -> None:
    assert unknown_name("thing", "zzz", known, listed_by) == message


def test_an_unwritable_output_is_refused_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr("gpusched_env.evaluation.evaluate", never)
    (tmp_path / "file").write_text("")
    for option in ("--output", "--plot"):
        place = tmp_path / "file" / ("a.json" if option == "--output" else "a.png")
        for command in (["run", "--scheduler", "fifo"], ["compare", "--schedulers", "fifo"]):
            result = gpusched(*command, option, place)
            assert result.exit_code == 2
            assert f"{option} {place}: cannot be written" in result.stderr


def test_a_scheduler_of_your_own_in_the_current_folder(tmp_path: Path) -> None:
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "module.py").write_text(
        textwrap.dedent("""
        from dataclasses import dataclass

        from gpusched_env import Scheduler, Start


        @dataclass
        class MyScheduler(Scheduler):
            rule: str = "pack"

            def decide(self, view):
                for job in sorted(view.waiting, key=lambda job: view.gpus[job]):
                    yield Start(job, self.rule)


        class Lazy(Scheduler):
            def decide(self, view):
                return []


        class Broken(Scheduler):
            def decide(self, view):
                return 1 / 0
        """)
    )
    specs = "mypackage.module:MyScheduler,mypackage.module:MyScheduler:rule=spread,fifo"
    found = shell("compare", *TINY, "--schedulers", specs, "--seeds", "2", "--workers", "2", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "MyScheduler:rule=spread" in found.stdout
    lazy = shell("run", *TINY, "--scheduler", "mypackage.module:Lazy", cwd=tmp_path)
    assert (lazy.returncode, lazy.stdout) == (2, "")
    assert lazy.stderr.splitlines()[-1].startswith("gpusched: scheduler 'Lazy' stalls")
    assert "Traceback" not in lazy.stderr
    broken = shell("run", *TINY, "--scheduler", "mypackage.module:Broken", cwd=tmp_path)
    assert broken.returncode == 1
    assert "ZeroDivisionError" in broken.stderr


USERS = """
from gpusched_env import Scheduler, Start


class Broken(Scheduler):
    def decide(self, view):
        return self.chosen(view)

    def chosen(self, view):
        return view.nothing


class Misspelt(Scheduler):
    def decide(self, view):
        for job in view.waiting:
            yield Start(job, "pakc")
"""


@pytest.mark.parametrize("several", [False, True])  # runs: of several, each is in a process of its own
def test_an_error_of_a_users_scheduler_shows_the_users_lines_first(tmp_path: Path, several: bool) -> None:
    (tmp_path / "mine.py").write_text(USERS)
    line = {text.strip(): number for number, text in enumerate(USERS.splitlines(), 1)}
    command = ["compare", *TINY, "--seeds", "2", "--workers", "2"] if several else ["run", *TINY]
    broken = shell(*command, "--scheduler" + "s" * several, "mine:Broken", cwd=tmp_path)
    assert broken.returncode == 1
    first, *below, last = broken.stderr.splitlines()
    at = f"mine.py, line {line['return view.nothing']}: AttributeError: 'ClusterView' object has no attribute"
    assert first.startswith("gpusched: ")
    assert at in first
    files = [told for told in below if told.startswith("  File ")]
    assert [re.findall("line (\\d+), in (\\w+)", told) for told in files] == [
        [(str(line["return self.chosen(view)"]), "decide")], [(str(line["return view.nothing"]), "chosen")]
    ]  # fmt: skip
    assert last == "GPUSCHED_TRACEBACK=1 shows the whole traceback"
    told = shell(*command, "--scheduler" + "s" * several, "mine:Misspelt", cwd=tmp_path)
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert f"mine.py, line {len(USERS.splitlines())}: unknown placement rule 'pakc'" in told.stderr


def test_the_whole_traceback_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(USERS)
    monkeypatch.setitem(ENVIRONMENT, "GPUSCHED_TRACEBACK", "1")
    told = shell("run", *TINY, "--scheduler", "mine:Broken", cwd=tmp_path).stderr
    assert told.startswith("Traceback")
    assert "gpusched_env" in told


HELPS = """
import contextlib, io, re, sys
import typer
from gpusched_env.cli import app

def paths(command, path):
    yield path
    for option in command.get_params(typer.Context(command)):  # a word in brackets would be markup, and not be shown
        assert not re.search(r"(?<!\\\\)\\[", getattr(option, "help", None) or ""), (path, option.name)
    for name, below in getattr(command, "commands", {}).items():
        if name != "train":  # the options of training come with torch
            yield from paths(below, [*path, name])

for path in paths(typer.main.get_command(app), []):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        app([*path, "--help"], standalone_mode=False)
    assert "Usage:" in printed.getvalue(), path
    print(" ".join(["gpusched", *path]))
app(["--version"], standalone_mode=False)
print(*sys.modules)
"""


def test_help_of_every_command_and_version_import_nothing_heavy_and_compile_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELPS], env=ENVIRONMENT | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    *told, modules = done.stdout.splitlines()
    assert {"gpusched", "gpusched run", "gpusched compare", "gpusched leaderboard submit"} < set(told)
    assert told[-1] == f"gpusched-env {gpusched_env.__version__}"
    heavy = {"numba", "llvmlite", "scipy", "networkx", "matplotlib", "torch", "joblib", "requests", "pandas", "jinja2"}
    assert not (heavy | {"gpusched_env.simulator"}) & set(modules.split())
    assert not list(tmp_path.iterdir())


WIDE = "job_id,arrival_s,duration_s,num_gpus,gpu_types\n1,0,100,64,\n2,10,200,8,A100\n3,20,300,128,H100|A100\n"


def test_a_log_without_a_scenario_takes_nothing_from_one(tmp_path: Path) -> None:
    """The 64 and 128 GPUs are more than the scenario that is played by default draws, and run times are the log's."""
    (tmp_path / "log.csv").write_text(WIDE, encoding="utf-8")
    log, output = f"csv:{tmp_path / 'log.csv'}", tmp_path / "runs.json"
    result = gpusched("run", "--workload", log, "--cluster", "32x8", "--scheduler", "fifo", "--output", output)
    assert "3 jobs kept" in result.stdout
    assert "fifo on csv:log.csv + 32x8 (" in result.stdout
    (run,) = json.loads(output.read_text(encoding="utf-8"))["results"]
    assert (run["metrics"]["jobs"], run["metrics"]["mean_jct_s"], run["metrics"]["makespan_s"]) == (3, 200.0, 320.0)


def test_a_job_larger_than_the_cluster_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(WIDE, encoding="utf-8")
    command = "run", "--workload", f"csv:{tmp_path / 'log.csv'}", "--cluster", "4x8", "--scheduler", "fifo"
    told = gpusched(*command).stderr
    assert "job 2: demands 128 GPUs but the cluster has 32 (jobs that demand more: 2)" in told
    assert "--max-gpus 32" in told
    assert gpusched(*command, "--max-gpus", "32").exit_code == 0


def test_every_drop_and_every_ignored_demand_is_in_every_output(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(WIDE, encoding="utf-8")
    files = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "html")}
    command = "--workload", f"csv:{tmp_path / 'log.csv'}", "--cluster", "8x8", "--max-gpus", "64"
    dropped = "dropped: more than 64 GPUs (max_gpus)"
    ignored = "ignored: jobs ask for a GPU type other than V100"
    for kind in ("json", "csv"):
        more = ("--report", files["html"]) if kind == "csv" else ()
        result = gpusched("compare", *command, "--schedulers", "fifo,sjf", "--output", files[kind], *more)
        assert result.exit_code == 0, result.stderr
        assert "dropped 1: more than 64 GPUs (max_gpus)" in result.stdout
        assert f"{ignored}: 1" in result.stdout
    for run in json.loads(files["json"].read_text(encoding="utf-8"))["results"]:
        assert run["caveats"] == {dropped: 1, ignored: 1}
    with files["csv"].open(encoding="utf-8", newline="") as stream:
        assert [row["caveats"] for row in csv.DictReader(stream)] == [f"{dropped}: 1; {ignored}: 1"] * 2
    page = files["html"].read_text(encoding="utf-8")
    for line in (dropped, ignored):
        assert f"<p>{line}: 1</p>" in page
    (shown,) = json.loads(gpusched("run", *command, "--scheduler", "fifo", "--json").stdout)["tables"]
    assert shown["rows"][0]["caveats"] == {dropped: 1, ignored: 1}
    assert shown["notes"][-1] == f"{ignored}: 1"


@pytest.mark.parametrize(
    ("scenario", "source", "jobs"),
    [
        ("philly-full-v1", "philly:philly/philly_jobs.csv.gz", "62,861"),
        ("helios-venus-v1", "helios:helios/venus_gpu_jobs_to_2020-07.csv.gz", "77,574"),
    ],
)
def test_real_logs_play_to_the_end(scenario: str, source: str, jobs: str) -> None:
    reader, _, path = source.partition(":")
    if not (TRACES / path).exists():
        pytest.skip("no public log on this machine")
    result = gpusched("run", "--scenario", scenario, "--workload", f"{reader}:{TRACES / path}", "--scheduler", "fifo")
    assert result.exit_code == 0
    assert f"{jobs} jobs kept" in result.stdout
    assert re.search(rf"finished +│ +{jobs} ", result.stdout)


STOPS = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
from gpusched_env.simulator import Scheduler

class Stops(Scheduler):
    def decide(self, view):
        os.kill(os.getpid(), signal.SIGINT)
        yield from ()
"""


def test_an_interrupted_comparison_keeps_finished_runs(tmp_path: Path) -> None:
    (tmp_path / "stops.py").write_text(STOPS)
    compare = ("compare", *TINY, "--schedulers", "tiresias:knob=8,stops:Stops", "--seeds", "0:2")
    told = shell(*compare, "--output", "r.json", cwd=tmp_path)
    assert told.returncode == 130
    assert told.stderr.splitlines()[-1] == "gpusched: interrupted: 1 of 4 runs were finished and are in r.json"
    assert "Traceback" not in told.stderr
    [kept] = read_json(tmp_path / "r.json")
    assert (kept.spec, kept.seed) == ("tiresias:knob=8", 0)
    told = shell(*compare, cwd=tmp_path)
    assert told.returncode == 130
    assert told.stderr.endswith("1 of 4 runs were finished; nothing was written (--output keeps finished runs)\n")
    assert told.stdout == ""
    assert shell("run", *TINY, "--scheduler", "stops:Stops", cwd=tmp_path).stderr.endswith(
        "gpusched: interrupted: 0 of 1 runs were finished\n"
    )


def test_a_comparison_that_an_error_ends_keeps_finished_runs(tmp_path: Path) -> None:
    stalls = "from gpusched_env.simulator import Scheduler\nclass Stalls(Scheduler):\n    def decide(self, view):\n"
    (tmp_path / "stalls.py").write_text(f"{stalls}        return ()\n")
    compare = ("compare", *TINY, "--schedulers", "fifo,stalls:Stalls", "--seeds", "0:2")
    told = shell(*compare, "--output", "r.json", cwd=tmp_path)
    assert told.returncode == 2
    [line] = told.stderr.splitlines()
    assert "Stalls" in line
    assert line.endswith("; 1 of 4 runs were finished and are in r.json")
    assert [(kept.label, kept.seed) for kept in read_json(tmp_path / "r.json")] == [("fifo", 0)]
    shell(*compare, "--columns", "makespan_s,ratio", "--reference", "stalls:Stalls", "--output", "r.md", cwd=tmp_path)
    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert re.search(r"\| scheduler \| makespan \[\w+\] \| x fifo \|", text)
    assert "the runs ended early" in text
    assert get_scenario("tiny-v1").fingerprint()[:12] in text.partition("|")[0]  # in the caption


def test_piped_output_has_no_trailing_blanks() -> None:
    for arguments in (
        ("run", *TINY, "--scheduler", "fifo"),
        ("compare", *TINY, "--schedulers", "fifo,sjf"),
        ("scenarios", "list"),
        ("schedulers", "list"),
        ("traces", "list"),
        ("traces", "describe", "synthetic:poisson"),
    ):
        lines = gpusched(*arguments).stdout.splitlines()
        assert len(lines) > 3
        assert [line for line in lines if line != line.rstrip()] == []


def test_an_encoding_that_lacks_characters_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "PYTHONIOENCODING", "ascii")
    told = shell("compare", *TINY, "--schedulers", "fifo,sjf")
    assert told.returncode == 0
    assert "mean ? 95 % interval" in told.stdout
    notes = [line for line in told.stderr.splitlines() if "PYTHONIOENCODING" in line]
    assert len(notes) == 1
    assert "the encoding ascii lacks" in notes[0]


TWELVE = """
from gpusched_env.core.handle import Handle, array, kernel
import numpy as np

class Numbers(Handle):
    some = array(np.float64, "numbers")

@kernel
def last(numbers: Numbers) -> float:
    return numbers.some[0]
""" + "".join(
    f"""
@kernel
def number_{k}(numbers: Numbers) -> float:
    return {f"number_{k - 1}" if k else "last"}(numbers) + 1.0
"""
    for k in range(11)
)  # fmt: skip
IN_PROCESSES = """
from gpusched_env.support.consoles import prepare_output
from gpusched_env.evaluation.processes import in_processes
prepare_output()
import matplotlib.pyplot, numpy, gpusched_env.simulator, twelve

def call(number):
    import gpusched_env.simulator, twelve
    return twelve.number_10(twelve.Numbers(some=numpy.array([number])))

print(call(0.0), *in_processes(call, [(1.0,), (2.0,)], 2))
"""


def test_an_unwritable_cache_is_reported_by_the_main_process_only(tmp_path: Path) -> None:
    """Matplotlib says nothing about its own folder."""
    (tmp_path / "file").touch()
    (tmp_path / "twelve.py").write_text(TWELVE)
    # no user, not even root, can create a folder in a file
    unwritable = dict.fromkeys(("NUMBA_CACHE_DIR", "MPLCONFIGDIR"), str(tmp_path / "file" / "folder"))
    paths = os.pathsep.join([str(tmp_path), str(Path(gpusched_env.__file__).parents[1])])
    told = subprocess.run(
        [sys.executable, "-c", IN_PROCESSES], env=ENVIRONMENT | unwritable | {"PYTHONPATH": paths}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert told.stdout.split() == ["11.0", "12.0", "13.0"]
    lines = told.stderr.splitlines()
    assert 0 < len(lines) <= 2, lines
    for line in lines:
        assert line.startswith("gpusched_env: compiling 12 kernels (in every process, ")
        assert "the cache folder is not writable; set NUMBA_CACHE_DIR to another folder" in line


def test_reading_a_log_shows_progress(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, int, int]] = []
    monkeypatch.setattr(ProgressBar, "advanced", lambda self, *told: shown.append(told))
    monkeypatch.setattr("gpusched_env.evaluation.progress.MEGA", 1)
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(LOG.encode()))
    for path in (log, packed):
        for arguments in (
            ("traces", "read"),
            ("traces", "describe"),
            ("run", *TINY, "--scheduler", "fifo", "--workload"),
        ):
            shown.clear()
            assert gpusched(*arguments, f"philly:{path}").exit_code == 0
            size = path.stat().st_size
            assert (f"reading {path.name}: MB", size, size) in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [["run", *TINY, "--scheduler", "fifo"], ["--help"]], ids=lambda one: one[0])
def test_a_full_standard_output_is_told_in_one_line(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "gpusched_env.cli", *command],
            env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert run.returncode == 1
    assert re.fullmatch(r"standard output cannot be written \(.*\); free space or name another place\n", run.stderr)


@pytest.mark.parametrize("size", [2**31, 10**26, 10**400], ids=["2^31", "10^26", "10^400"])
def test_a_gang_size_beyond_what_a_workload_holds_is_refused_in_one_line(size: object, tmp_path: Path) -> None:
    scenario = get_scenario("tiny-v1").as_dict()
    scenario["workload"]["parameters"]["demand"] = {"1": 0.5, str(size): 0.5}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(scenario))
    run = gpusched("run", "--scenario", path, "--scheduler", "fifo")
    assert run.exit_code == 2
    assert "demand is" in run.stderr
    assert "sizes from 1 to 2,147,483,647" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_snapshot_without_queued_jobs_says_that_nothing_is_to_forecast(tmp_path: Path) -> None:
    (tmp_path / "now.json").write_text('{"time": "2025-01-20T12:00:00"}')
    rows = ["7|COMPLETED|8|2025-01-03T09:00:00|2025-01-03T09:05:00|2025-01-03T11:05:00"] * 2
    header = "JobID|State|AllocTRES|Submit|Start|End"
    told = "\n".join(
        [
            header,
            rows[0].replace("|8|", "|gres/gpu=8|"),
            rows[1].replace("7|C", "8|C", 1).replace("|8|", "|gres/gpu=8|"),
        ]
    )
    (tmp_path / "log.txt").write_text(told + "\n")
    arguments = ["--snapshot", tmp_path / "now.json", "--history", f"slurm:{tmp_path / 'log.txt'}", "--cluster", "2x8"]
    run = gpusched("twin", "forecast", *arguments, "--futures", "2", "--output", tmp_path / "out.csv")
    assert run.exit_code == 0, run.output
    assert "no job of the snapshot is queued: there is nothing to forecast" in run.output
    assert (tmp_path / "out.csv").read_text().count("\n") == 1
