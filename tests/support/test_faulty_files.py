"""The n-th write, or the move at the end, fails: the file is whole or the old one, and no temporary file stays."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import unit_instance
from typer.testing import CliRunner

from gpusched_env.agents.checkpoints import write_checkpoint
from gpusched_env.agents.run_folder import RunFolder
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.cli.app import app
from gpusched_env.core import compiler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.results import write_csv, write_json
from gpusched_env.evaluation.runner import evaluate
from gpusched_env.leaderboard import About, Track, make_entry, write_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.support.files import write_whole
from studies.reproduce import load_card, play_card
from studies.reproduce.results import read_run, write_run
from tools.__main__ import app as tools_app
from tools.leaderboard.folders import whole_folder
from tools.leaderboard.site import build_site

MANY = 60  # more operations than any of these outputs has
TRACK = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", reports=1)
ABOUT = About(title="T", authors="A", how="", hardware="", training_seeds=[], link="", licence="MIT")


class Disk:
    """A disk on which operation number ``fails`` fails, after half of the bytes of a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails, self.operations = -1, 0
        plain_open, plain_replace, plain_mkdir, disk = io.open, os.replace, os.mkdir, self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                if disk.next_fails():
                    super().write(bytes(data)[: len(bytes(data)) // 2])
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wxa") or isinstance(file, int) or "opener" in kwargs:
                return plain_open(file, mode, buffering, *args, **kwargs)
            raw = Raw(file, mode.replace("b", "").replace("t", ""))
            stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return stream if "b" in mode else io.TextIOWrapper(stream, *args, **kwargs)

        def replaced(*args: Any, **kwargs: Any) -> None:
            if disk.next_fails():
                raise OSError(errno.EIO, "Input/output error")
            plain_replace(*args, **kwargs)

        def made(*args: Any, **kwargs: Any) -> None:
            if disk.next_fails():
                raise OSError(errno.ENOSPC, "No space left on device")
            plain_mkdir(*args, **kwargs)

        monkeypatch.setattr(os, "mkdir", made)
        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr(builtins, "open", opened)
        monkeypatch.setattr(os, "replace", replaced)

    def next_fails(self) -> bool:
        self.operations += 1
        return self.operations - 1 == self.fails


def writers() -> Iterator[tuple[str, str, Callable[[Path, int], None]]]:
    """Yield (name, file, function that writes version 0 or 1 of the file)."""
    results = [list(evaluate("tiny-v1", [spec], [0], progress=False)) for spec in ("fifo", "srtf")]
    entries = [make_entry(TRACK, spec, ABOUT, progress=False) for spec in ("fifo", "srtf")]

    def folder(path: Path, version: int) -> None:
        with whole_folder(path, "mark") as fresh:
            for name in ("a", "b"):
                (fresh / name).write_text(str(version) * 9)

    def kernel(path: Path, version: int) -> None:
        made = type("Made", (), {"_reduce": lambda self: version})()
        compiler._keep(path, made)

    yield "text", "a.txt", lambda path, version: write_whole(path, str(version) * 99_999)
    yield "results as JSON", "a.json", lambda path, version: write_json(results[version], path)
    yield "results as CSV", "a.csv", lambda path, version: write_csv(results[version], path)
    yield "jobs", "a.npz", lambda path, version: unit_instance([0, version], [1, 1], [5, 5], "1x1").workload.save(path)
    yield "entry", "a.entry.xz", lambda path, version: write_entry(entries[version], path)
    yield "checkpoint", "m.npz", lambda path, version: write_checkpoint(path, {}, {"w": np.full(99, float(version))})
    yield "site", "site", folder
    yield "kernel", "kernel-1", kernel


def state(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}
    return {"": path.read_bytes()}


def test_after_any_fault_a_file_is_the_old_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = list(writers())
    disk = Disk(monkeypatch)
    for name, file, write in cases:
        (folder := tmp_path / name).mkdir()
        write(folder / file, 1)
        new = state(folder / file)
        write(folder / file, 0)
        old = state(folder / file)
        assert old != new, name
        for number in range(MANY):
            disk.fails, disk.operations, told = number, 0, "cannot be written"
            try:
                write(folder / file, 1)
            except GpuschedError as error:
                told = str(error)
            failed = disk.operations > number
            disk.fails = -1
            assert "cannot be written" in told
            assert "\n" not in told
            assert state(folder / file) in (old, new), f"{name}: operation {number}"
            assert [one.name for one in folder.iterdir()] == [file], f"{name}: operation {number}"
            if not failed:
                assert state(folder / file) == new
                break
            write(folder / file, 0)
        else:
            pytest.fail(f"{name} has more than {MANY} operations")
        assert number >= 2, f"{name}: a write and a move"


def test_a_damaged_run_in_the_cache_is_played_again(tmp_path: Path) -> None:
    for text in ("", "{", '{"scenario": 1}', "\0" * 9):
        (tmp_path / "a.json").write_text(text)
        assert read_run(tmp_path / "a.json") is None


def runs(line: str, program: Any = app) -> Callable[[Path, int], str]:
    """Return a function that runs a command in this process: version 0 or 1 in place of {v}, its folder in that of {}.

    It returns the line of the error; "" = there was none.
    """

    def run(folder: Path, version: int) -> str:
        done = CliRunner().invoke(program, line.replace("{v}", str(version)).replace("{}", str(folder)).split())
        if done.exit_code == 0:
            return ""
        assert isinstance(done.exception, SystemExit), repr(done.exception)
        (told,) = re.findall("^gpusched: .*", done.output, re.MULTILINE)
        return told

    return run


def training(folder: Path, version: int) -> str:
    config = TrainingConfig(
        scenario="tiny-v1", steps=128, workloads=1, copies=2, batch=32, epochs=1, validations=2, validation_seeds=1,
        teacher="", seed=version,
    )  # fmt: skip
    try:
        train(config, folder)
    except GpuschedError as error:
        return str(error)
    return ""


def dataset(folder: Path, version: int) -> str:
    shutil.rmtree(folder / "data", ignore_errors=True)  # a dataset is never replaced
    play = "--scenario tiny-v1 --scheduler srtf:placement=consolidate"
    command = f"datasets {play} --seeds {version}:3 --output {{}}/data"
    return runs(command, tools_app)(folder, version)


def site(folder: Path, version: int) -> str:
    entries = [entry for entry in shipped_entries("slo-v0") if entry.player.spec in ("fifo", "sjf")]
    try:
        build_site([], folder / "site", entries[: version + 1], tracks=["slo-v0"])
    except GpuschedError as error:
        return str(error)
    return ""


# Command -> whether each file must be the old or the new one (a training replaces one after the other, several times).
COMMANDS: dict[str, tuple[Callable[[Path, int], str], bool]] = {
    "run": (runs("run --scenario tiny-v1 --scheduler srtf --seed {v} --output {}/a.json --log {}/a.npz"), True),
    "compare": (runs("compare --scenario tiny-v1 --schedulers fifo,srtf --seeds {v}:5 --output {}/a.csv"), True),
    "export": (runs("traces export --scenario tiny-v1 --seed {v} --format sacct --output {}/a.txt"), True),
    "dataset": (dataset, True),
    "site": (site, True),
    "training": (training, False),
}  # fmt: skip
MORE = int(os.environ.get("GPUSCHED_FAULTS", "0"))  # operations of each command that fail; 0 = a sample of them


def check_fault(name: str, folder: Path, fail: Callable[[int], Any], faults: Iterator[int]) -> None:
    """Let a command fail in some ways, after an old version: all is whole or old, and the next call succeeds."""
    run, once = COMMANDS[name]
    whole = []
    for version in (1, 0):
        (place := folder / f"whole{version}").mkdir()
        assert run(place, version) == ""
        whole.append(contents(place))
    (place := folder / "faults").mkdir()
    assert run(place, 0) == ""
    old = contents(place)
    failures = 0
    for number in faults:
        with fail(number):
            told = run(place, 1)
        failures += bool(told)
        assert "\n" not in told, f"{name}, {number}"
        for path, content in contents(place).items():
            assert ".part" not in path, f"{name}, {number}: {path}"
            assert not once or content in (old.get(path), whole[0].get(path)), f"{name}, {number}: {path}"
        assert run(place, 0) == "" if once else True
    assert failures, f"{name}: nothing has failed"
    assert run(place, 1) == ""
    assert {**whole[1], **whole[0]}.items() >= contents(place).items() >= whole[0].items()


def contents(folder: Path) -> dict[str, bytes]:
    """Files but for the logs of TensorBoard, which grow; datasets by their names, because HDF5 writes the time.

    Results tell the command, which names the folder: it is left out.
    """
    found = {str(one.relative_to(folder)): one for one in folder.rglob("*") if one.is_file()}

    def told(path: Path) -> bytes:
        return path.read_bytes().replace(bytes(folder), b"")

    return {
        name: b"" if "main_data" in name or name.endswith("metadata.json") else told(one)
        for name, one in found.items()
        if "tensorboard" not in name
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_an_operation_of_a_command_fails(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.leaderboard.runs.apart", lambda function, arguments, _: function(*arguments))
    monkeypatch.setattr("matplotlib.font_manager.json_dump", lambda *_: None)
    disk = Disk(monkeypatch)

    @contextlib.contextmanager
    def fail(number: int) -> Iterator[None]:
        disk.operations, disk.fails = 0, number
        try:
            yield
        finally:
            disk.fails = -1

    check_fault(name, tmp_path, fail, iter(range(MORE)) if MORE else iter((0, 2, 9)))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of the size of files is that of Linux")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_cannot_grow(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system refuses writes beyond a size, also those of HDF5 and torch, which do not use Python's files."""
    import resource

    monkeypatch.setattr("tools.leaderboard.runs.apart", lambda function, arguments, _: function(*arguments))

    @contextlib.contextmanager
    def fail(number: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4**number, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    check_fault(name, tmp_path, fail, iter(range(3, 10)) if MORE else iter((3, 6)))


def test_the_cache_of_a_card_survives_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_card("sjf-bco")
    some = card.runs(quick=True)[:6]
    monkeypatch.setattr(type(card), "runs", lambda self, quick: some)
    whole = [run.as_dict() for run in play_card(card, tmp_path / "whole")[0].runs]
    disk, failures = Disk(monkeypatch), 0
    for number in range(20):
        disk.fails, disk.operations = number, 0
        try:
            play_card(card, tmp_path / "faults")
        except GpuschedError as error:
            failures += "\n" not in str(error)
        disk.fails = -1
        assert not list((tmp_path / "faults").rglob("*.part*"))
    assert failures >= 6
    assert [run.as_dict() for run in play_card(card, tmp_path / "faults")[0].runs] == whole


def test_a_number_in_the_cache_of_a_card_is_not_changed_silently(tmp_path: Path) -> None:
    (run,) = evaluate("tiny-v1", ["fifo"], [0], progress=False)
    write_run(tmp_path / "a.json", run)
    assert read_run(tmp_path / "a.json") == run
    text = (tmp_path / "a.json").read_text()
    for at in (one.start() for one in re.finditer(r"\d", text)):
        (tmp_path / "a.json").write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")
        assert read_run(tmp_path / "a.json") in (None, run)  # a last digit may round to the same number


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in (f".{'a' * 16}.part", f".{'b' * 16}.part.npz", ".x.part"))
    for path in (old, new, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (0.0, 0.0))
    write_whole(tmp_path / "a.txt", "a")
    assert not old.exists()
    assert new.exists()
    assert other.exists()


def test_a_training_ends_if_its_events_cannot_be_written(tmp_path: Path) -> None:
    """The thread of tensorboardX dies, and nobody empties its queue."""
    folder = RunFolder(tmp_path, {}, False)
    folder._writer.file_writer.event_writer._worker.stop()
    with pytest.raises(GpuschedError, match="tensorboard: cannot be written"):
        folder.log({"steps": 1})
