"""The pages of the site: an index with the best entries of every track, one page per track, and one page per entry."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env import __version__
from gpusched_env.evaluation.tables import heading, unit_of
from gpusched_env.leaderboard.standings import Shown, scored, track_tables, values
from gpusched_env.leaderboard.tracks import TRACKS, Track, scored_first
from gpusched_env.leaderboard.verifying import WHAT_TO_CHECK
from gpusched_env.metrics import Interval
from gpusched_env.reports.curves import BINS
from gpusched_env.reports.pages import LIBRARY, POLICY, asset, environment
from gpusched_env.support.tables import Cell, Heading, Row, Table
from gpusched_env.support.units import three_digits
from tools.leaderboard.runs import packed_file

if TYPE_CHECKING:
    from tools.leaderboard.site import Built

HERE: Final = Path(__file__).parent
# A page of a site may load files of the site, from a server or from a local disk.
SITE_POLICY: Final = f"{POLICY}; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'"
BEST: Final = 5  # number of entries of each track on the index page
TITLE: Final = "GPU cluster scheduling leaderboard"
TRACK_SCRIPT: Final = "track.js"
TRACK_SCRIPTS: Final = (LIBRARY, "table.js", "plots.js", "gantt.js", "viewer.js", TRACK_SCRIPT)


def write_pages(folder: Path, built: Built) -> None:
    """Write all pages with their scripts and their style sheet."""
    tracks = [track for track in TRACKS if track.name in built.entries]
    assets = folder / "assets"
    assets.mkdir()
    for name in ("style.css", *TRACK_SCRIPTS):
        text = asset(name) if name != TRACK_SCRIPT else (HERE / "assets" / name).read_text(encoding="utf-8")
        (assets / name).write_text(text, encoding="utf-8")
    _write(
        folder / "index.html",
        "index.html",
        tracks,
        title=TITLE,
        entries=built.entries,
        best={one.name: track_tables(built.entries[one.name], one, brief=True, best=BEST) for one in tracks},
        refused=built.reasons(),
        check=WHAT_TO_CHECK if built.differs else "",
    )
    for track in tracks:
        _write_track(folder, track, built.entries[track.name], tracks)
        for shown in built.entries[track.name]:
            _write_entry(folder, shown, track, tracks)


def _write(path: Path, template: str, tracks: Sequence[Track], **fields: Any) -> None:
    filled = environment(HERE / "templates").get_template(template)
    text = filled.render(version=__version__, policy=SITE_POLICY, tracks=tracks, **fields)
    path.write_text(text, encoding="utf-8")


def _write_track(folder: Path, track: Track, shown: Sequence[Shown], tracks: Sequence[Track]) -> None:
    seeds = [run.seed for run in shown[0].runs] if shown else []
    entries = [{"key": one.key, "label": one.label, "baseline": one.baseline} for one in shown]
    _write(
        folder / f"track-{track.name}.html",
        "track.html",
        tracks,
        title=f"Track {track.title}",
        track=track,
        tables=track_tables(shown, track),
        bins=BINS,
        entries=entries,
        seeds=seeds,
        page={"track": track.name, "entries": entries, "seeds": seeds},
        scripts=TRACK_SCRIPTS if shown else TRACK_SCRIPTS[1:2],
    )


def _write_entry(folder: Path, shown: Shown, track: Track, tracks: Sequence[Track]) -> None:
    entry, about = shown.entry, shown.entry.about
    file = packed_file(folder, entry.track, shown.key)
    _write(
        folder / shown.href,
        "entry.html",
        tracks,
        title=shown.label,
        badges=shown.badges,
        track=track,
        shown=shown,
        score=scored(shown.score, track),
        file=file.relative_to(folder).as_posix(),
        size=f"{file.stat().st_size / 1000:,.0f} kB",
        claims=_claims(shown),
        checked=_checked(shown),
        # The schema allows only these addresses; this is a second check.
        link=about.link if about.link.startswith(("https://", "http://")) else "",
        table=seed_table(shown, f"track-{track.name}.html", track.metric),
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


def seed_table(shown: Shown, track_href: str, metric: str) -> Table:
    """Return the table of an entry with one row per seed; each row has a link to the schedule."""
    metrics = scored_first(metric, shown.runs)
    units = {
        name: unit_of(name, [Interval(value, math.nan, math.nan, 1) for value in values(shown.runs, name)])
        for name in metrics
    }
    columns = [Heading("seed"), *(heading(name, units[name]) for name in metrics), Heading("event log", text=True)]
    rows = []
    for number, run in enumerate(shown.runs):
        cells = [Cell(str(run.seed), run.seed, f"{track_href}#seed={run.seed}&left={shown.key}")]
        for name in metrics:
            value = float(values(shown.runs, name)[number])
            text = three_digits(value / units[name].seconds)
            cells.append(Cell(text, value if math.isfinite(value) else None))
        rows.append(Row([*cells, Cell(shown.entry.runs[number].digest[:16])]))
    return Table("Click on a seed to see its schedule", columns, rows)
