"""The entries of the registered schedulers, as the repository ships them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from gpusched_env.baselines import BASELINES, list_baselines, make_scheduler
from gpusched_env.errors import EntryError, SchedulerError, unknown_name
from gpusched_env.leaderboard.entry import About
from gpusched_env.leaderboard.entry_files import SUFFIX, write_entry
from gpusched_env.leaderboard.submitting import make_entry
from gpusched_env.leaderboard.tracks import TrackProblem, get_track

AUTHORS: Final = "gpusched-env developers"
LICENCE: Final = "MIT"  # as the repository


def fitting(problem: TrackProblem) -> list[str]:
    """Names of the registered schedulers that a track is for: by its links, GPU types, and rule on clairvoyance."""
    scenario = problem.scenario
    names = list_baselines(
        links=scenario.network.topology is not None,
        types=len(scenario.cluster.gpu_types) > 1,
        variants=False,
        sharing=scenario.sharing is not None,
    )
    return [name for name in names if problem.track.clairvoyant or not make_scheduler(name).clairvoyant]


def write_baselines(
    folder: Path,
    tracks: Iterable[str],
    schedulers: Iterable[str] = (),
    log: Path | None = None,
    workers: int = 1,
    again: bool = False,
    tell: Callable[[str], None] = print,
) -> None:
    """Write ``folder/TRACK-SCHEDULER.json.zst`` for each track and scheduler.

    Parameters
    ----------
    tracks : names; one that cannot be played here is skipped, and ``tell`` says why
    schedulers : names; empty = all that fit the track
    again : write entries anew that are there already
    tell : is told of each entry

    Raises
    ------
    GpuschedError : an unknown track or scheduler, or one that stalls
    """
    for track in map(get_track, tracks):
        if absence := track.absence(log):
            tell(f"skipped: {absence}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for name in list(schedulers) or fitting(track.problem(log)):
            if name not in BASELINES:
                raise SchedulerError(unknown_name("registered scheduler", name, BASELINES))
            path = folder / f"{track.name}-{name}{SUFFIX}"
            if path.exists() and not again:
                tell(f"{path}: is there")
                continue
            about = About(
                title=name,
                authors=AUTHORS,
                how=f"The registered scheduler {name} with its default parameters: {BASELINES[name].summary}.",
                hardware="",
                training_seeds=[],
                link="",
                licence=LICENCE,
            )
            try:
                write_entry(make_entry(track, name, about, log, workers), path)
            except EntryError as error:  # too large, say: the others can be written
                tell(f"{path}: not written: {error}")
                continue
            tell(f"{path}: {path.stat().st_size:,} bytes")
