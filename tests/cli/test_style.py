"""One style of all commands: names of options, list and show, tables as JSON, completion, and where old names went."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from code_blocks import blocks_of
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

import gpusched_env.cli
from gpusched_env.cli import app, reproducing
from gpusched_env.evaluation import evaluate
from gpusched_env.support.commands import Command
from studies.reproduce import command
from tests.docs.test_code import PAGES

FOLDER = Path(gpusched_env.cli.__file__).parent
ROOT = FOLDER.parents[1]
MOST_PARAMETERS, MOST_LINES = 6, 60  # of a function of the command line
HOLDS_NAMES = {"scenarios", "schedulers", "agents", "traces", "leaderboard"}  # and not twin, whose files are the user's


def gpusched(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def tree(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every group and every command, with the words that name it."""
    command = typer.main.get_command(app) if command is None else command
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from tree(below, (*path, name))


COMMANDS = {" ".join(path): command for path, command in tree() if isinstance(command, Command)}


def options(command: Any) -> dict[str, Any]:
    """The options of a command by each of their names."""
    found = command.get_params(typer.Context(command))
    return {name: option for option in found for name in (*option.opts, *option.secondary_opts)}


def shows_tables(function: Any) -> bool:
    """Whether a command, or a function of the same module that it calls, calls ``show``; of a clone's, its body."""
    if inspect.getsourcefile(function) == reproducing.__file__:
        function = command.play
    functions = {
        node.name: {
            call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        }
        for node in ast.walk(ast.parse(Path(inspect.getsourcefile(function) or "").read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    reached, new = set(), {function.__name__}
    while new:
        reached |= new
        new = {name for one in reached if one in functions for name in functions[one]} - reached
    return "show" in reached


def test_every_group_that_holds_named_things_lists_and_shows_them() -> None:
    groups = {path[0]: set(command.commands) for path, command in tree() if isinstance(command, TyperGroup) and path}
    assert groups.keys() >= HOLDS_NAMES
    for name in HOLDS_NAMES:
        assert {"list", "show"} <= groups[name], name


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_has_the_names_of_options_that_all_have(path: str) -> None:
    command = COMMANDS[path]
    found = options(command)
    assert not found.keys() & {"--out", "--csv", "--policies", "--policy"}
    assert all(re.fullmatch(r"-w|--[a-z0-9]+(-[a-z0-9]+)*|[a-z_]+", name) for name in found), found.keys()
    for written in ("output", "report", "log"):
        if f"--{written}" in found:
            assert found[f"--{written}"].opts == [f"--{written}"]
    if "--report" in found:
        assert ".html" in found["--report"].help
    if "--log" in found:
        assert "event" in found["--log"].help
    if "--workers" in found:
        assert (found["--workers"].default, found["--workers"].envvar) == (-1, "GPUSCHED_WORKERS")
    assert ("--seed" in found) <= ("--seeds" in found)
    assert "--baselines" not in found
    assert ("--json" in found) == shows_tables(inspect.unwrap(command.function))


def test_a_file_without_option_is_told_the_option() -> None:
    told = gpusched("twin", "slurm-conf", "twin.json", "--conf", "c.conf", "--output", "a.conf", "b.conf")
    assert told.exit_code == 2
    assert "--output names the file" in " ".join(told.stderr.replace("│", "").split())


def test_seeds_are_a_number_or_a_range_and_seed_is_one(tmp_path: Path) -> None:
    run = ("run", "--scenario", "tiny-v1", "--scheduler", "fifo", "--output", tmp_path / "r.json")
    found = []
    for words in (("--seed", "3"), ("--seeds", "3:4")):
        assert gpusched(*run, *words).exit_code == 0
        found.append(json.loads((tmp_path / "r.json").read_text())["results"])
    assert found[0] == found[1]
    assert "this command takes one seed" in gpusched(*run, "--seeds", "2").stderr
    assert "give one of them" in gpusched(*run, "--seeds", "1", "--seed", "3").stderr
    compared = gpusched("compare", "--scenario", "tiny-v1", "--schedulers", "fifo,sjf", "--seed", "3", "--json")
    assert {row["seed"] for row in json.loads(compared.stdout)["tables"][0]["rows"]} == {3}


def test_json_has_the_results_and_notes_go_to_standard_error() -> None:
    told = gpusched("compare", "--scenario", "tiny-v1", "--schedulers", "fifo,sjf", "--seeds", "0:2", "--json")
    assert told.exit_code == 0
    [table] = json.loads(told.stdout)["tables"]
    expected = [result.as_dict() for result in evaluate("tiny-v1", ["fifo", "sjf"], [0, 1], progress=False)]
    assert table["rows"] == json.loads(json.dumps(expected))
    assert any("reserves" in note for note in table["notes"])


@pytest.mark.parametrize(
    "words",
    [
        "scenarios list", "schedulers list", "agents list", "traces list", "leaderboard list",
        "leaderboard show slo-v0",
        "traces describe synthetic:philly --jobs 50", "run --scenario tiny-v1 --scheduler fifo",
        "scenarios tenants --scenario cohort-256-v0 --schedulers fifo-skip --seeds 1 --jobs 60",
    ],
)  # fmt: skip
def test_tables_are_also_json(words: str) -> None:
    told = gpusched(*words.split(), "--json")
    assert told.exit_code == 0, told.stderr
    for table in json.loads(told.stdout)["tables"]:
        assert all(isinstance(row, dict) for row in table["rows"])
    assert json.loads(told.stdout)["tables"]


def test_completion_is_on() -> None:
    root: Any = typer.main.get_command(app)
    assert {"--install-completion", "--show-completion"} <= {name for option in root.params for name in option.opts}


def test_functions_of_the_command_line_are_short() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                parameters = [one.arg for one in (*node.args.args, *node.args.kwonlyargs) if one.arg != "self"]
                assert len(parameters) <= MOST_PARAMETERS, f"{path.name}: {node.name}"
                assert (node.end_lineno or 0) - node.lineno < MOST_LINES, f"{path.name}: {node.name}"


def test_help_and_version_import_neither_kernels_nor_networks() -> None:
    for words in (["--help"], ["--version"], ["compare", "--help"]):
        code = f"import sys\nfrom gpusched_env.cli import app\napp({words}, standalone_mode=False)\nprint(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert not {"numba", "torch", "scipy"} & set(done.stdout.splitlines()[-1].split()), words


def commands_of(block: str) -> Iterator[list[str]]:
    """The words of every command of gpusched, and of train.py as gpusched train, in lines of a shell."""
    text = re.sub(r"(^|\s)#.*", "", block.replace("\\\n", " "))
    reader = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t", True, ""
    command: list[str] = []
    skipped = False
    for word in [*reader, ";"]:
        if word and set(word) <= set("();|&\n"):
            if command[:1] == ["gpusched"]:
                yield command[1:]
            if command[:2] == ["python", "train.py"]:
                yield ["train", *command[2:]]
            command = []
        elif word in ("<", ">", ">>", "<<"):
            skipped = True
        elif skipped:
            skipped = False
        else:
            command.append(word)


def test_the_parser_takes_every_command_line_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)  # folders of files to write are made
    pages = [(page.name, block) for page in PAGES for block in blocks_of(page.read_text("utf-8"))]
    lines = [(page, words) for page, block in pages if block.language == "bash" for words in commands_of(block.text)]
    wrong = []
    for page, words in lines:
        command: Any = typer.main.get_command(app)
        path, rest = "", list(words)
        while rest and rest[0] in getattr(command, "commands", {}):
            command, path = command.commands[rest[0]], f"{path} {rest.pop(0)}"
        if {"--help", "--version"} & {*rest}:
            continue
        try:
            assert isinstance(command, Command), "no command"
            command.make_context(path, rest)
        except Exception as error:
            wrong.append(f"{page}: gpusched {shlex.join(words)}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert len(lines) > 100


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("train --seed -1", "seed is -1: it must be at least 0"),
        ("agents measure a.npz", "unknown agent 'a.npz'"),
    ],
)
def test_settings_that_nothing_would_use_are_refused_in_one_line(command: str, told: str) -> None:
    run = CliRunner().invoke(app, command.split())
    assert run.exit_code == 2
    assert told in run.stderr
    assert len(run.stderr.splitlines()) == 1
