"""The entries of a site: read strictly, and kept without their decisions, which are large."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from gpusched_env.errors import EntryError, GpuschedError, MissingLogError
from gpusched_env.files import visible
from gpusched_env.leaderboard.claims import check_claims
from gpusched_env.leaderboard.entry import Decisions, Entry
from gpusched_env.leaderboard.entry_files import SUFFIX, parse_packed, read_packed
from gpusched_env.leaderboard.schedules import Baselines, sha256_of_bytes, shipped_baselines
from gpusched_env.leaderboard.tracks import Track, TrackProblem, get_track

LONGEST: Final = 80  # longest name in tables and plots, in characters
NO_DECISIONS: Final = Decisions("", [], [], [], [], [], [], [], [])

Refused = tuple[Path, str]  # a file, and why it is not shown


@dataclass(frozen=True)
class Given:
    """An entry with valid format and seal, whose claims are not verified yet.

    Attributes
    ----------
    entry : the entry without its decisions
    path : file of the entry
    sha256 : SHA-256 of the file's bytes
    baseline : whether its bytes are those of a baseline
    same : specs of the baselines with the same schedule
    """

    entry: Entry
    path: Path
    sha256: str
    baseline: bool
    same: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name in addresses and file names: the first 12 hexadecimal digits of the seal."""
        return self.entry.sha256[:12]

    @property
    def title(self) -> str:
        """Its title, else its spec, else its key; up to LONGEST characters."""
        about = self.entry.about
        text = about.title.strip() or self.entry.player.spec.strip() or self.key
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def entry_files(folder: str | Path) -> list[Path]:
    """Paths of the entries in a folder, sorted.

    Raises
    ------
    GpuschedError : not a folder
    """
    if not Path(folder).is_dir():
        raise GpuschedError(f"{folder}: not a folder; name one that holds entries, *{SUFFIX}")
    return sorted(path for path in Path(folder).iterdir() if path.name.lower().endswith(SUFFIX))


def playable(names: Collection[str], log: Path | None) -> dict[str, TrackProblem]:
    """The tracks of ``names`` that can be played here, by name.

    Raises
    ------
    MissingLogError : ``log`` was given, and is not the log of the track
    """
    problems = {}
    for track in map(get_track, names):
        try:
            problems[track.name] = track.problem(log)
        except MissingLogError:
            if log is not None:
                raise
    return problems


def read_given(
    paths: Iterable[Path], beside: Iterable[Path], vouched: Baselines, names: Collection[str], log: Path | None
) -> tuple[list[Given], list[Refused]]:
    """Read files, and refuse those that are not entries of a track that can be played here.

    Parameters
    ----------
    beside : further files, which come before ``paths``
    vouched : baselines besides the entries of the package
    names : names of the tracks that are shown; entries of other tracks are ignored

    Raises
    ------
    MissingLogError : as :func:`playable`
    """
    problems = playable(names, log)
    given: dict[str, Given] = {}
    refused = []
    for path in itertools.chain(beside, paths):
        try:
            one = _read(path, vouched)
            track = get_track(one.entry.track)
            if track.name not in names:
                continue
            if track.name not in problems:
                raise EntryError(_absence(track))
            check_claims(one.entry, problems[track.name])
            if one.key in given:
                raise EntryError(f"the same entry as {visible(given[one.key].path.name)}")
            given[one.key] = one
        except EntryError as error:
            refused.append((path, str(error)))
    return list(given.values()), refused


def _read(path: Path, vouched: Baselines) -> Given:
    packed = read_packed(path)
    entry = parse_packed(packed)
    sha256 = sha256_of_bytes(packed)
    shipped = shipped_baselines(entry.track)
    baseline = sha256 in shipped.files or sha256 in vouched.files
    same = dict.fromkeys(shipped.same_schedule(entry, baseline) + vouched.same_schedule(entry, baseline))
    light = msgspec.structs.replace(
        entry, runs=[msgspec.structs.replace(run, decisions=NO_DECISIONS) for run in entry.runs]
    )
    return Given(light, path, sha256, baseline, tuple(same))


def _absence(track: Track) -> str:
    """Say why entries of a track are not shown, without naming folders of the machine that builds the site."""
    assert track.windows is not None
    return f"not checked: its track needs the log {track.windows.file}, which was missing when this site was built"


def unique_labels(entries: Iterable[Given]) -> dict[str, str]:
    """Unique labels of entries, by key: the title, followed by the key if another entry has the same title.

    A baseline keeps its plain title, even if entries that are not baselines have the same.
    """
    found = list(entries)
    titles = [one.title for one in found]
    return {
        one.key: title if titles.count(title) == 1 or (one.baseline and _alone(one, found)) else f"{title} ({one.key})"
        for one, title in zip(found, titles, strict=True)
    }


def _alone(one: Given, entries: Iterable[Given]) -> bool:
    return sum(other.baseline and other.title == one.title for other in entries) == 1
