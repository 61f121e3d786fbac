"""Make an entry: run a scheduler on the report seeds of a track, and record its decisions, unless it is shipped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpusched_env import __version__
from gpusched_env.baselines.registry import split_name
from gpusched_env.errors import EntryError
from gpusched_env.evaluation.processes import check_workers, in_processes
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.evaluation.results import plain
from gpusched_env.evaluation.runner import fresh_player
from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.entry import FORMAT, About, Decisions, Entry, Player, Run
from gpusched_env.leaderboard.entry_files import parse_entry
from gpusched_env.leaderboard.recording import record
from gpusched_env.leaderboard.replaying import Budget, replay
from gpusched_env.leaderboard.tracks import Track, TrackProblem, get_track
from gpusched_env.leaderboard.verifying import check_player
from gpusched_env.metrics import lower_bounds
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.simulator import Scheduler, simulate


def make_entry(
    track: str | Track,
    scheduler: str | Scheduler,
    about: About,
    log: Path | None = None,
    workers: int = 1,
    progress: bool = True,
    decisions: bool = True,
) -> Entry:
    """Make an entry by running a scheduler on all report seeds of a track.

    Parameters
    ----------
    track : name of a track, or a Track of your own
    scheduler, workers, progress : as for :func:`gpusched_env.evaluation.evaluate`
    log : path of the log, for a track that needs a log; None = the fetched file
    decisions : False = record no decisions; the scheduler must be one of this package, which the verifier can play

    Raises
    ------
    EntryError : the track cannot be played on this machine, a claim is not allowed, or the scheduler changes the
        simulation by other means than its decisions
    SchedulerError : an unknown scheduler, or one that leaves jobs waiting forever
    """
    problem = (get_track(track) if isinstance(track, str) else track).problem(log)
    who = player_of(scheduler)
    check_workers(workers)
    check_player(who, about, problem)
    runs = []
    calls = [(problem, scheduler, seed, decisions) for seed in problem.seeds]
    with ProgressBar(len(calls), progress) as bar:
        for run in in_processes(play_seed, calls, workers):
            runs.append(run)
            bar.run_finished()
    entry = Entry(
        format=FORMAT,
        version=__version__,
        results_version=RESULTS_VERSION,
        track=problem.name,
        fingerprint=problem.fingerprint(),
        player=who,
        about=about,
        runs=runs,
        sha256="",
    )
    return parse_entry(entry.sealed().text())  # the same strict checks as when an entry is read from a file


def player_of(scheduler: str | Scheduler) -> Player:
    """Return what an entry says of a scheduler."""
    player = fresh_player(scheduler)
    return Player(
        spec=split_name(scheduler)[1]
        if isinstance(scheduler, str)
        else f"{type(player).__module__}:{type(player).__qualname__}",
        name=player.name,
        parameters=_flat(plain(player.parameters)),
        clairvoyant=bool(player.clairvoyant),
    )


def play_seed(problem: TrackProblem, scheduler: str | Scheduler, seed: int, recorded: bool) -> Run:
    """Run a scheduler on one seed, and record its decisions, if they are to be recorded."""
    instance = problem.instance(seed)
    if recorded:
        log, decisions = _recorded(instance, scheduler, seed)
    else:
        log, decisions = simulate(instance, fresh_player(scheduler), seed=seed), None
    metrics = problem.metrics(instance, log)
    return Run(
        seed=seed,
        instance=instance.fingerprint(),
        workload=instance.workload.fingerprint(),
        metrics={name: None if math.isnan(value) else value for name, value in metrics.items()},
        bounds=dict(lower_bounds(instance).items()),
        digest=log.digest(),
        decisions=decisions,
    )


def _recorded(instance: Instance, scheduler: str | Scheduler, seed: int) -> tuple[EventLog, Decisions]:
    """Record the decisions of a scheduler, and check that a replay of them gives the same event log."""
    log, decisions = record(instance, fresh_player(scheduler), seed)
    try:
        if replay(instance, seed, decisions, Budget(math.inf)).digest() != log.digest():
            raise EntryError("the event log differs")
    except EntryError as error:
        raise EntryError(
            f"seed {seed}: replaying the recorded decisions gives a different run ({error}); the scheduler must change "
            "the simulation by the decisions that it yields, and by nothing else"
        ) from error
    return log, decisions


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Keep plain values and lists of plain values; convert nested values to text."""

    def simple(value: Any) -> bool:
        return value is None or isinstance(value, bool | int | float | str)

    return {
        name: value if simple(value) or (isinstance(value, list) and all(map(simple, value))) else str(value)
        for name, value in parameters.items()
    }
