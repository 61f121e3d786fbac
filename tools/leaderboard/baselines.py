"""Play the registered schedulers on the tracks, and write the entries that come with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from gpusched_env.baselines import BASELINES
from gpusched_env.errors import EntryError, GpuschedError, SchedulerError, unknown_name
from gpusched_env.leaderboard import Entry, make_entry
from gpusched_env.leaderboard.baseline_entries import (
    Head,
    Problem,
    Result,
    about_of,
    baseline_file,
    read_results,
)
from gpusched_env.leaderboard.tracks import Track, TrackProblem, get_track
from gpusched_env.metrics import TENANT_COLUMNS
from gpusched_env.scenarios import RESULTS_VERSION
from gpusched_env.support.files import write_whole
from tools.leaderboard.left_out import LEFT_OUT, agents_of, misfits

# Metrics of a result beside the scored one; playing gives all others.
SCORES: Final = ("mean_jct_s", "p99_jct_s", "preemptions_per_job", *(column.name for column in TENANT_COLUMNS))


def head_of(entry: Entry) -> Head:
    """Return what an entry shares with the others of its track."""
    problems = [Problem(run.seed, run.instance, run.workload, dict(run.bounds)) for run in entry.runs]
    return Head(entry.track, entry.fingerprint, entry.results_version, problems)


def result_of(entry: Entry, track: Track) -> Result:
    """Return the results of an entry, with the metrics of SCORES."""
    names = [name for name in dict.fromkeys((track.metric, *SCORES)) if name in entry.runs[0].metrics]
    metrics = {name: [run.metrics[name] for run in entry.runs] for name in names}
    return Result(entry.player.spec, entry.version, metrics, [run.digest for run in entry.runs])


def write_results(path: Path, head: Head, results: Mapping[str, Result]) -> None:
    """Write a file atomically; equal results give equal bytes."""
    lines = (head, *(results[spec] for spec in sorted(results)))
    write_whole(path, "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines))


def fitting(problem: TrackProblem) -> list[str]:
    """Return the specs of all that fit a track: registered schedulers, see :func:`misfits`, agents, and ``also``."""
    fit = [name for name, reason in misfits(problem).items() if not reason]
    return [*fit, *agents_of(problem), *problem.track.also]


def write_baselines(
    folder: Path,
    tracks: Iterable[str],
    schedulers: Iterable[str] = (),
    log: Path | None = None,
    workers: int = 1,
    again: bool = False,
    tell: Callable[[str], None] = print,
) -> int:
    """Play schedulers on tracks, and write ``folder/TRACK.jsonl`` for each track.

    ``schedulers`` may be ``learned:NAME`` of agents that learned on the scenario of the track; empty = all that fit
    and are not in LEFT_OUT.
    ``again`` plays schedulers whose entries exist, too. ``tell`` gets a line for each entry, and the reason why a track
    is skipped. Returns the number of entries that could not be made.
    """
    failed = 0
    for track in map(get_track, tracks):
        if absence := track.absence(log):
            tell(f"skipped: {absence}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        problem, path = track.problem(log), baseline_file(folder, track.name)
        results = _existing(path, problem)
        known = [*BASELINES, *agents_of(problem), *track.also]
        for name in list(schedulers) or [one for one in fitting(problem) if (track.name, one) not in LEFT_OUT]:
            if name not in known:
                raise SchedulerError(unknown_name("registered scheduler", name, known, "gpusched schedulers list"))
            if name in results and not again:
                tell(f"{path}: has {name}")
                continue
            try:
                entry = make_entry(track, name, about_of(name), log, workers, decisions=False)
            except GpuschedError as error:  # go on with the other schedulers
                tell(f"{path}: no {name}: {error}")
                failed += 1
                continue
            results[name] = result_of(entry, track)
            write_results(path, head_of(entry), results)
            tell(f"{path}: {name}")
    return failed


def _existing(path: Path, problem: TrackProblem) -> dict[str, Result]:
    """Read the results of a file, if there is one."""
    if not path.exists():
        return {}
    head, results = read_results(path)
    if (head.results_version, head.fingerprint) != (RESULTS_VERSION, problem.fingerprint()):
        raise EntryError(f"{path}: made with another results version, or for another track; delete the file")
    return results
