"""The n-th write, or the move at the end, fails: the file is whole or the old one, and no temporary file stays."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import unit_instance

from gpusched_env.agents.checkpoints import write_checkpoint
from gpusched_env.core import compiler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.results import write_csv, write_json
from gpusched_env.evaluation.runner import evaluate
from gpusched_env.files import write_whole
from gpusched_env.leaderboard import About, Track, make_entry, write_entry
from gpusched_env.leaderboard.folders import whole_folder
from gpusched_env.reproduce.results import read_run

MANY = 60  # more operations than any of these outputs has
TRACK = Track("tiny-test", "Tiny", "For tests.", "tiny-v1", reports=1)
ABOUT = About(title="T", authors="A", how="", hardware="", training_seeds=[], link="", licence="MIT")


class Disk:
    """A disk on which operation number ``fails`` fails, after half of the bytes of a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails, self.operations = -1, 0
        plain_open, plain_replace, disk = io.open, os.replace, self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                if disk.next_fails():
                    super().write(bytes(data)[: len(bytes(data)) // 2])
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(data)

        def opened(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wxa") or isinstance(file, int):
                return plain_open(file, mode, buffering, *args, **kwargs)
            raw = Raw(file, mode.replace("b", "").replace("t", ""))
            stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return stream if "b" in mode else io.TextIOWrapper(stream, *args, **kwargs)

        def replaced(*args: Any, **kwargs: Any) -> None:
            if disk.next_fails():
                raise OSError(errno.EIO, "Input/output error")
            plain_replace(*args, **kwargs)

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
