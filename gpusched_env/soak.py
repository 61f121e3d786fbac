"""Play extreme numbers, growing batches, damaged files, forged entries and killed commands for a long time.

``python -m gpusched_env.soak --minutes 60`` prints what it did. It ends with status 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import msgspec
import numpy as np

import gpusched_env
from gpusched_env.errors import GpuschedError
from gpusched_env.extremes import play_extremes
from gpusched_env.files import read_arrays
from gpusched_env.leaderboard import About, Entry, Track, make_entry, parse_entry, verify
from gpusched_env.scenarios import get_scenario, load_scenario, save_scenario

Count = Callable[[str], None]
CHUNK_S: Final = 5.0  # [CPU s] of extreme numbers at a time
TRACK: Final = Track("soak", "Soak", "For the soak.", "tiny-v1", reports=2)
ABOUT: Final = About(title="", authors="", how="", hardware="", training_seeds=[], link="", licence="MIT")
CLI: Final = "-m gpusched_env.cli"
TRAIN: Final = Path(gpusched_env.__file__).parents[1] / "train.py"  # in a clone
TRAINING: Final = "--scenario tiny-v1 --steps 512 --report-seeds 1 --baselines fifo --overwrite"
# Arguments of Python, and the longest time until the process is killed [s]; {} = a folder
KILLED: Final = (
    (f"{CLI} compare --scenario tiny-v1 --schedulers fifo,srtf --seeds 20 --output {{}}/results.json", 4.0),
    (f"{CLI} reproduce sjf-bco --quick --output {{}}/reproduction", 20.0),
    (f"{CLI} leaderboard build {{}} --tracks slo-v0 --out {{}}/site", 60.0),
    *([(f"{TRAIN} {TRAINING} --output {{}}/model", 20.0)] if TRAIN.exists() else []),
    (f"{CLI} run --scenario tiny-v1 --scheduler srtf --output {{}}/run.json", 10.0),  # with an empty cache of kernels
)


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
    """Bytes of a scenario file change: it is read, or refused with one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.json"
        save_scenario(get_scenario("tiny-v1"), path)
        whole = path.read_bytes()
        for _ in range(50):
            text = bytearray(whole[: int(rng.integers(1, len(whole) + 1))])
            text[int(rng.integers(len(text)))] = int(rng.integers(256))
            path.write_bytes(bytes(text))
            try:
                load_scenario(path)
            except GpuschedError as error:
                if "\n" in (told := str(error)):
                    raise AssertionError(f"a refusal of several lines: {told}") from error
            count("damaged file")


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
    """A command is killed at a random moment: its files are whole, and the same command then succeeds."""
    number = int(rng.integers(len(KILLED)))
    text, longest_s = KILLED[number]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *text.replace("{}", folder).split()]
        cache = {"NUMBA_CACHE_DIR": f"{folder}/cache"} if number == len(KILLED) - 1 else {}
        options: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "env": os.environ | cache}
        with subprocess.Popen(command, **options) as child:
            time.sleep(float(rng.uniform(0.0, longest_s)))
            child.kill()
        _check_files(Path(folder))
        done = subprocess.run(command, text=True, check=False, **options)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-500:]}"
        assert _check_files(Path(folder)), f"{' '.join(command)}: it has written nothing"
    count(f"killed: {text.removeprefix(CLI).split()[0].rpartition('/')[2]}")


def _check_files(folder: Path) -> int:
    """Read the files of JSON and arrays, but for the parts that a killed process leaves; return the number of files."""
    paths = [path for path in folder.rglob("*.*") if path.is_file() and ".part" not in path.name]
    for path in paths:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".npz":
            with path.open("rb") as stream:
                read_arrays(stream, 1 << 30)
    return len(paths)


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
            spent[kind] += time.monotonic() - begin_s

    def __str__(self) -> str:
        """Return a line for each kind, and one for each thing that was wrong."""
        lines = [f"{what}: {count:,}" for what, count in sorted(self.done.items())]
        return "\n".join([*lines, f"wrong: {len(self.wrong)}", *self.wrong])


def main() -> None:
    """Read the options, play, and print what was done."""
    parser = argparse.ArgumentParser(prog="python -m gpusched_env.soak", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="time on the clock")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is drawn")
    options = parser.parse_args()
    soak = Soak()
    soak.play(options.seed, 60.0 * options.minutes)
    print(soak)
    sys.exit(1 if soak.wrong else 0)


if __name__ == "__main__":
    main()
