"""Run schedulers on seeds of a scenario; the results do not depend on the number of processes."""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.processes import check_workers, in_processes, runs_here
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.evaluation.results import Results, RunResult, plain
from gpusched_env.event_log import EventLog
from gpusched_env.metrics import Window, lower_bounds, summarise
from gpusched_env.problem.instance import Instance, SchedulerInfo

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario
    from gpusched_env.simulator import Scheduler, Until


class Problem(Protocol):
    """The methods of a scenario that a run needs."""

    @property
    def name(self) -> str:
        """Name in results."""

    def fingerprint(self) -> str:
        """Return the SHA-256 over all data on which results depend."""

    def instance(self, seed: int) -> Instance:
        """Draw the problem of a seed."""


class Interrupted(KeyboardInterrupt):
    """The exception that :func:`evaluate` raises on Ctrl-C.

    Parameters
    ----------
    results : results of the finished runs, in the order of :func:`evaluate`
    runs : total number of runs
    """

    def __init__(self, results: list[RunResult], runs: int) -> None:
        super().__init__(f"{len(results)} of {runs} runs were finished")
        self.results, self.runs = results, runs


@dataclass(frozen=True)
class Task:
    """A run, with all data that a worker process needs."""

    scenario: Problem
    fingerprint: str  # computed only once, because a scenario with a log hashes the whole file
    scheduler: str | Scheduler
    seed: int
    window: Window | None
    keep_log: bool
    until: Until | None = None  # the run stops when these jobs have finished
    name: str | None = None  # label of the scheduler, of a user


def evaluate(
    scenario: str | Scenario,
    schedulers: Sequence[str | Scheduler] | Mapping[str, str | Scheduler],
    seeds: Iterable[int],
    workers: int = 1,
    window: Window | None = None,
    progress: bool = True,
    keep_logs: bool | Collection[int] = False,
) -> Results:
    """Run every scheduler on every seed.

    Parameters
    ----------
    scenario : a scenario, or the name of a registered scenario
    schedulers : specs for :func:`gpusched_env.baselines.make_scheduler`, or schedulers, of which each run gets its own
        copy; a mapping gives them names in tables, as the spec ``NAME=SPEC`` does
    seeds : seeds of the scenario; all schedulers run on the same seeds
    workers : number of processes, at most one per core; -1 = one per core. Results do not depend on it
    window : (first, last), where jobs with arrival ranks ``first <= rank < last`` are tracked; None = the tracked
        window of the scenario
    progress : True = show a progress bar on a terminal if the runs take longer than two seconds
    keep_logs : True = keep the event log of each run in its result, which takes much memory; a collection of seeds =
        keep only the logs of these seeds

    Returns
    -------
    Results : a list of one result per run: all seeds of the first scheduler, then all seeds of the second, and so on

    Raises
    ------
    GpuschedError : there is nothing to run, a name is unknown, the window reaches beyond the jobs, or a scheduler
        leaves jobs waiting forever
    Interrupted : Ctrl-C was pressed; the exception has the results of the finished runs
    """
    if isinstance(scenario, str):
        from gpusched_env.scenarios import get_scenario

        scenario = get_scenario(scenario)
    names, players, draws = _asked(schedulers, seeds)
    check_workers(workers)
    fingerprint = scenario.fingerprint()
    tracked = scenario.tracked_window if window is None else window
    # The outer loop is over seeds, so that a worker draws each problem once and runs all schedulers on it.
    order = [(p, s) for s in range(len(draws)) for p in range(len(players))]
    kept = set(draws if keep_logs else ()) if isinstance(keep_logs, bool) else set(keep_logs)
    tasks = [
        Task(scenario, fingerprint, players[p], draws[s], tracked, draws[s] in kept, name=names[p]) for p, s in order
    ]
    found: dict[tuple[int, int], RunResult] = {}
    try:
        with ProgressBar(len(tasks), progress) as bar:
            for place, result in zip(order, _play(tasks, workers, bar), strict=True):
                found[place] = result
                bar.run_finished()
    except KeyboardInterrupt as stop:
        raise Interrupted([found[place] for place in sorted(found)], len(tasks)) from stop
    except GpuschedError as error:
        error.finished = [found[place] for place in sorted(found)]
        raise
    finally:
        _desk.clear()
    return Results(found[place] for place in sorted(found))


def _asked(
    schedulers: Sequence[str | Scheduler] | Mapping[str, str | Scheduler], seeds: Iterable[int]
) -> tuple[list[str | None], list[str | Scheduler], list[int]]:
    """Return the names, schedulers and seeds of :func:`evaluate`; what is wrong is refused before the first run."""
    from gpusched_env.baselines import domains, registry
    from gpusched_env.simulator import Scheduler

    if not isinstance(schedulers, Iterable) or isinstance(schedulers, str):
        raise GpuschedError(f"evaluate: schedulers is {schedulers!r}; give a list, such as ['fifo', 'srtf']")
    if not isinstance(seeds, Iterable) or isinstance(seeds, str):
        raise GpuschedError(f"evaluate: seeds is {seeds!r}; give a list, such as [0, 1] or range(2)")
    players = list(schedulers.values() if isinstance(schedulers, Mapping) else schedulers)
    names: list[str | None] = list(schedulers) if isinstance(schedulers, Mapping) else [None] * len(players)
    draws = list(seeds)
    if not players or not draws:
        raise GpuschedError("evaluate: give at least one scheduler and at least one seed")
    if len(set(draws)) < len(draws):
        raise GpuschedError("evaluate: seeds has one seed twice; give each once")
    labels: list[str] = []
    for name, player in zip(names, players, strict=True):
        if not isinstance(player, str | Scheduler):
            raise GpuschedError(f"evaluate: scheduler {player!r}: give a spec, or an object such as MyScheduler()")
        if not isinstance(name, str | None):
            raise GpuschedError(f"evaluate: the name {name!r} of a scheduler: give a text")
        own, spec = _called(player)
        registry.check_label(name or "", spec)
        domains.needs_of(fresh_player(player))
        labels.append(name or own or spec)
        if labels[-1] in labels[:-1]:
            raise GpuschedError(f"evaluate: two schedulers are called {labels[-1]!r}; give one a name, as in ours=SPEC")
    return names, players, draws


def drawn(task: Task) -> Instance:
    """Return the problem of a task; each process caches only the problem that it drew last."""
    return _desk.draw(task)[0]


def run_once(task: Task, bar: ProgressBar | None = None) -> RunResult:
    """Run a task, and return its result."""
    from gpusched_env.simulator import simulate

    instance, bounds = _desk.draw(task)
    scheduler = fresh_player(task.scheduler)

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
    from gpusched_env.baselines.domains import outside_domain

    name, spec = _called(task.scheduler)
    return RunResult(
        scenario=task.scenario.name,
        fingerprint=task.fingerprint,
        seed=task.seed,
        scheduler=SchedulerInfo(scheduler.name, plain(scheduler.parameters), bool(scheduler.clairvoyant)),
        metrics=summarise(instance, log, window=task.window),
        bounds=dict(bounds),
        digest=log.digest(),
        window=task.window,
        spec=spec or None,
        wall_s=wall_s,
        log=log if task.keep_log else None,
        caveats=_desk.caveats(task, instance) | scheduler.notes,
        name=task.name or name,
        outside=outside_domain(scheduler, instance, spec or None),
    )


def _called(scheduler: str | Scheduler) -> tuple[str | None, str]:
    """Return the name, None if the spec is the label, and the spec of a scheduler."""
    from gpusched_env.baselines.registry import split_name
    from gpusched_env.baselines.specs import described, spec_of

    if isinstance(scheduler, str):
        return split_name(scheduler)
    spec = spec_of(scheduler)
    return (None if spec else described(scheduler)), spec


def _play(tasks: list[Task], workers: int, bar: ProgressBar) -> Iterator[RunResult]:
    """Yield the results in the order of the tasks; runs in this process also update the bar."""
    if runs_here(workers, len(tasks)):
        return (run_once(task, bar) for task in tasks)
    return in_processes(run_once, [(task,) for task in tasks], workers)


def fresh_player(scheduler: str | Scheduler) -> Scheduler:
    """Build a scheduler from a spec, or copy a scheduler, so that its state from another run has no effect."""
    if isinstance(scheduler, str):
        from gpusched_env.baselines import make_scheduler

        return make_scheduler(scheduler)
    return copy.deepcopy(scheduler)


class _Desk:
    """Cache of a process for the last scenario, so that its log is read only once, and for the last problem."""

    scenario: tuple[str, Problem] | None = None
    problem: tuple[tuple[str, int, Window | None], Instance, dict[str, float]] | None = None

    def caveats(self, task: Task, instance: Instance) -> dict[str, int]:
        """Return what was dropped of the log of a task, noted about it, ignored or assumed, in words."""
        from gpusched_env.scenarios import Scenario
        from gpusched_env.scenarios.assumed import assumed

        read = self.scenario[1] if self.scenario is not None and self.scenario[0] == task.fingerprint else task.scenario
        report = getattr(read, "trace_report", None)
        groups = {} if report is None else {"dropped": report.dropped, "noted": report.notes}
        groups["ignored"] = instance.ignored
        if isinstance(read, Scenario):
            groups["assumed"] = assumed(read, instance.workload)
        if instance.energy is not None:
            groups["assumed"] = groups.get("assumed", {}) | instance.energy.chosen(instance.cluster)
        return {f"{kind}: {words}": count for kind, found in groups.items() for words, count in found.items()}

    def draw(self, task: Task) -> tuple[Instance, dict[str, float]]:
        """Return the problem of a task and its lower bounds; they are cached if the previous task had the same."""
        if self.scenario is None or self.scenario[0] != task.fingerprint:
            self.scenario = (task.fingerprint, task.scenario)
        key = (task.fingerprint, task.seed, task.window)
        if self.problem is None or self.problem[0] != key:
            self.problem = None  # frees the old problem before the new one is made
            instance = self.scenario[1].instance(task.seed)
            self.problem = (key, instance, lower_bounds(instance, task.window))
        return self.problem[1], self.problem[2]

    def clear(self) -> None:
        """Empty the cache."""
        self.scenario = self.problem = None


_desk = _Desk()
