"""Build the leaderboard as a static site: replay or play every entry, and write the results as pages and data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusched_env.evaluation.processes import check_workers, in_processes
from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.standings import Given, Shown, standings
from gpusched_env.leaderboard.tracks import TRACKS, get_track
from gpusched_env.reports.pages import need_libraries
from gpusched_env.support.files import visible
from tools.leaderboard.folders import check_folder, whole_folder
from tools.leaderboard.pages import write_pages
from tools.leaderboard.reading import Refused, entry_files, read_given
from tools.leaderboard.runs import Replayed, make_folders, replay_apart, write_lines

__all__ = ["MARK", "Built", "build_site", "entry_files"]

MARK: Final = ".gpusched-site"
SECONDS: Final = 60.0  # limit on CPU time for a run of an entry [s]
BASELINE_SECONDS: Final = 3_600.0  # the same for a baseline, which the caller trusts; linear programs take long [s]


@dataclass
class Built:
    """Contents of a site: entries by track, best first; files refused, with the reasons; whether a replay differed."""

    entries: dict[str, list[Shown]]
    refused: list[Refused]
    differs: bool = False

    def reasons(self) -> dict[str, list[str]]:
        """Return reason -> names of the files that are not shown; all texts are printable."""
        files: dict[str, list[str]] = {}
        for path, reason in self.refused:
            files.setdefault(visible(reason), []).append(visible(path.name))
        return files


def build_site(
    paths: Iterable[Path],
    out: str | Path,
    baselines: Iterable[Entry] = (),
    log: Path | None = None,
    workers: int = 1,
    tracks: Collection[str] = (),
) -> Built:
    """Replay entries and write a static site, atomically.

    ``baselines`` are trusted; an entry of ``paths`` that equals one of these, or of the package, is marked as one.
    ``log`` is for a track that needs one; None = the fetched file. Only ``tracks`` are shown; empty = all.

    Notes
    -----
    An entry that cannot be read, or whose claims are not true, raises no error. The site lists it as refused, with the
    reason.
    """
    need_libraries("the site of the leaderboard")
    check_folder(Path(out).absolute(), MARK)
    check_workers(workers)
    names = [get_track(name).name for name in tracks] or [track.name for track in TRACKS]
    given, refused = read_given(paths, baselines, names, log)
    with whole_folder(Path(out), MARK) as folder:
        replayed = _replay(given, folder, log, workers)
        untrue = [(one.name, replayed[one.key].refusal) for one in given if replayed[one.key].refusal]
        kept = [one for one in given if not replayed[one.key].refusal]
        built = Built(_shown(kept, names, replayed), sorted(refused + untrue), bool(untrue))
        for name, entries in built.entries.items():
            if entries:
                write_lines(folder / "data" / name, name, [replayed[shown.key] for shown in entries])
        write_pages(folder, built)
    return built


def _replay(given: Sequence[Given], site: Path, log: Path | None, workers: int) -> Mapping[str, Replayed]:
    """Replay the entries, with one task for each."""
    problems = {name: get_track(name).problem(log) for name in {one.entry.track for one in given}}
    make_folders(site, problems)
    tasks = [(problems[one.entry.track], one, site, SECONDS if one.path else BASELINE_SECONDS) for one in given]
    return {replayed.key: replayed for replayed in in_processes(replay_apart, tasks, workers)}


def _shown(kept: Sequence[Given], names: Collection[str], replayed: Mapping[str, Replayed]) -> dict[str, list[Shown]]:
    """Rank and score the entries of each track."""
    runs = {key: one.runs for key, one in replayed.items()}
    checked = {key for key, one in replayed.items() if one.checked}
    tracks = [track for track in TRACKS if track.name in names]
    return {one.name: standings([g for g in kept if g.entry.track == one.name], one, runs, checked) for one in tracks}
