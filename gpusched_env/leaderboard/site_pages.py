"""The pages of the site: the first one with the best of every track, one for each track, one for each entry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.leaderboard.site_tables import BRIEF, Shown, seed_table, track_table
from gpusched_env.leaderboard.tracks import TRACKS, Track
from gpusched_env.reports.curves import BINS
from gpusched_env.reports.pages import SITE_POLICY, asset, page
from gpusched_env.reports.tables import Cell, Heading, Row, Table

if TYPE_CHECKING:
    from gpusched_env.leaderboard.site import Built

BEST: Final = 5  # entries of a track on the first page
TITLE: Final = "GPU cluster scheduling leaderboard"
TRACK_SCRIPTS: Final = ("plotly.min.js", "table.js", "plots.js", "gantt.js", "viewer.js", "track.js")


@dataclass(frozen=True)
class TrackPage:
    """What pages say about a track."""

    track: Track
    entries: Sequence[Shown]

    @property
    def name(self) -> str:
        """Title in words."""
        return self.track.title

    @property
    def anchor(self) -> str:
        """Name in addresses."""
        return self.track.name

    @property
    def href(self) -> str:
        """Page of the track."""
        return f"track-{self.track.name}.html"

    @property
    def description(self) -> str:
        """What schedulers part on."""
        return self.track.parts

    @property
    def count(self) -> int:
        """Entries."""
        return len(self.entries)

    @property
    def best(self) -> Table:
        """The best entries, briefly."""
        return track_table(self.entries[:BEST], BRIEF)


def write_pages(folder: Path, built: Built) -> None:
    """Write all pages, and the scripts and styles that they share."""
    tracks = [TrackPage(track, built.entries[track.name]) for track in TRACKS if track.name in built.entries]
    assets = folder / "assets"
    assets.mkdir()
    for name in ("style.css", *TRACK_SCRIPTS):
        (assets / name).write_text(asset(name), encoding="utf-8")
    _write(folder / "index.html", "index.html", tracks, title=TITLE, refused=_refused(built))
    for track in tracks:
        _write_track(folder, track, tracks)
        for shown in track.entries:
            _write_entry(folder, shown, track, tracks)


def _write(path: Path, template: str, tracks: Sequence[TrackPage], **fields: Any) -> None:
    path.write_text(page(template, policy=SITE_POLICY, tracks=tracks, **fields), encoding="utf-8")


def _refused(built: Built) -> Table:
    rows = [Row([Cell(path.name), Cell(reason, mark="refused")]) for path, reason in built.refused]
    caption = "Files that are no entries, cannot be checked here, or do not give what they claim"
    return Table(caption, [Heading("file", text=True), Heading("why", text=True)], rows, sortable=False)


def _write_track(folder: Path, track: TrackPage, tracks: Sequence[TrackPage]) -> None:
    shown = track.entries
    seeds = [run.seed for run in shown[0].entry.runs] if shown else []
    entries = [{"key": one.key, "label": one.label, "baseline": one.baseline} for one in shown]
    _write(
        folder / track.href,
        "track.html",
        tracks,
        title=f"Track {track.name}",
        track=track,
        table=track_table(shown, paired=track.track.metric),
        bins=BINS,
        entries=entries,
        seeds=seeds,
        page={"track": track.anchor, "entries": entries, "seeds": seeds},
        scripts=TRACK_SCRIPTS if shown else TRACK_SCRIPTS[1:2],
    )


def _write_entry(folder: Path, shown: Shown, track: TrackPage, tracks: Sequence[TrackPage]) -> None:
    entry = shown.entry
    about = entry.about
    learned = ", ".join(f"{first} to {end - 1}" for first, end in about.training_seeds)
    told = {
        "authors": about.authors,
        "how": about.how,
        "hardware": about.hardware,
        "training seeds": learned or "none",
        "licence": about.licence,
    }
    facts = {
        "scheduler": entry.player.spec,
        "parameters": json.dumps(entry.player.parameters, sort_keys=True) if entry.player.parameters else "none",
        "reads true run times": "yes" if entry.player.clairvoyant else "no",
        "played with": f"gpusched-env {entry.version}, results version {entry.results_version}",
        "checksum": entry.sha256,
        "file": shown.path.name,
    }
    _write(
        folder / shown.href,
        "entry.html",
        tracks,
        title=entry.about.title or shown.label,
        track=track,
        told=[(name, text) for name, text in told.items() if text],
        facts=list(facts.items()),
        # The schema lets no other addresses through; a page must not rely on that.
        link=about.link if about.link.startswith(("https://", "http://")) else "",
        table=seed_table(shown, track.href),
    )
