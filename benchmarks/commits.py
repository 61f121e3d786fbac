"""Speed of one commit beside another: CPU seconds of the same runs, measured alternately.

    python benchmarks/commits.py OLD NEW [--pairs 8] [--processes 2] [--only replay]
    python benchmarks/commits.py --quick    # HEAD beside FROZEN_QUICK, a few pairs of some runs

Each commit is unpacked into a folder of its own, and measured by its own package, in processes that live side by
side. A pair is one run by the old code and one by the new code, directly one after the other, so that other processes
on the machine slow down both alike. New processes are started several times, because the memory of a process lies
differently each time, which alone can change the speed by some per cent.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

SERVE: Final = "--serve"
ROOT: Final = Path(__file__).parents[1]
JOBS: Final = Path(__file__).with_name("poisson_jobs.py")
FROZEN: Final = "27bb8e63"  # before runs had handles; its kernels compile for more than a minute
FROZEN_QUICK: Final = "4c176bcf"  # of 2026-11-26, with handles
ENVIRONMENTS: Final = 256
STEPS: Final = 200  # of the batch
RESET_STEPS: Final = 602  # of 64 environments: two episodes of philly-64 without preemption
SINGLE_STEPS: Final = 10_000
RESETS: Final = 40


def scenario_named(name: str) -> str:
    """Return the name of a scenario in the version that the code has."""
    from gpusched_env.scenarios import list_scenarios

    return max(known for known in list_scenarios() if known.startswith(f"{name}-v"))


def options() -> dict[str, Any]:
    """Return options by which all commits play alike: gangs may be preempted at once."""
    from gpusched_env.envs.cluster_env import ClusterEnv

    return {"least_run_s": 0.0} if "least_run_s" in inspect.signature(ClusterEnv).parameters else {}


def batch(scenario: str) -> Callable[[], float]:
    """Steps of a batch, random feasible actions [CPU s]."""
    import gymnasium

    import gpusched_env  # noqa: F401  registers the environments

    envs = gymnasium.make_vec(
        "gpusched/Cluster-v0", num_envs=ENVIRONMENTS, scenario=scenario_named(scenario), queue_window=32, copy=False,
        threads=1, keep_logs=False, **options(),
    )  # fmt: skip

    def run() -> float:
        _, infos = envs.reset(seed=0)
        rng = np.random.default_rng(0)
        seconds = 0.0
        for _ in range(STEPS):
            mask = infos["action_mask"]
            actions = (mask * rng.random(mask.shape)).argmax(axis=1)
            begin = time.process_time()
            *_, infos = envs.step(actions)
            seconds += time.process_time() - begin
        return seconds

    return run


def batch_with_resets() -> Callable[[], float]:
    """Steps of a batch without preemption, first feasible actions, with the resets of its episodes [CPU s]."""
    import gymnasium

    import gpusched_env  # noqa: F401  registers the environments

    envs = gymnasium.make_vec(
        "gpusched/Cluster-v0", num_envs=64, scenario=scenario_named("philly-64"), running_window=0, copy=False,
        threads=1, keep_logs=False,
    )  # fmt: skip

    def run() -> float:
        _, infos = envs.reset(seed=0)
        begin = time.process_time()
        for _ in range(RESET_STEPS):
            *_, infos = envs.step(infos["action_mask"].argmax(axis=1))
        return time.process_time() - begin

    return run


def single(resets: bool) -> Callable[[], float]:
    """Resets of one environment, or steps of it with random feasible actions that were drawn before [CPU s]."""
    import gymnasium

    import gpusched_env  # noqa: F401  registers the environments

    env = gymnasium.make("gpusched/Cluster-v0", scenario=scenario_named("philly-256"), queue_window=32, **options())
    _, info = env.reset(seed=0)
    actions = []
    for draw in np.random.default_rng(0).random(SINGLE_STEPS).tolist():
        feasible = info["action_mask"].nonzero()[0]
        actions.append(int(feasible[int(draw * len(feasible))]))
        *_, info = env.step(actions[-1])

    def run() -> float:
        env.reset(seed=0)
        begin = time.process_time()
        if resets:
            for seed in range(RESETS):
                env.reset(seed=seed)
        else:
            for action in actions:
                env.step(action)
        return time.process_time() - begin

    return run


def replay(scheduler: str, jobs: int = 0, gpus: int = 0) -> Callable[[], float]:
    """Replay of drawn jobs, or of leaf-spine-256 [CPU s]."""
    from gpusched_env import make_scheduler, simulate
    from gpusched_env.scenarios import get_scenario

    poisson = runpy.run_path(str(JOBS))["poisson"]
    instance = poisson(jobs, gpus, seed=0) if jobs else get_scenario(scenario_named("leaf-spine-256")).instance(0)

    def run() -> float:
        begin = time.process_time()
        simulate(instance, make_scheduler(scheduler))
        return time.process_time() - begin

    return run


SCHEDULERS: Final = ("fifo:placement=consolidate", "srtf", "tiresias", "dally")
RUNS: Final[dict[str, Callable[[], Callable[[], float]]]] = {  # what prepares a run, by its name
    "batch philly-256": partial(batch, "philly-256"),
    "batch leaf-spine-256": partial(batch, "leaf-spine-256"),
    "batch with resets": batch_with_resets,
    "one environment": partial(single, False),
    "its reset": partial(single, True),
    **{f"replay 10,000 {name}": partial(replay, name, 10_000, 64) for name in SCHEDULERS},
    "replay leaf-spine srtf": partial(replay, "srtf"),
    **{f"replay 100,000 {name}": partial(replay, name, 100_000, 2_000) for name in SCHEDULERS},
}
QUICK: Final = ("batch philly-256", "one environment", "its reset", "replay 10,000 srtf")


@dataclass
class Settings:
    """Compare two commits."""

    old: Annotated[str, typer.Argument()] = ""
    """Commit, branch or tag; empty = FROZEN, with --quick FROZEN_QUICK."""
    new: Annotated[str, typer.Argument()] = "HEAD"
    """Commit, branch or tag."""
    pairs: int = 8
    """Pairs of each run and each pair of processes."""
    processes: int = 2
    """Pairs of processes."""
    only: str = ""
    """Measure only runs whose name begins with this text."""
    quick: bool = False
    """Measure a few pairs of four runs, in one pair of processes."""


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
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, SERVE],  # without the folder of this script, whose modules are of this commit
        # a cache of its own: some commits delete that of others
        env=os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(tree / "kernel-cache")},
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
            status = process.wait()
            sys.exit(f"error: {name!r} failed by the code in {tree.name}, status {status}; its message is above")
        return float(answer)

    with process:
        yield measure
        asked.close()


def unpack(commit: str, tree: Path) -> Path:
    """Unpack the files of a commit into a new folder."""
    tree.mkdir()
    archive = subprocess.run(["git", "archive", commit], check=True, capture_output=True, cwd=ROOT)
    subprocess.run(["tar", "-x", "-C", str(tree)], check=True, input=archive.stdout)
    return tree


def ratios(old: Path, new: Path, names: list[str], pairs: int, processes: int) -> dict[str, list[float]]:
    """Measure pairs, and print their medians as they come; return new / old of each run."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(processes):
        with worker(old) as before, worker(new) as after:
            for name in names:
                with ThreadPoolExecutor(2) as pool:  # both compile, side by side
                    list(pool.map(lambda one, name=name: one(name), (before, after)))
                for pair in range(pairs):
                    first, second = (before, after) if pair % 2 == 0 else (after, before)
                    seconds = [first(name), second(name)]
                    old_s, new_s = seconds if pair % 2 == 0 else seconds[::-1]
                    found[name].append(new_s / old_s)
                print(f"{name}: {statistics.median(found[name][-pairs:]):.3f}", file=sys.stderr, flush=True)
    return found


def main(settings: Settings) -> None:
    """Measure, print a table."""
    settings.old = settings.old or (FROZEN_QUICK if settings.quick else FROZEN)
    if subprocess.run(["git", "cat-file", "-e", f"{settings.old}^{{commit}}"], check=False, cwd=ROOT).returncode:
        print(f"SKIPPED: the clone has no commit {settings.old}; a shallow clone lacks old commits")
        return
    pairs, processes = (6, 1) if settings.quick else (settings.pairs, settings.processes)
    names = [name for name in (QUICK if settings.quick else RUNS) if name.startswith(settings.only)]
    table = Table("run", "new / old", "quarters", "pairs", title=f"CPU seconds, {settings.new} beside {settings.old}")
    with tempfile.TemporaryDirectory() as folder:
        old, new = unpack(settings.old, Path(folder, "old")), unpack(settings.new, Path(folder, "new"))
        for name, values in ratios(old, new, names, pairs, processes).items():
            low, middle, high = statistics.quantiles(values, n=4)
            table.add_row(name, f"{middle:.3f}", f"{low:.3f} to {high:.3f}", f"{len(values)}")
    Console().print(table)


if __name__ == "__main__":
    if SERVE in sys.argv:
        serve()
    else:  # the other commit may lack this
        from gpusched_env.support.commands import run_script

        run_script(main)
