"""Simulate the runs of a card; runs that an earlier call has finished are read from its folder."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpusched_env import __version__
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import RunResult
from gpusched_env.evaluation.processes import in_processes
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.evaluation.runner import Task, drawn, run_once
from gpusched_env.scenarios import RESULTS_VERSION
from studies.reproduce.card import Card
from studies.reproduce.results import Results, read_run, write_run

if TYPE_CHECKING:
    from studies.reproduce.card import Measure


def play_card(
    card: Card, folder: Path, quick: bool = False, workers: int = 1, progress: bool = True
) -> tuple[Results, int]:
    """Simulate the runs of a card that are not in the folder yet.

    Finished runs are stored in ``runs/`` of the folder, under a hash of card, problem, scheduler, seed and version.
    ``workers`` is that of :func:`gpusched_env.evaluation.evaluate`. Returns the results of all runs, in the order of
    the card, and the number of runs that were in the folder already.

    Raises
    ------
    GpuschedError : the number of workers is invalid, the folder is not writable, or a scheduler stalls
    """
    runs = card.runs(quick)
    cache = folder / "runs"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GpuschedError(f"{cache}: cannot be made ({error.strerror or error}); name another folder") from error
    problems = {id(run.problem): run.problem for run in runs}
    fingerprints = {key: problem.fingerprint() for key, problem in problems.items()}
    until = card.until
    window = None if until is None else (until.first, until.last)
    tasks = [
        Task(run.problem, fingerprints[id(run.problem)], run.scheduler, run.seed, window, True, until) for run in runs
    ]
    paths = [cache / f"{_key(card, task, run.measure)}.json" for task, run in zip(tasks, runs, strict=True)]
    done = [read_run(path) for path in paths]
    # Sorted by draw, so that a worker draws each instance once and then runs one scheduler after the other on it.
    missing = [i for i, result in enumerate(done) if result is None]
    missing.sort(key=lambda i: (tasks[i].seed, tasks[i].fingerprint))
    calls = [(card, tasks[i], runs[i].measure, paths[i]) for i in missing]
    with ProgressBar(len(calls), progress) as bar:
        for i, result in zip(missing, in_processes(_play_one, calls, workers), strict=True):
            done[i] = result
            bar.run_finished()
    found = [result for result in done if result is not None]
    return Results([run.labels for run in runs], found, quick), len(runs) - len(missing)


def _key(card: Card, task: Task, measure: Measure | None) -> str:
    """Hash everything that a run's result depends on, the card included: two cards may share a folder."""
    measured = [card.name, card.measure_version]
    if measure is not None:
        measured += [measure.__module__, measure.__qualname__]
    parts = [*measured, task.fingerprint, task.scheduler, task.seed, RESULTS_VERSION, __version__]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _play_one(card: Card, task: Task, measure: Measure | None, path: Path) -> RunResult:
    """Simulate one run and write its result, atomically."""
    result = run_once(task)
    assert result.log is not None
    metrics = result.metrics | card.measure(drawn(task), result.log)
    if measure is not None:
        assert isinstance(task.scheduler, str)
        metrics |= measure(drawn(task), result.log, task.scheduler)
    result = dataclasses.replace(result, metrics=metrics, log=None)
    write_run(path, result)
    return result
