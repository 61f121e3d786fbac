"""Damage files of every kind and read them: each is refused in one line, or gives what it should."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.leaderboard import About, Track, make_entry, read_entry, verify, write_entry
from gpusched_env.leaderboard.child_process import apart
from gpusched_env.support.files import read_arrays

TRACK: Final = Track("soak", "Soak", "For the soak.", "tiny-v1", reports=2)
ABOUT: Final = About(title="", authors="", how="", hardware="", training_seeds=[], link="", licence="MIT")
LIMIT_S: Final = 60.0  # [CPU s] of a reading
DATASET: Final = "gpusched/soak-v0"
MODEL: Final = "run --scenario tiny-v1 --scheduler learned:path={}/model.npz --output {}/out.json"
# Reading gives the same as before the damage; other files have no digest, so another number is another problem.
SEALED: Final = ("entry", "jobs", "log", "card", "kernels")


def _command(text: str) -> Callable[[Path], str]:
    """Return a function that runs a command on a folder, in this process, and returns what it prints and writes."""

    def read(folder: Path) -> str:
        from typer.testing import CliRunner

        from gpusched_env.cli.app import app

        done = CliRunner().invoke(app, text.replace("{}", str(folder)).split())
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code:
            (told,) = re.findall("^gpusched: .*", done.output, re.MULTILINE)
            raise GpuschedError(told)
        out = folder / "out.json"
        return out.read_text(encoding="utf-8") if out.exists() else done.output

    return read


def _entry(folder: Path) -> str:
    return " ".join(run.digest for run in verify(read_entry(folder / "a.entry.xz"), track=TRACK, seconds=20))


def _log(folder: Path) -> str:
    from gpusched_env.agents.checkpoints import DAMAGED
    from gpusched_env.event_log import EventLog

    try:
        with (folder / "log.npz").open("rb") as stream:
            return EventLog(**read_arrays(stream, 1 << 30)).digest()
    except DAMAGED as error:  # there is no reader of event logs, which would turn them into a line
        raise GpuschedError(type(error).__name__) from error


def _dataset(folder: Path) -> str:
    from tools.datasets.reading import ROOT, read_dataset
    from tools.datasets.writing import mean_jct_s
    from tools.datasets.writing import verify as play_again

    os.environ[ROOT] = str(folder)
    dataset = read_dataset(DATASET)
    play_again(dataset)
    return str(mean_jct_s(dataset))


def _card(folder: Path) -> str:
    from studies.reproduce import load_card, play_card

    runs = play_card(load_card("sjf-bco"), folder, True, progress=False)[0].runs
    return json.dumps([run.as_dict() for run in runs])


def _kernels(folder: Path) -> str:
    """Run in a process of its own, because kernels are loaded once; a damaged one is compiled again."""
    text = f"-m gpusched_env.cli run --scenario tiny-v1 --scheduler srtf --output {folder}/out.json"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, *text.split()], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-500:]}"
    return str(json.loads((folder / "out.json").read_text(encoding="utf-8"))["results"][0]["digest"])


READERS: Final[dict[str, Callable[[Path], str]]] = {
    "scenario": _command("scenarios show {}/scenario.json"),
    "jobs": _command("traces read file:{}/jobs.npz"),
    "trace.swf": _command("traces read swf:{}/trace.swf"),
    "trace.csv": _command("traces read csv:{}/trace.csv"),
    "snapshot": _command(
        "twin forecast --snapshot {}/now.json --history slurm:{}/sacct.txt --twin {}/twin.json --anyway "  # no score
        "--futures 5 --threads 1"
    ),
    "entry": _entry,
    "log": _log,
    "dataset": _dataset,
    "model": _command(MODEL),
    "card": _card,
    "kernels": _kernels,
}


def make(kind: str, folder: Path, other: Path) -> None:
    """Write the files that a kind reads into a folder; all else into the other one."""
    from gpusched_env.agents.cards import read_card
    from gpusched_env.scenarios import get_scenario, save_scenario
    from gpusched_env.twin.example import example_twin, write_example
    from gpusched_env.twin.model import write_twin
    from gpusched_env.twin.snapshot import write_snapshot
    from gpusched_env.twin.snapshot_sources import snapshot_of
    from tools.datasets.writing import write_dataset

    tiny = get_scenario("tiny-v1")
    if kind == "scenario":
        save_scenario(tiny, folder / "scenario.json")
    elif kind == "jobs":
        tiny.instance(0).workload.save(folder / "jobs.npz")
    elif kind in ("trace.swf", "trace.csv"):
        _command(f"traces export --scenario tiny-v1 --format {kind[-3:]} --output {{}}/{kind}")(folder)
    elif kind == "snapshot":
        shutil.copy(write_example(other, 600), folder)
        write_twin(example_twin(), folder / "twin.json")
        write_snapshot(snapshot_of(f"squeue:{other}/squeue.txt"), folder / "now.json")
    elif kind == "entry":
        write_entry(make_entry(TRACK, "srtf", ABOUT, progress=False), folder / "a.entry.xz")
    elif kind == "log":
        _command("run --scenario tiny-v1 --scheduler srtf --log {}/log.npz")(folder)
    elif kind == "dataset":
        write_dataset("srtf:placement=consolidate", "tiny-v1", [0, 1], name=DATASET, root=folder)
    elif kind == "model":
        card = read_card("philly-64")
        shutil.copy(card.file, folder / "model.npz")
        (folder / "config.json").write_text(json.dumps({"training": card.training}), encoding="utf-8")


def attempt(kind: str, folder: Path) -> tuple[bool, str]:
    """Return (True, what reading gives) or (False, the refusal)."""
    try:
        return True, hashlib.sha256(READERS[kind](folder).encode()).hexdigest()
    except GpuschedError as error:
        return False, str(error)


@functools.cache
def _made(kind: str) -> tuple[Any, list[Path], str]:
    """Make the files of a kind, once; return their folder, the files, and what reading gives."""
    owner: Any = tempfile.TemporaryDirectory()
    folder = Path(owner.name)
    with tempfile.TemporaryDirectory() as other:
        make(kind, folder, Path(other))
    is_read, result = apart(attempt, (kind, folder), LIMIT_S)
    assert is_read, f"{kind}: {result}"
    (folder / "out.json").unlink(missing_ok=True)
    return owner, [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".lock"], result


def damaged(rng: np.random.Generator, whole: bytes) -> bytes:
    """Flip a bit, put another byte, truncate, double or zero a part."""
    kind, content = int(rng.integers(5)), bytearray(whole)
    first, last = sorted(int(at) for at in rng.integers(len(whole) + 1, size=2))
    if kind == 0 and content:
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    elif kind == 1 and content:
        content[int(rng.integers(len(content)))] = int(rng.integers(256))
    elif kind == 2:
        del content[first:]
    elif kind == 3:
        content[last:last] = content[first:last] if rng.random() < 0.5 else whole
    elif kind == 4:
        content[first:last] = bytes(last - first)
    return bytes(content)


def play_damage(rng: np.random.Generator, kind: str, count: Callable[[str], None]) -> None:
    """Damage a file of a kind and read it, in a process of its own with a limit of CPU time."""
    owner, files, true = _made(kind)
    path = files[int(rng.integers(len(files)))]
    whole = path.read_bytes()
    changed = damaged(rng, whole)
    path.write_bytes(changed)
    try:
        is_read, told = apart(attempt, (kind, Path(owner.name)), LIMIT_S)
    except Exception as error:
        raise AssertionError(f"{kind}, {path.name}: {type(error).__name__}: {error}: {_kept(changed)}") from error
    finally:
        path.write_bytes(whole)
        (Path(owner.name) / "out.json").unlink(missing_ok=True)
    sealed = kind in SEALED or (kind.startswith("model") and path.suffix != ".json")
    assert not (is_read and sealed and told != true), f"{kind}: another result: {_kept(changed)}"
    assert is_read or "\n" not in told, f"{kind}: a refusal of several lines: {told}"
    count(f"damaged {kind}" if is_read else f"damaged {kind}, refused")


def _kept(content: bytes) -> Path:
    """Keep a file that was not refused as it should be."""
    path = Path(tempfile.mkstemp(prefix="gpusched-damaged-")[1])
    path.write_bytes(content)
    return path
