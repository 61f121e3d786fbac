"""Read the entries of a site; they are kept in memory without their decisions, which are large."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from pathlib import Path

from gpusched_env.errors import EntryError, GpuschedError, MissingLogError
from gpusched_env.leaderboard.baseline_entries import Baselines, known_baselines, shipped_baselines
from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.entry_files import SUFFIX, parse_packed, read_packed
from gpusched_env.leaderboard.packing import light
from gpusched_env.leaderboard.standings import Given, name_of
from gpusched_env.leaderboard.tracks import Track, TrackProblem, get_track
from gpusched_env.leaderboard.verifying import check_claims
from gpusched_env.support.files import visible

Refused = tuple[Path, str]  # a file, and the reason why it is not shown


def entry_files(folder: str | Path) -> list[Path]:
    """Return the paths of the entries in a folder, sorted."""
    if not Path(folder).is_dir():
        raise GpuschedError(f"{folder}: not a folder; name one that holds entries, *{SUFFIX}")
    return sorted(path for path in Path(folder).iterdir() if path.name.lower().endswith(SUFFIX))


def playable(names: Collection[str], log: Path | None) -> dict[str, TrackProblem]:
    """Return name -> problem, for the tracks in ``names`` that can be played on this machine."""
    problems = {}
    for track in map(get_track, names):
        try:
            problems[track.name] = track.problem(log)
        except MissingLogError:
            if log is not None:
                raise
    return problems


def read_given(
    paths: Iterable[Path], beside: Iterable[Entry], names: Collection[str], log: Path | None
) -> tuple[list[Given], list[Refused]]:
    """Read files, and refuse those that are not entries of a track that can be played on this machine."""
    problems = playable(names, log)
    trusted = [entry for entry in beside if entry.track in names]
    vouched = known_baselines(trusted)
    given: dict[str, Given] = {}
    refused = []
    sources: Iterable[Path | Entry] = itertools.chain(trusted, paths)
    for source in sources:
        try:
            one = _given(source, vouched)
            track = get_track(one.entry.track)
            if track.name not in names:
                continue
            if track.name not in problems:
                raise EntryError(_absence(track))
            check_claims(one.entry, problems[track.name])
            if one.key in given:
                raise EntryError(f"the same entry as {visible(given[one.key].name.name)}")
            given[one.key] = one
        except EntryError as error:
            refused.append((name_of(source), str(error)))
    return list(given.values()), refused


def _given(source: Path | Entry, vouched: Baselines) -> Given:
    entry = source if isinstance(source, Entry) else parse_packed(read_packed(source))
    shipped = shipped_baselines(entry.track)
    baseline = entry.sha256 in shipped.seals | vouched.seals
    same = dict.fromkeys(shipped.same_schedule(entry, baseline) + vouched.same_schedule(entry, baseline))
    if isinstance(source, Entry):
        return Given(entry, None, baseline, tuple(same))
    return Given(light(entry), source, baseline, tuple(same))


def _absence(track: Track) -> str:
    """Say why entries of a track are not shown; the text names no folder of the machine that builds the site."""
    assert track.windows is not None
    return f"not checked: its track needs the log {track.windows.file}, which was missing when this site was built"
