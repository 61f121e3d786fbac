"""Check the claims of an entry that can be checked without a replay, and build the scheduler that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gpusched_env import __version__
from gpusched_env.errors import EntryError, GpuschedError
from gpusched_env.leaderboard.entry import About, Entry, Player
from gpusched_env.leaderboard.tracks import TrackProblem
from gpusched_env.metrics import COLUMNS, DEADLINE_COLUMNS, TENANT_COLUMNS
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.simulator import Scheduler

BOUNDS: Final = ("mean_jct_s", "makespan_s")
# Advice for when a replay differs from an entry's claims.
WHAT_TO_CHECK: Final = (
    "An entry whose replay differs here may be right on another machine: compare the results version (here "
    f"{RESULTS_VERSION}), the versions of packages (constraints.txt), and what `python -m gpusched_env.portability` "
    "prints on this machine and on the one where the entry was made."
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
    from gpusched_env.agents.cards import shipped_agents
    from gpusched_env.baselines import BASELINES, make_scheduler
    from gpusched_env.baselines.registry import GENERAL_AGENT

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
    from gpusched_env.baselines import BASELINES, make_scheduler
    from gpusched_env.baselines.estimates import ESTIMATORS, EstimatingScheduler

    if name not in BASELINES or name == LEARNED:
        return False
    scheduler = make_scheduler(name)
    estimator = parameters.get("estimator")
    if isinstance(scheduler, EstimatingScheduler) and estimator in ESTIMATORS:
        scheduler = make_scheduler(name, estimator=estimator)
    return scheduler.clairvoyant
