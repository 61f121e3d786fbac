"""Verify an entry: check its claims, replay its decisions or play its scheduler, and compare the results."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpusched_env import __version__
from gpusched_env.agents.cards import shipped_agents
from gpusched_env.baselines import BASELINES, make_scheduler
from gpusched_env.baselines.estimates import ESTIMATORS, EstimatingScheduler
from gpusched_env.baselines.registry import GENERAL_AGENT
from gpusched_env.errors import EntryError, GpuschedError, MismatchError
from gpusched_env.evaluation.results import RunResult
from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard.child_process import apart
from gpusched_env.leaderboard.entry import About, Entry, Player, Run
from gpusched_env.leaderboard.replaying import Budget, Limited, replay
from gpusched_env.leaderboard.tracks import Track, TrackProblem, get_track
from gpusched_env.metrics import COLUMNS, DEADLINE_COLUMNS, TENANT_COLUMNS, lower_bounds
from gpusched_env.prediction import PREDICTORS
from gpusched_env.problem.instance import Instance, SchedulerInfo
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.simulator import Scheduler
from gpusched_env.support.files import visible

BOUNDS: Final = ("mean_jct_s", "makespan_s")
# Advice for when a replay differs from an entry's claims.
WHAT_TO_CHECK: Final = (
    "An entry whose replay differs here may be right on another machine: compare the results version (here "
    f"{RESULTS_VERSION}), the versions of packages (constraints.txt), and what `python -m tools.portability` "
    "prints, in a clone, on this machine and on the one where the entry was made."
)
LEARNED: Final = "learned"
OF_FILES: Final = ("path", "config", "timers")  # parameters that name files, which are not opened for an entry


def check_claims(entry: Entry, problem: TrackProblem) -> None:
    """Refuse an entry of another results version or track, on other seeds, or with a claim that cannot be true."""
    check_player(entry.player, entry.about, problem)
    if entry.results_version != RESULTS_VERSION:
        raise EntryError(
            f"played with results version {entry.results_version!r} (gpusched-env {entry.version}), but here it is "
            f"{RESULTS_VERSION!r}: equal decisions give other results; make the entry again with this version"
        )
    if entry.track != problem.name:
        raise EntryError(f"track: the entry is of {entry.track!r}, not of {problem.name!r}")
    if entry.fingerprint != problem.fingerprint():
        raise EntryError(
            f"fingerprint: track {entry.track} of the entry differs from that of this version; the entry was made with "
            f"gpusched-env {entry.version}, and this is {__version__}: make it again with this version"
        )
    seeds = tuple(run.seed for run in entry.runs)
    if seeds != problem.seeds:
        raise EntryError(f"seeds: the entry has {list(seeds)[:20]}, the track {list(problem.seeds)}")
    if any(run.decisions is None for run in entry.runs) and shipped_player(entry.player.spec) is None:
        raise EntryError(
            f"it has no decisions, and its scheduler {entry.player.spec!r} is none of this package; "
            "make it again with gpusched leaderboard submit, which records the decisions"
        )
    for run in entry.runs:
        metrics = {column.name for column in (*COLUMNS, *TENANT_COLUMNS * (problem.scenario.tenants is not None))}
        if run.metrics.keys() & (due := {column.name for column in DEADLINE_COLUMNS}):
            metrics |= due
        for name, expected in (("metrics", metrics), ("bounds", set(BOUNDS))):
            found, some = set(getattr(run, name)), name == "metrics" and run.decisions is None
            if not (found <= expected if some else found == expected):
                must = "must be of" if some else "must be"
                raise EntryError(f"seed {run.seed}, {name}: the names {must} {', '.join(sorted(expected))}")


def check_player(player: Player, about: About, problem: TrackProblem) -> None:
    """Refuse a scheduler that the track does not allow, or that was trained on report seeds."""
    for first, end in about.training_seeds:
        reported = [seed for seed in problem.seeds if first <= seed < end]
        if reported:
            raise EntryError(f"training_seeds: {first}:{end} has {reported[0]}, which the track keeps for reports")
    if player.clairvoyant and not problem.track.clairvoyant:
        raise EntryError(f"clairvoyant: schedulers that read true run times may not take part in track {problem.name}")
    for name in (player.spec.partition(":")[0], player.name):
        if not player.clairvoyant and registered_clairvoyance(name, player.parameters):
            raise EntryError(f"clairvoyant: the entry says no, but registered scheduler {name} reads true run times")
    shipped = shipped_player(player.spec)
    if shipped is not None and shipped.clairvoyant is not player.clairvoyant:
        reads = "reads true run times" if shipped.clairvoyant else "does not read true run times"
        raise EntryError(f"clairvoyant: the entry says {_yes(player.clairvoyant)}, but scheduler {player.spec} {reads}")


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def shipped_player(spec: str) -> Scheduler | None:
    """Build the scheduler or agent of this package that a spec names; None = it names none, or a file."""
    name, _, rest = spec.partition(":")
    words = re.split("[,:]", rest)
    if name not in BASELINES or not BASELINES[name].target.startswith("gpusched_env."):
        return None
    if name == LEARNED and (words[0] or GENERAL_AGENT) not in shipped_agents():
        return None
    if any(word.partition("=")[0].strip() in OF_FILES for word in words):
        return None
    try:
        return make_scheduler(spec)
    except GpuschedError:
        return None


def registered_clairvoyance(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether ``name`` is a registered scheduler that reads true run times, given its parameter ``estimator``."""
    if name not in BASELINES or name == LEARNED:
        return False
    scheduler = make_scheduler(name)
    estimator = parameters.get("estimator")
    if isinstance(scheduler, EstimatingScheduler) and estimator in (*ESTIMATORS, *PREDICTORS):
        scheduler = make_scheduler(name, estimator=estimator)
    return scheduler.clairvoyant


def verify(
    entry: Entry,
    log: Path | None = None,
    seconds: float = 60.0,
    keep_logs: bool = False,
    track: Track | None = None,
) -> list[RunResult]:
    """Replay an entry and return its runs as verified results; runs without decisions are played by its scheduler.

    ``log`` : path of the log, for a track that needs one; None = the fetched file. ``seconds`` : limit on the CPU time
    of all runs. ``track`` : a Track of your own; None = the registered track that the entry names.

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
        bounds = lower_bounds(instance)
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
