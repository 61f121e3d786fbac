"""Play extreme numbers, growing batches, damaged files, forged entries and killed commands for a long time.

``python -m soak --minutes 60`` prints what it did, and at once what was wrong. It ends with status 1 if
something was wrong.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import msgspec
import numpy as np

from gpusched_env.cli.choosing import ANY_SEED, Draws
from gpusched_env.errors import GpuschedError
from gpusched_env.leaderboard import SUFFIX, Entry, make_entry, parse_entry, verify, write_entry
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import read_arrays, sha256_of
from soak.damage import ABOUT, READERS, TRACK, play_damage
from soak.extremes import play_extremes

Count = Callable[[str], None]
CHUNK_S: Final = 5.0  # [CPU s] of extreme numbers at a time
LIMIT_S: Final = 240.0  # [s] in which a command, or what is left of a killed one, ends
CLI: Final = "-m gpusched_env.cli"
TRAIN: Final = Path(__file__).parents[1] / "train.py"
TRAINING: Final = "--scenario tiny-v1 --steps 512 --report-seeds 1 --schedulers fifo --overwrite"
KILLED: Final = (  # arguments of Python, in a folder that has a folder of entries
    f"{CLI} compare --scenario tiny-v1 --schedulers fifo,srtf --seeds 20 --output results.json",
    f"{CLI} reproduce sjf-bco --quick --output reproduction",
    "-m tools site entries --no-baselines --tracks slo-v0 --output site",
    f"{CLI} run --scenario tiny-v1 --scheduler srtf --output run.json",
    f"{TRAIN} {TRAINING} --output model",
)
COMPILES: Final = KILLED[3]  # has its own cache of kernels
GROW: Final = "model"  # folder of files that are written more than once


def extremes(rng: np.random.Generator, count: Count) -> None:
    """Extreme numbers in scenarios, decisions, options and actions."""
    report = play_extremes(int(rng.integers(2**31)), CHUNK_S)
    for kind, trials in report.trials.items():
        for _ in range(trials):
            count(f"extreme {kind}")
    if report.findings:
        raise AssertionError(f"extremes: {report.findings}")


def batches(rng: np.random.Generator, count: Count) -> None:
    """A batch whose problems grow equals single environments, bit for bit."""
    name, size = "gpusched/Family-v0", 3
    batch = gym.make_vec(name, size, vectorization_mode="vector_entry_point", autoreset_mode="Disabled")
    singles = [gym.make(name) for _ in range(size)]
    for _ in range(3):
        seeds = rng.integers(1000, size=size).tolist()
        observation, infos = batch.reset(seed=seeds)
        found = [single.reset(seed=seed) for single, seed in zip(singles, seeds, strict=True)]
        for _ in range(20):
            for number, (single, info) in enumerate(found):
                for key, value in single.items():
                    assert np.array_equal(observation[key][number], value), f"{name}, seeds {seeds}: {key} differs"
                assert np.array_equal(infos["action_mask"][number], info["action_mask"]), (
                    f"{name}, {seeds}: masks differ"
                )
            actions = [int(rng.choice(np.flatnonzero(info["action_mask"]))) for _, info in found]
            observation, _, ended, cut, infos = batch.step(np.array(actions))
            steps = [single.step(action) for single, action in zip(singles, actions, strict=True)]
            found = [(step[0], step[4]) for step in steps]
            count("step of a batch and of single environments")
            if np.any(ended | cut) or any(step[2] or step[3] for step in steps):
                break


def damaged(rng: np.random.Generator, count: Count) -> None:
    """Files are damaged: each is refused with one line, or gives what it should."""
    kind = list(READERS)[int(rng.integers(len(READERS)))]
    for _ in range(20):
        play_damage(rng, kind, count)


def forged(rng: np.random.Generator, count: Count) -> None:
    """A number of an entry changes: it is refused, or the replay is that of the true entry."""
    true = make_entry(TRACK, ("fifo", "srtf", "themis-lite")[int(rng.integers(3))], ABOUT, progress=False)
    for _ in range(20):
        data: Any = json.loads(true.text())
        run = data["runs"][int(rng.integers(len(data["runs"])))]
        columns = [name for name, values in run["decisions"].items() if values and name != "kinds"]
        values = run["decisions"][columns[int(rng.integers(len(columns)))]]
        values[int(rng.integers(len(values)))] = int(rng.integers(-5, 20))
        try:
            entry = msgspec.convert(data, Entry).sealed()
            runs = verify(parse_entry(entry.text()), track=TRACK, seconds=20)
            assert [one.digest for one in runs] == [one.digest for one in true.runs], "a forged entry is verified"
        except (GpuschedError, msgspec.ValidationError):
            count("forged entry, refused")
        count("forged entry")


def kills(rng: np.random.Generator, count: Count) -> None:
    """A command is killed at random moments: its files are whole, and then it does the same as if it never had been."""
    command = KILLED[int(rng.integers(len(KILLED)))]
    whole, seconds = _undisturbed(command)
    with tempfile.TemporaryDirectory() as name:
        folder = _prepared(name)
        for _ in range(int(rng.integers(1, 4))):
            _run(command, folder, float(rng.uniform(0.0, seconds)))
            _check_files(folder, whole)
            count(f"killed: {command.removeprefix(CLI).removeprefix('-m').split()[0].rpartition('/')[2]}")
        for path in folder.rglob(".*.part*"):  # as if the next call came later
            os.utime(path, (0.0, 0.0))
        _run(command, folder)
        left = _contents(folder)
        assert left == whole, f"{command}: {[name for name in {**left, **whole} if left.get(name) != whole.get(name)]}"


@functools.cache
def _undisturbed(command: str) -> tuple[dict[str, str], float]:
    """Return what a command writes, and how long it takes [s]."""
    with tempfile.TemporaryDirectory() as name:
        begin_s = time.monotonic()
        _run(command, folder := _prepared(name))
        return _contents(folder), time.monotonic() - begin_s


def _prepared(folder: str) -> Path:
    (entries := Path(folder) / "entries").mkdir()
    for entry in shipped_entries("slo-v0")[:2]:
        write_entry(entry, entries / f"{entry.player.spec}{SUFFIX}")
    return Path(folder)


def _run(command: str, folder: Path, kill_s: float | None = None) -> None:
    """Run a command, or kill it after some time; no process that it started may live on for LIMIT_S."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": f"{folder}/cache"} if command == COMPILES else {})
    environment["PYTHONPATH"] = str(TRAIN.parent)
    options: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen([sys.executable, *command.split()], cwd=folder, env=environment, **options) as child:
        try:
            if kill_s is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(kill_s)
                child.kill()
            told = child.communicate(timeout=LIMIT_S)[1]  # ends with the last process that has the pipe
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            raise AssertionError(f"{command}: it, or a process that it started, lives on after {LIMIT_S} s") from None
    assert kill_s is not None or child.returncode == 0, f"{command}: status {child.returncode}: {told[-500:]}"


def _contents(folder: Path) -> dict[str, str]:
    """Return name -> SHA-256 of the files, but for locks and logs of TensorBoard; kernels have their own."""
    paths = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        str(name): "" if "cache" in name.parts else sha256_of(path)
        for name, path in paths.items()
        if path.suffix != ".lock" and "tensorboard" not in name.parts
    }


def _check_files(folder: Path, whole: Mapping[str, str]) -> None:
    """Check the files of a killed command, but for temporary ones; those that are written once have their content."""
    for name, digest in _contents(folder).items():
        first = Path(name).parts[0]
        if ".part" in name or first.startswith(".site."):
            continue
        if first != GROW:
            assert whole[name] == digest, f"{name} is not whole"
        elif name.endswith(".json"):
            json.loads((folder / name).read_text(encoding="utf-8"))
        elif name.endswith(".npz"):
            with (folder / name).open("rb") as stream:
                read_arrays(stream, 1 << 30)


KINDS: Final = (extremes, batches, damaged, forged, kills)


@dataclasses.dataclass
class Soak:
    """What was done, by kind, and what was wrong."""

    done: Counter[str] = dataclasses.field(default_factory=Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)

    def play(self, seed: int, seconds: float) -> None:
        """Draw kinds until ``seconds`` on the clock are over; each has the same part of the time."""
        rng, spent = np.random.default_rng(seed), dict.fromkeys(KINDS, 0.0)
        end_s = time.monotonic() + seconds
        while (begin_s := time.monotonic()) < end_s:
            kind = min(KINDS, key=lambda one: spent[one])
            try:
                kind(rng, lambda what: self.done.update([what]))
            except Exception as error:
                self.wrong.append(f"{kind.__name__}: {type(error).__name__}: {error}"[:1000])
                print(self.wrong[-1], file=sys.stderr, flush=True)
            spent[kind] += time.monotonic() - begin_s

    def __str__(self) -> str:
        """Return a line for each kind, and one for each thing that was wrong."""
        lines = [f"{what}: {count:,}" for what, count in sorted(self.done.items())]
        return "\n".join([*lines, f"wrong: {len(self.wrong)}", *self.wrong])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How long, and what."""

    minutes: float = 60.0
    """Time on the clock."""
    draws: Draws = ANY_SEED


def main(settings: Settings) -> None:
    """Play, and print what was done; the seed of what is drawn is 0 unless another is given."""
    soak = Soak()
    soak.play(settings.draws.one(), 60.0 * settings.minutes)
    print(soak)
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    run_script(main)
