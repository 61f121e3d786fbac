"""The leaderboard as a static site: every entry is replayed, and what that gives is written as pages and data."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.errors import EntryError, GpuschedError
from gpusched_env.evaluation.processes import check_workers, in_processes
from gpusched_env.leaderboard.claims import check_claims
from gpusched_env.leaderboard.entry import Entry, Run
from gpusched_env.leaderboard.entry_files import SUFFIX, read_entry
from gpusched_env.leaderboard.folders import check_folder, whole_folder
from gpusched_env.leaderboard.scoring import score
from gpusched_env.leaderboard.site_runs import Claim, Replayed, play_seed, write_data
from gpusched_env.leaderboard.site_tables import Shown, ranked
from gpusched_env.leaderboard.tracks import TRACKS, Track, get_track
from gpusched_env.metrics import Interval
from gpusched_env.reports.curves import distribution
from gpusched_env.reports.pages import need_libraries

MARK: Final = ".gpusched-site"
LONGEST: Final = 80  # characters of a name in tables and plots
SECONDS: Final = 60.0  # of CPU time for the replay of a run
FIFO: Final = "fifo"  # spec of the baseline whose score is 0


@dataclass(frozen=True)
class Given:
    """An entry that could be read: its form and seal are right, its claims are not believed yet."""

    entry: Entry
    path: Path
    baseline: bool

    @property
    def key(self) -> str:
        """Name in addresses: letters and digits of the seal."""
        return self.entry.sha256[:12]


@dataclass
class Built:
    """What a site holds: entries by name of their track, best first, and why others are not there."""

    entries: dict[str, list[Shown]]
    refused: list[tuple[Path, str]]


def entry_files(folder: str | Path) -> list[Path]:
    """Find the entries in a folder, by name.

    Raises
    ------
    GpuschedError : not a folder
    """
    if not Path(folder).is_dir():
        raise GpuschedError(f"{folder}: not a folder; name one that holds entries, *{SUFFIX}")
    return sorted(path for path in Path(folder).iterdir() if path.name.endswith(SUFFIX))


def build_site(
    paths: Iterable[Path],
    out: str | Path,
    baselines: Iterable[Path] = (),
    log: Path | None = None,
    workers: int = 1,
    tracks: Collection[str] = (),
) -> Built:
    """Replay entries and write a site that needs no server, whole or not at all.

    Parameters
    ----------
    paths, baselines : files of entries; those of the second kind are marked as coming with the package
    out : folder of the site; one that was made before is replaced
    log : the file of the log of a track that has one, if it was not fetched
    workers : processes, at most one a core; -1 = one per core. The site does not depend on it
    tracks : names of those that the site shows; entries of others are passed over. Empty = all

    Raises
    ------
    GpuschedError : ``out`` holds other things or cannot be written, or libraries are missing. An entry that cannot be
        read, or does not give what it claims, is no error: it is refused, and the site says why
    """
    from gpusched_env.leaderboard.site_pages import write_pages

    need_libraries("gpusched leaderboard build")
    check_folder(Path(out).absolute(), MARK)
    check_workers(workers)
    names = [get_track(name).name for name in tracks] or [track.name for track in TRACKS]
    given, refused = _read(paths, baselines, log, names)
    with whole_folder(Path(out), MARK) as folder:
        replayed = _replay(given, folder / "data", log, workers)
        kept = []
        for one in given:
            reasons = [run.refusal for run in replayed.get(one.key, []) if run.refusal]
            if reasons:
                refused.append((one.path, reasons[0]))
                _remove(folder / "data" / one.entry.track, one.key)
            else:
                kept.append(one)
        built = Built(_shown(kept, names), sorted(refused))
        for name, entries in built.entries.items():
            if entries:
                _write_distributions(folder / "data" / name, name, entries, replayed)
        write_pages(folder, built)
    return built


def _read(
    paths: Iterable[Path], baselines: Iterable[Path], log: Path | None, names: Collection[str]
) -> tuple[list[Given], list[tuple[Path, str]]]:
    """Read the files; what is no entry of a track that can be played here is refused."""
    given: dict[str, Given] = {}
    refused = []
    every = itertools.chain(((path, True) for path in baselines), ((path, False) for path in paths))
    for path, baseline in every:
        try:
            one = Given(read_entry(path), path, baseline)
            track = get_track(one.entry.track)
            if track.name not in names:
                continue
            check_claims(one.entry, track.problem(log))
            if one.key in given:
                raise EntryError(f"{path}: the same entry as {given[one.key].path.name}")
            given[one.key] = one
        except EntryError as error:
            refused.append((path, str(error)))
    return list(given.values()), refused


def _replay(given: Sequence[Given], folder: Path, log: Path | None, workers: int) -> dict[str, list[Replayed]]:
    """Replay every entry, one task for each seed of a track."""
    tasks = []
    for track in TRACKS:
        entries = [one for one in given if one.entry.track == track.name]
        if not entries:
            continue
        problem = track.problem(log)
        labels = unique_labels(entries)
        for place, seed in enumerate(problem.seeds):
            claims = [Claim(one.key, labels[one.key], one.entry, one.entry.runs[place]) for one in entries]
            tasks.append((problem, seed, claims, folder / track.name / str(seed), SECONDS))
    found: dict[str, list[Replayed]] = {}
    for run in itertools.chain.from_iterable(in_processes(play_seed, tasks, workers)):
        found.setdefault(run.key, []).append(run)
    return found


def _shown(kept: Sequence[Given], names: Collection[str]) -> dict[str, list[Shown]]:
    """Rank the entries of each track by their score over its FIFO, where that comes with the package."""
    entries: dict[str, list[Shown]] = {}
    for track in (track for track in TRACKS if track.name in names):
        here = [one for one in kept if one.entry.track == track.name]
        labels = unique_labels(here)
        fifo = next((one.entry.runs for one in here if one.baseline and one.entry.player.spec == FIFO), None)
        entries[track.name] = ranked(
            [
                Shown(one.entry, one.path, one.key, labels[one.key], one.baseline, _score(one.entry, fifo, track))
                for one in here
            ]
        )
    return entries


def _score(entry: Entry, fifo: Sequence[Run] | None, track: Track) -> Interval:
    """Score an entry; NaN without a FIFO, or where FIFO is as good as the bound."""
    if fifo is not None:
        with contextlib.suppress(GpuschedError):
            return score(entry.runs, fifo, track.metric)
    return Interval(math.nan, math.nan, math.nan, len(entry.runs))


def unique_labels(entries: Sequence[Given]) -> dict[str, str]:
    """Name entries by key: their titles up to LONGEST characters, with the key behind where two have the same."""
    titles = [one.entry.about.title or one.entry.player.spec for one in entries]
    titles = [title if len(title) <= LONGEST else f"{title[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}" for title in titles]
    return {
        one.key: f"{title} ({one.key})" if titles.count(title) > 1 else title
        for one, title in zip(entries, titles, strict=True)
    }


def _write_distributions(
    folder: Path, name: str, entries: Sequence[Shown], replayed: dict[str, list[Replayed]]
) -> None:
    lines: dict[str, Any] = {
        shown.key: distribution(np.concatenate([run.jct_s for run in replayed[shown.key]])) for shown in entries
    }
    write_data(folder / "distributions.js", f"{name}/distributions", lines)


def _remove(folder: Path, key: str) -> None:
    """Take away what was written of a run before another run of the entry was refused."""
    for path in folder.glob(f"*/{key}.js"):
        path.unlink()
