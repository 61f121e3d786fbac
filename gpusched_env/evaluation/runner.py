"""Play schedulers on seeds of a scenario. Results do not depend on the number of processes."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.processes import check_workers, in_processes, processes
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.evaluation.results import RunResult, plain
from gpusched_env.event_log import EventLog
from gpusched_env.instance import Instance, SchedulerInfo
from gpusched_env.metrics import Window, lower_bounds, summarise

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario
    from gpusched_env.simulator import Scheduler, Until


class Problem(Protocol):
    """What a run needs from a scenario."""

    @property
    def name(self) -> str:
        """Name in results."""

    def fingerprint(self) -> str:
        """SHA-256 over everything that results depend on."""

    def instance(self, seed: int) -> Instance:
        """Draw the playable problem of one seed."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`evaluate`.

    Parameters
    ----------
    results : results of the finished runs, in the order of :func:`evaluate`
    runs : number of all runs
    """

    def __init__(self, results: list[RunResult], runs: int) -> None:
        super().__init__(f"{len(results)} of {runs} runs were finished")
        self.results, self.runs = results, runs


@dataclass(frozen=True)
class Task:
    """One run: everything a worker process needs."""

    scenario: Problem
    fingerprint: str  # computed once, because a scenario with a log hashes the file each time
    scheduler: str | Scheduler
    seed: int
    window: Window | None
    keep_log: bool
    until: Until | None = None  # the run stops when these jobs have finished


def evaluate(
    scenario: str | Scenario,
    schedulers: Sequence[str | Scheduler],
    seeds: Iterable[int],
    workers: int = 1,
    window: Window | None = None,
    progress: bool = True,
    keep_logs: bool | Collection[int] = False,
) -> list[RunResult]:
    """Run every scheduler on every seed.

    Parameters
    ----------
    scenario : a scenario or the name of a registered one
    schedulers : specs for :func:`gpusched_env.baselines.make_scheduler`, or schedulers; each run gets its own copy
    seeds : seeds of the scenario; all schedulers play the same ones
    workers : number of processes, at most one per core; -1 = one per core. Results do not depend on it
    window : tracked arrival ranks ``first <= rank < last``; default: the scenario's tracked window
    progress : show a bar on a terminal if this takes longer than two seconds
    keep_logs : True = keep each event log in its result (large); or the seeds whose logs are kept

    Returns
    -------
    list : one result per run, all seeds of the first scheduler, then all of the second, ...

    Raises
    ------
    GpuschedError : nothing to run, an unknown name, a window beyond the jobs, a scheduler that stalls
    Interrupted : Ctrl-C; it has the results of the finished runs
    """
    if isinstance(scenario, str):
        from gpusched_env.scenarios import get_scenario

        scenario = get_scenario(scenario)
    players, draws = list(schedulers), list(seeds)
    if not players or not draws:
        raise GpuschedError("evaluate: give at least one scheduler and at least one seed")
    check_workers(workers)
    for player in players:
        _player(player)  # refuse a wrong name before the first run
    fingerprint = scenario.fingerprint()
    tracked = scenario.tracked_window if window is None else window
    # Seeds in the outer loop: a worker then draws each problem once and plays all schedulers on it.
    order = [(p, s) for s in range(len(draws)) for p in range(len(players))]
    kept = set(draws if keep_logs else ()) if isinstance(keep_logs, bool) else set(keep_logs)
    tasks = [Task(scenario, fingerprint, players[p], draws[s], tracked, draws[s] in kept) for p, s in order]
    found: dict[tuple[int, int], RunResult] = {}
    try:
        with ProgressBar(len(tasks), progress) as bar:
            for place, result in zip(order, _play(tasks, workers, bar), strict=True):
                found[place] = result
                bar.run_finished()
    except KeyboardInterrupt as stop:
        raise Interrupted([found[place] for place in sorted(found)], len(tasks)) from stop
    finally:
        _desk.clear()
    return [found[place] for place in sorted(found)]


def drawn(task: Task) -> Instance:
    """Give the instance of a task; the instance that this process drew last is cached."""
    return _desk.draw(task)[0]


def run_once(task: Task, bar: ProgressBar | None = None) -> RunResult:
    """Play one task."""
    from gpusched_env.simulator import simulate

    instance, bounds = _desk.draw(task)
    scheduler = _player(task.scheduler)

    def tell(done: int, total: int) -> None:
        if bar is not None:
            bar.jobs_finished(f"{scheduler.name}, seed {task.seed}", done, total)

    begin = time.perf_counter()
    log = simulate(instance, scheduler, progress=tell if bar is not None else None, seed=task.seed, until=task.until)
    return result_of(task, scheduler, instance, bounds, log, time.perf_counter() - begin)


def result_of(
    task: Task, scheduler: Scheduler, instance: Instance, bounds: dict[str, float], log: EventLog, wall_s: float
) -> RunResult:
    """Return the result of a task that has been played; ``bounds`` are :func:`~gpusched_env.metrics.lower_bounds`."""
    return RunResult(
        scenario=task.scenario.name,
        fingerprint=task.fingerprint,
        seed=task.seed,
        scheduler=SchedulerInfo(scheduler.name, plain(scheduler.parameters), bool(scheduler.clairvoyant)),
        metrics=summarise(instance, log, window=task.window),
        bounds=dict(bounds),
        digest=log.digest(),
        window=task.window,
        spec=task.scheduler if isinstance(task.scheduler, str) else None,
        wall_s=wall_s,
        log=log if task.keep_log else None,
    )


def _play(tasks: list[Task], workers: int, bar: ProgressBar) -> Iterator[RunResult]:
    """Yield results in the order of the tasks; a run in this process also updates the bar."""
    if processes(workers, len(tasks)) == 1:
        return (run_once(task, bar) for task in tasks)
    return in_processes(run_once, [(task,) for task in tasks], workers)


def _player(scheduler: str | Scheduler) -> Scheduler:
    """Build a scheduler, or copy one, so that state left from another run has no effect."""
    if isinstance(scheduler, str):
        from gpusched_env.baselines import make_scheduler

        return make_scheduler(scheduler)
    return copy.deepcopy(scheduler)


class _Desk:
    """Cache of a process: the last scenario, so that its trace is read once, and the last problem drawn."""

    scenario: tuple[str, Problem] | None = None
    problem: tuple[tuple[str, int, Window | None], Instance, dict[str, float]] | None = None

    def draw(self, task: Task) -> tuple[Instance, dict[str, float]]:
        """Give a task's instance and its lower bounds; draw them unless the previous task had the same ones."""
        if self.scenario is None or self.scenario[0] != task.fingerprint:
            self.scenario = (task.fingerprint, task.scenario)
        key = (task.fingerprint, task.seed, task.window)
        if self.problem is None or self.problem[0] != key:
            self.problem = None  # free the old problem before the new one is made
            instance = self.scenario[1].instance(task.seed)
            self.problem = (key, instance, lower_bounds(instance, task.window))
        return self.problem[1], self.problem[2]

    def clear(self) -> None:
        """Empty the cache."""
        self.scenario = self.problem = None


_desk = _Desk()
