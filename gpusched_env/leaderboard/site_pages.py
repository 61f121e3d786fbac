"""The pages of the site: an index with the best entries of every track, one page per track, and one page per entry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.leaderboard.claims import WHAT_TO_CHECK
from gpusched_env.leaderboard.site_runs import packed_file
from gpusched_env.leaderboard.site_tables import Shown, scored, seed_table, track_table
from gpusched_env.leaderboard.tracks import TRACKS, Track
from gpusched_env.reports.curves import BINS
from gpusched_env.reports.pages import SITE_POLICY, asset, page
from gpusched_env.reports.tables import Table

if TYPE_CHECKING:
    from gpusched_env.leaderboard.site import Built

BEST: Final = 5  # number of entries of each track on the index page
TITLE: Final = "GPU cluster scheduling leaderboard"
TRACK_SCRIPTS: Final = ("plotly.min.js", "table.js", "plots.js", "gantt.js", "viewer.js", "track.js")


@dataclass(frozen=True)
class TrackPage:
    """A track and its entries, with the fields that templates use."""

    track: Track
    entries: Sequence[Shown]

    @property
    def name(self) -> str:
        """Title of the track."""
        return self.track.title

    @property
    def anchor(self) -> str:
        """Name of the track in addresses."""
        return self.track.name

    @property
    def href(self) -> str:
        """File name of the track's page."""
        return f"track-{self.track.name}.html"

    @property
    def description(self) -> str:
        """Description of the problem, and of what the outcome depends on."""
        return self.track.parts

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.entries)

    @property
    def scored(self) -> str:
        """Description of the scored metric."""
        return self.track.scored

    @property
    def best(self) -> Table:
        """Short table of the best entries."""
        return track_table(self.entries[:BEST], self.track.metric, brief=True)


def write_pages(folder: Path, built: Built) -> None:
    """Write all pages with their scripts and their style sheet."""
    tracks = [TrackPage(track, built.entries[track.name]) for track in TRACKS if track.name in built.entries]
    assets = folder / "assets"
    assets.mkdir()
    for name in ("style.css", *TRACK_SCRIPTS):
        (assets / name).write_text(asset(name), encoding="utf-8")
    _write(
        folder / "index.html",
        "index.html",
        tracks,
        title=TITLE,
        refused=built.reasons(),
        check=WHAT_TO_CHECK if built.differs else "",
    )
    for track in tracks:
        _write_track(folder, track, tracks)
        for shown in track.entries:
            _write_entry(folder, shown, track, tracks)


def _write(path: Path, template: str, tracks: Sequence[TrackPage], **fields: Any) -> None:
    path.write_text(page(template, policy=SITE_POLICY, tracks=tracks, **fields), encoding="utf-8")


def _write_track(folder: Path, track: TrackPage, tracks: Sequence[TrackPage]) -> None:
    shown = track.entries
    seeds = [run.seed for run in shown[0].runs] if shown else []
    entries = [{"key": one.key, "label": one.label, "baseline": one.baseline} for one in shown]
    _write(
        folder / track.href,
        "track.html",
        tracks,
        title=f"Track {track.name}",
        track=track,
        table=track_table(shown, track.track.metric),
        bins=BINS,
        entries=entries,
        seeds=seeds,
        page={"track": track.anchor, "entries": entries, "seeds": seeds},
        scripts=TRACK_SCRIPTS if shown else TRACK_SCRIPTS[1:2],
    )


def _write_entry(folder: Path, shown: Shown, track: TrackPage, tracks: Sequence[TrackPage]) -> None:
    entry, about = shown.entry, shown.entry.about
    file = packed_file(folder, entry.track, shown.key)
    _write(
        folder / shown.href,
        "entry.html",
        tracks,
        title=shown.label,
        badges=shown.badges,
        track=track,
        of=len(track.entries),
        shown=shown,
        score=scored(shown.score),
        file=file.relative_to(folder).as_posix(),
        size=f"{file.stat().st_size / 1000:,.0f} kB",
        claims=_claims(shown),
        checked=_checked(shown),
        # The schema allows only these addresses; this is a second check.
        link=about.link if about.link.startswith(("https://", "http://")) else "",
        table=seed_table(shown, track.href, track.track.metric),
    )


def _checked(shown: Shown) -> list[tuple[str, str]]:
    """Return the claims that playing the scheduler has checked, as pairs (name, text)."""
    if not shown.checked:
        return []
    player = shown.entry.player
    return [("scheduler", player.spec), ("reads true run times", "yes" if player.clairvoyant else "no")]


def _claims(shown: Shown) -> list[tuple[str, str]]:
    """Return the claims of the entry that nothing has checked, as pairs (name, text)."""
    entry, about = shown.entry, shown.entry.about
    learned = ", ".join(f"{first} to {end - 1}" for first, end in about.training_seeds)
    told = {
        "title": about.title,
        "authors": about.authors,
        "how": about.how,
        "hardware": about.hardware,
        "training seeds": learned or "none",
        "reads true run times": "yes" if entry.player.clairvoyant else "no",
        "scheduler": entry.player.spec,
        "parameters": json.dumps(entry.player.parameters, sort_keys=True) if entry.player.parameters else "none",
        "played with": f"gpusched-env {entry.version}",
        "licence": about.licence,
    }
    known = dict(_checked(shown))
    return [(name, text) for name, text in told.items() if text.strip() and name not in known]
