"""Tables of the site: entries of a track with intervals, and one entry seed by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.leaderboard.entry import Entry
from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.reports.tables import Cell, Heading, Row, Table, heading, scale_of
from gpusched_env.units import Unit, three_digits

BRIEF: Final = ("mean_jct_s", "p99_jct_s")
FULL: Final = (
    "mean_jct_s",
    "median_jct_s",
    "p99_jct_s",
    "makespan_s",
    "mean_queueing_s",
    "rho_fair_share",
    "utilisation",
    "communication_share",
    "preemptions_per_job",
)
NO_UNIT: Final = Unit("", 1.0)


@dataclass(frozen=True)
class Shown:
    """An entry as the site shows it.

    Attributes
    ----------
    entry : what was submitted
    path : its file
    key : in names of files: letters and digits of its checksum, nothing that anyone chose
    label : name in tables and plots
    baseline : whether it comes with the package
    verified : whether all of its runs were replayed and gave what it claims
    score : mean over seeds, 0 = FIFO, 1 = lower bound; all NaN where FIFO is not there
    """

    entry: Entry
    path: Path
    key: str
    label: str
    baseline: bool
    verified: bool
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


def track_table(entries: Sequence[Shown], metrics: Sequence[str] = FULL, sortable: bool = True) -> Table:
    """Tabulate entries of one track, in the order given: score, metrics, and whether they were verified."""
    seeds = len(entries[0].entry.runs) if entries else 0
    means = {name: [bootstrap_mean(shown.values(name)) for shown in entries] for name in metrics}
    units = {name: scale_of(name, means[name]) for name in metrics}
    columns = [
        Heading("entry", text=True),
        Heading("score", title="0 = FIFO, 1 = the lower bound; mean over seeds", better="max"),
        *(heading(name, units[name]) for name in metrics),
        Heading("checked", text=True),
    ]
    rows = []
    for number, shown in enumerate(entries):
        cells = [_name(shown), interval(shown.score, NO_UNIT)]
        cells += [interval(means[name][number], units[name]) for name in metrics]
        rows.append(Row([*cells, _checked(shown)]))
    caption = f"Mean over {seeds} seeds [95 % bootstrap interval]"
    return Table(caption, columns, rows, sortable=sortable, sorted_by=1)


def seed_table(shown: Shown, track_href: str) -> Table:
    """Tabulate an entry seed by seed, with a way to each schedule."""
    runs = shown.entry.runs
    units = {
        name: scale_of(name, [Interval(value, math.nan, math.nan, 1) for value in shown.values(name)]) for name in FULL
    }
    columns = [Heading("seed"), *(heading(name, units[name]) for name in FULL), Heading("event log", text=True)]
    rows = []
    for number, run in enumerate(runs):
        cells = [Cell(str(run.seed), run.seed, f"{track_href}#seed={run.seed}&left={shown.key}")]
        for name in FULL:
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


def _checked(shown: Shown) -> Cell:
    return Cell("\N{CHECK MARK} verified", mark="verified") if shown.verified else Cell("not replayed", mark="refused")
