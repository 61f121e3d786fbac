"""Start-up time: CPU seconds of whole processes, with an empty kernel cache and again with the filled cache.

    python benchmarks/startup.py [--train] [--only NAME ...] [--output FILE.json]

Seconds are user and system time of the process and of its child processes. Each row begins with its own empty cache.
Goals scale with the time of ``import torch`` on the same machine. That time was 2.6 s on the machine on which the goals
were set.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from machine import save_figures
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpusched_env.support.commands import run_script

ROOT: Final = Path(__file__).parents[1]
YARDSTICK: Final = "torch"
YARDSTICK_S: Final = 2.6  # CPU seconds of ``import torch`` on the machine on which the goals were set
STEPS: Final = """
import gymnasium
env = gymnasium.make("gpusched_env:gpusched/Cluster-v0")
_, info = env.reset(seed=0)
for _ in range(200):
    _, _, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
    if terminated or truncated:
        _, info = env.reset()
"""
COMMAND: Final = ("-m", "gpusched_env.cli")


@dataclass(frozen=True)
class Program:
    """Arguments of a fresh interpreter, and a goal for its time."""

    what: str
    arguments: tuple[str, ...]
    goal_s: float | None = None  # CPU time with an empty cache on a machine whose yardstick takes YARDSTICK_S


PROGRAMS: Final[dict[str, Program]] = {
    YARDSTICK: Program("import torch", ("-c", "import torch")),
    "gymnasium": Program("import gymnasium: the floor of the next", ("-c", "import gymnasium")),
    "import": Program("import gpusched_env", ("-c", "import gpusched_env"), 0.3),
    "help": Program("gpusched --help", (*COMMAND, "--help")),
    "steps": Program("make gpusched/Cluster-v0, reset, 200 steps", ("-c", STEPS), 20.0),
    "train": Program("python train.py: train, evaluate, all baselines", (str(ROOT / "train.py"),), 120.0),
    "warmup": Program("gpusched warmup --all: every kernel", (*COMMAND, "warmup", "--all"), 90.0),
}


@dataclass
class Settings:
    """Measure start-up times."""

    train: bool = False
    """Also measure the README's first command after installation, which takes minutes."""
    only: tuple[str, ...] = ()
    """Rows to measure, by name; by default all (train only with --train)."""
    repeats: int = 3
    """Runs with the filled cache; the fastest is reported."""
    output: Path | None = None
    """JSON file for seconds, machine and versions."""


@dataclass(frozen=True)
class Cost:
    """Seconds of a process and its child processes."""

    cpu_s: float
    wall_s: float


def cost(program: Program, cache: str) -> Cost:
    """Run a program in an empty folder, with a given folder as kernel cache; RuntimeError if it fails."""

    def used_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    own_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    surroundings = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": own_path}
    with tempfile.TemporaryDirectory() as folder:
        before_s, begin = used_s(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *program.arguments], cwd=folder, env=surroundings, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        found = Cost(used_s() - before_s, time.perf_counter() - begin)
    if done.returncode:
        raise RuntimeError(f"{program.what} failed: {done.stderr[-2_000:]}")
    return found


def missing(name: str) -> str:
    """Return why a program cannot be measured here; empty = it can."""
    if name == YARDSTICK and importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if name == "warmup":
        asked = subprocess.run(
            [sys.executable, *COMMAND, "warmup", "--help"], cwd=ROOT, capture_output=True, check=False
        )
        return "no such command" if asked.returncode else ""
    return ""


def measure(name: str, repeats: int) -> dict[str, Any]:
    """Return a program's costs with an empty cache and with the filled cache, or why it cannot be measured."""
    if why := missing(name):
        return {"missing": why}
    with tempfile.TemporaryDirectory() as cache:
        empty = cost(PROGRAMS[name], cache)
        filled = min((cost(PROGRAMS[name], cache) for _ in range(repeats)), key=lambda found: found.cpu_s)
    return {"empty": asdict(empty), "filled": asdict(filled)}


def table(measured: dict[str, Any]) -> Table:
    """Make the table of results, each beside its goal on this machine."""
    headings = "what", "CPU s, empty cache", "wall s", "CPU s, filled cache", "wall s", "x torch, empty", "goal [CPU s]"
    shown = Table(title="A start: whole processes", title_justify="left")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "what" else "right")
    yardstick_s = measured.get(YARDSTICK, {}).get("filled", {}).get("cpu_s")
    for name, found in measured.items():
        program = PROGRAMS[name]
        if "missing" in found:
            shown.add_row(program.what, found["missing"])
            continue
        empty, filled = found["empty"], found["filled"]
        times = goal = ""
        if yardstick_s is not None:
            times = f"{empty['cpu_s'] / yardstick_s:.2f}"
            goal = "" if program.goal_s is None else f"≤ {program.goal_s * yardstick_s / YARDSTICK_S:.2f}"
        seconds = (f"{one[figure]:.2f}" for one in (empty, filled) for figure in ("cpu_s", "wall_s"))
        shown.add_row(program.what, *seconds, times, goal)
    return shown


def main(settings: Settings) -> None:
    """Measure, print and save."""
    if unknown := set(settings.only) - set(PROGRAMS):
        raise SystemExit(f"--only: no {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    names = settings.only or [name for name in PROGRAMS if name != "train" or settings.train]
    measured = {}
    console = Console(width=140)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), transient=True) as progress:
        for name in names:
            task = progress.add_task(PROGRAMS[name].what, total=None)
            measured[name] = measure(name, 1 if name == "train" else settings.repeats)
            progress.remove_task(task)
    console.print(table(measured))
    save_figures({"programs": measured}, settings.output)


if __name__ == "__main__":
    run_script(main)
