"""Tables of the site: entries of a track with intervals, and one entry seed by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.scoring import compared
from gpusched_env.leaderboard.tracks import METRICS
from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.reports.tables import Cell, Heading, Row, Table, heading, scale_of
from gpusched_env.units import Unit, three_digits

BRIEF: Final = ("mean_jct_s", "p99_jct_s")
VERIFIED: Final = "\N{CHECK MARK} verified"
NO_UNIT: Final = Unit("", 1.0)


@dataclass(frozen=True)
class Shown:
    """An entry as the site shows it: all of its runs were replayed and gave what it claims.

    Attributes
    ----------
    entry : what was submitted
    path : its file
    key : in names of files: letters and digits of its checksum, nothing that anyone chose
    label : name in tables and plots
    baseline : whether it comes with the package
    score : mean over seeds, 0 = FIFO, 1 = lower bound; all NaN where FIFO is not there
    """

    entry: Entry
    path: Path
    key: str
    label: str
    baseline: bool
    score: Interval

    @property
    def href(self) -> str:
        """Page of the entry."""
        return f"entry-{self.key}.html"

    def values(self, name: str) -> np.ndarray:
        """float64 [seeds]: a metric, NaN where it has no meaning."""
        found = [run.metrics.get(name) for run in self.entry.runs]
        return np.array([math.nan if value is None else value for value in found], float)


def ranked(entries: Sequence[Shown]) -> list[Shown]:
    """Best score first; those without a score last, by mean JCT."""

    def rank(shown: Shown) -> tuple[float, float, str]:
        score = shown.score.mean
        return (-score if math.isfinite(score) else math.inf, float(shown.values("mean_jct_s").mean()), shown.key)

    return sorted(entries, key=rank)


def track_table(entries: Sequence[Shown], metrics: Sequence[str] = METRICS, paired: str = "") -> Table:
    """Tabulate entries of one track, best first.

    Parameters
    ----------
    metrics : columns
    paired : a metric of which the ratio to that of the first entry is told, seed by seed; empty = none
    """
    seeds = len(entries[0].entry.runs) if entries else 0
    means = {name: [bootstrap_mean(shown.values(name)) for shown in entries] for name in metrics}
    units = {name: scale_of(name, means[name]) for name in metrics}
    columns = [
        Heading("entry", text=True),
        Heading("score", title="0 = FIFO, 1 = the lower bound; mean over seeds", better="max"),
        *([Heading("times best", title=f"{paired} over that of the first entry, paired by seed")] if paired else []),
        *(heading(name, units[name]) for name in metrics),
        Heading("checked", text=True),
    ]
    rows = []
    for number, shown in enumerate(entries):
        cells = [_name(shown), interval(shown.score, NO_UNIT)]
        if paired:
            cells.append(interval(compared(shown.entry.runs, entries[0].entry.runs, paired), NO_UNIT))
        cells += [interval(means[name][number], units[name]) for name in metrics]
        rows.append(Row([*cells, Cell(VERIFIED, mark="verified")]))
    caption = f"Mean over {seeds} seeds [95 % bootstrap interval]"
    return Table(caption, columns, rows, sorted_by=1)


def seed_table(shown: Shown, track_href: str) -> Table:
    """Tabulate an entry seed by seed, with a way to each schedule."""
    runs = shown.entry.runs
    units = {
        name: scale_of(name, [Interval(value, math.nan, math.nan, 1) for value in shown.values(name)])
        for name in METRICS
    }
    columns = [Heading("seed"), *(heading(name, units[name]) for name in METRICS), Heading("event log", text=True)]
    rows = []
    for number, run in enumerate(runs):
        cells = [Cell(str(run.seed), run.seed, f"{track_href}#seed={run.seed}&left={shown.key}")]
        for name in METRICS:
            value = float(shown.values(name)[number])
            text = three_digits(value / units[name].seconds)
            cells.append(Cell(text, value if math.isfinite(value) else None))
        rows.append(Row([*cells, Cell(run.digest[:16])]))
    return Table("A seed leads to its schedule", columns, rows)


def interval(value: Interval, unit: Unit) -> Cell:
    """Write a mean and its interval."""
    if not math.isfinite(value.mean):
        return Cell("-")
    text = three_digits(value.mean / unit.seconds)
    decimals = len(text.partition(".")[2])
    low, high = (f"{bound / unit.seconds:,.{decimals}f}" for bound in (value.low, value.high))
    return Cell(text, value.mean, detail=f"[{low}, {high}]" if math.isfinite(value.low) else "")


def _name(shown: Shown) -> Cell:
    told = ["baseline"] if shown.baseline else [shown.entry.about.authors or "no authors named"]
    if shown.entry.player.clairvoyant:
        told.append("reads true run times")
    return Cell(shown.label, href=shown.href, detail=", ".join(told))
