"""Speed of one commit beside another: CPU seconds of the same runs, measured alternately.

    python benchmarks/commits.py OLD NEW [--pairs 8] [--processes 2] [--only replay]

Each commit is unpacked into a folder of its own, and measured by its own benchmarks, in processes that live side by
side. A pair is one run by the old code and one by the new code, directly one after the other, so that other processes
on the machine slow down both alike. New processes are started several times, because the memory of a process lies
differently each time, which alone can change the speed by some per cent.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from gpusched_env.commands import run_script

SERVE: Final = "--serve"
ENVIRONMENTS: Final = 64
STEPS: Final = 200  # of the batch
RESET_STEPS: Final = 602  # two episodes of philly-64-v1 without preemption


def batch(scenario: str) -> Callable[[], float]:
    """Steps of a batch, random feasible actions [CPU s]."""
    from vector import batch_rate

    return lambda: ENVIRONMENTS * STEPS / batch_rate(scenario, ENVIRONMENTS, STEPS)


def resets() -> float:
    """Steps of a batch without preemption, with the resets of its episodes [CPU s]."""
    from vector import first_feasible_rate

    return ENVIRONMENTS * RESET_STEPS / first_feasible_rate(ENVIRONMENTS, RESET_STEPS, running_window=0)[1]


def replay(scheduler: str, jobs: int, gpus: int) -> Callable[[], float]:
    """Replay of drawn jobs [CPU s]."""
    from growth import poisson

    from gpusched_env import make_scheduler, simulate

    instance = poisson(jobs, gpus, seed=0)

    def run() -> float:
        begin = time.process_time()
        simulate(instance, make_scheduler(scheduler))
        return time.process_time() - begin

    return run


SCHEDULERS: Final = ("fifo:placement=consolidate", "srtf", "tiresias", "dally")
RUNS: Final[dict[str, Callable[[], Callable[[], float]]]] = {  # what prepares a run, by its name
    "batch philly-256-v1": partial(batch, "philly-256-v1"),
    "batch leaf-spine-256-v1": partial(batch, "leaf-spine-256-v1"),
    "batch with resets": lambda: resets,
    **{f"replay 10,000 {name}": partial(replay, name, 10_000, 64) for name in SCHEDULERS},
    **{f"replay 100,000 {name}": partial(replay, name, 100_000, 2_000) for name in SCHEDULERS},
}


@dataclass
class Settings:
    """Compare two commits."""

    old: Annotated[str, typer.Argument()]
    """Commit, branch or tag."""
    new: Annotated[str, typer.Argument()]
    """Commit, branch or tag."""
    pairs: int = 8
    """Pairs of each run and each pair of processes."""
    processes: int = 2
    """Pairs of processes."""
    only: str = ""
    """Measure only runs whose name begins with this text."""


def serve() -> None:
    """Measure the runs whose names come by standard input, one a line, and print their CPU seconds."""
    prepared: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared[name] = RUNS[name]()
            prepared[name]()  # compiles
        print(prepared[name](), flush=True)


@contextlib.contextmanager
def worker(tree: Path) -> Iterator[Callable[[str], float]]:
    """Start a process that runs the code in a folder; yield the function that measures a run there."""
    paths = os.pathsep.join([str(tree), str(tree / "benchmarks")])
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, SERVE],  # without the folder of this script, whose modules are of this commit
        env=os.environ | {"PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def measure(name: str) -> float:
        print(name, file=asked, flush=True)
        answer = answers.readline()
        if not answer:
            sys.exit(f"error: {name!r} failed by the code in {tree.name}; its message is above")
        return float(answer)

    with process:
        yield measure
        asked.close()


def unpack(commit: str, tree: Path) -> Path:
    """Unpack the files of a commit into a new folder."""
    tree.mkdir()
    root = Path(__file__).parents[1]
    archive = subprocess.run(["git", "archive", commit], check=True, capture_output=True, cwd=root)
    subprocess.run(["tar", "-x", "-C", str(tree)], check=True, input=archive.stdout)
    return tree


def ratios(old: Path, new: Path, names: list[str], pairs: int, processes: int) -> dict[str, list[float]]:
    """Measure pairs, and print their medians as they come; return new / old of each run."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(processes):
        with worker(old) as before, worker(new) as after:
            for name in names:
                for pair in range(pairs):
                    first, second = (before, after) if pair % 2 == 0 else (after, before)
                    seconds = [first(name), second(name)]
                    old_s, new_s = seconds if pair % 2 == 0 else seconds[::-1]
                    found[name].append(new_s / old_s)
                print(f"{name}: {statistics.median(found[name][-pairs:]):.3f}", file=sys.stderr, flush=True)
    return found


def main(settings: Settings) -> None:
    """Measure, print a table."""
    names = [name for name in RUNS if name.startswith(settings.only)]
    table = Table("run", "new / old", "quarters", "pairs", title=f"CPU seconds, {settings.new} beside {settings.old}")
    with tempfile.TemporaryDirectory() as folder:
        old, new = unpack(settings.old, Path(folder, "old")), unpack(settings.new, Path(folder, "new"))
        for name, values in ratios(old, new, names, settings.pairs, settings.processes).items():
            low, middle, high = statistics.quantiles(values, n=4)
            table.add_row(name, f"{middle:.3f}", f"{low:.3f} to {high:.3f}", f"{len(values)}")
    Console().print(table)


if __name__ == "__main__":
    serve() if SERVE in sys.argv else run_script(main)
