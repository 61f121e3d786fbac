"""Verify an entry: replay its decisions or play its scheduler, and compare its claims with the results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from gpusched_env.errors import EntryError, GpuschedError, MismatchError
from gpusched_env.evaluation.results import RunResult
from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.child_process import apart
from gpusched_env.leaderboard.claims import check_claims, shipped_player
from gpusched_env.leaderboard.entry import Entry, Run
from gpusched_env.leaderboard.replaying import Budget, Limited, replay
from gpusched_env.leaderboard.tracks import Track, TrackProblem, get_track
from gpusched_env.metrics import lower_bounds
from gpusched_env.problem.instance import Instance, SchedulerInfo
from gpusched_env.support.files import visible

if TYPE_CHECKING:
    from collections.abc import Mapping


def verify(
    entry: Entry,
    log: Path | None = None,
    seconds: float = 60.0,
    keep_logs: bool = False,
    track: Track | None = None,
) -> list[RunResult]:
    """Replay an entry and return its runs as verified results; runs without decisions are played by its scheduler.

    Parameters
    ----------
    entry : the entry
    log : path of the log, for a track that needs a log; None = the fetched file
    seconds : limit on the CPU time for the replay of all runs [s]
    keep_logs : True = keep the event logs in the results
    track : a Track of your own; None = the registered track that the entry names

    Raises
    ------
    EntryError : the entry is of another version or track, or is not allowed on the track
    MismatchError : a claim is not true; the message gives the seed, the decision or metric, the claim, and the result
        of the replay
    MissingLogError : the log of the track is missing, or is not the log of the track
    """
    problem = (get_track(entry.track) if track is None else track).problem(log)
    check_claims(entry, problem)
    budget = Budget(seconds)
    return [verify_run(entry, run, problem, budget, keep_logs) for run in entry.runs]


def verify_run(entry: Entry, run: Run, problem: TrackProblem, budget: Budget, keep_log: bool) -> RunResult:
    """Replay the run of one seed; parameters, result and errors are as in :func:`verify`."""
    instance = problem.instance(run.seed)
    try:
        _compare("workload", run.workload, instance.workload.fingerprint())
        _compare("instance", run.instance, instance.fingerprint())
        if run.decisions is None:
            log = _played(entry.player.spec, instance, run.seed, budget).sealed()
        else:
            log = replay(instance, run.seed, run.decisions, budget).sealed()
        _compare("digest", run.digest, log.digest())
        metrics = problem.metrics(instance, log)
        bounds = lower_bounds(instance, problem.tracked_window)
        _compare_numbers("metrics", run.metrics, metrics)
        _compare_numbers("bounds", run.bounds, bounds)
    except MemoryError:
        raise EntryError(f"seed {run.seed}: replaying it takes more memory than there is") from None
    except GpuschedError as error:
        raise MismatchError(f"seed {run.seed}: {error}") from error
    return RunResult(
        scenario=problem.name,
        fingerprint=entry.fingerprint,
        seed=run.seed,
        scheduler=SchedulerInfo(entry.player.name, dict(entry.player.parameters), entry.player.clairvoyant),
        metrics=metrics,
        bounds=bounds,
        digest=run.digest,
        window=problem.tracked_window,
        log=log if keep_log else None,
    )


def played_again(entry: Entry, problem: TrackProblem, seconds: float) -> bool:
    """Play the scheduler that an entry names, in a child process; return whether it makes the logs of the entry.

    Runs without decisions are left out, because verifying plays them.

    False = this could not be checked: the entry names no scheduler or agent of this package, or one that needs files or
    more time. Nothing that an entry names is imported or opened.
    """
    if shipped_player(entry.player.spec) is None:
        return False
    digests = {run.seed: run.digest for run in entry.runs if run.decisions is not None}
    try:
        apart(play_again, (entry.player.spec, digests, problem, seconds), seconds)
    except MismatchError:
        raise
    except EntryError:  # it takes too long
        return False
    return True


def play_again(spec: str, digests: Mapping[int, str], problem: TrackProblem, seconds: float) -> None:
    """Play a shipped scheduler on the seeds of ``digests``; parameters and errors are as in :func:`played_again`."""
    budget = Budget(seconds)
    for seed, digest in digests.items():
        found = _played(spec, problem.instance(seed), seed, budget).digest()
        if found != digest:
            raise MismatchError(
                f"scheduler: the entry says {spec}, which gives the event log {found} on seed {seed}, but the entry "
                f"has {digest}"
            )


def _played(spec: str, instance: Instance, seed: int, budget: Budget) -> EventLog:
    """Play a shipped scheduler on one seed."""
    player = shipped_player(spec)
    assert player is not None
    try:
        simulation = Limited(instance, seed, budget)
        simulation.run(player, lambda done, jobs: budget.check())
    except EntryError:
        raise
    except Exception as error:  # parameters of an entry may be extreme
        raise MismatchError(
            f"scheduler: the entry says {spec}, which gives an error on seed {seed} ({visible(error)[:200]})"
        ) from error
    budget.check()
    return simulation.log()


def _compare(name: str, claimed: str, found: str) -> None:
    if claimed != found:
        raise MismatchError(f"{name}: the entry says {claimed}, the replay gives {found}")


def _compare_numbers(name: str, claimed: Mapping[str, float | None], found: Mapping[str, float]) -> None:
    """Compare numbers exactly, including the sign of 0, because a replay does the same operations in the same order."""
    for key, value in claimed.items():
        _compare(f"{name}.{key}", str(value), str(None if math.isnan(found[key]) else float(found[key])))
