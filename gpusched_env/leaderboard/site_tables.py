"""Tables of the site: the entries of a track with their intervals, and the seeds of an entry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.evaluation.results import RunResult
from gpusched_env.evaluation.tables import heading, unit_of
from gpusched_env.leaderboard.scoring import compared, more_is_better
from gpusched_env.leaderboard.site_entries import Given
from gpusched_env.leaderboard.tracks import scored_first
from gpusched_env.leaderboard.verifying import LEARNED
from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.portable.arrays import mean
from gpusched_env.support.tables import Cell, Heading, Row, Table
from gpusched_env.support.units import Unit, three_digits

BASELINE: Final = "baseline"
CLAIMED: Final = "claimed, not checked"
BESIDE: Final = {
    "mean_jct_s": "p99_jct_s",
    "makespan_s": "mean_jct_s",
    "deadlines_met": "mean_jct_s",
}  # scored metric -> second metric (brief)
NO_UNIT: Final = Unit("", 1.0)


@dataclass(frozen=True)
class Shown(Given):
    """An entry that the site shows: all its runs were replayed, and its claims are true.

    ``score`` : 0 = equal to FIFO, 1 = equal to the bound; NaN without an entry of FIFO. ``checked`` : whether the
    scheduler that the entry names was played, and made its event logs. Equal results have the same rank.
    """

    runs: Sequence[RunResult]
    label: str
    score: Interval
    checked: bool = False
    rank: int = 0

    @property
    def played(self) -> bool:
        """Whether the entry has no decisions, so that its scheduler was played instead."""
        return all(run.decisions is None for run in self.entry.runs)

    @property
    def href(self) -> str:
        """File name of the entry's page."""
        return f"entry-{self.key}.html"

    @property
    def badges(self) -> list[str]:
        """Badges of the entry; they depend only on its seal and on digests, not on texts of others."""
        learned = self.entry.player.spec.partition(":")[0] == LEARNED
        known = [BASELINE, LEARNED] if learned else [BASELINE]  # the spec of a file of the package is true
        plays = [f"plays {self.entry.player.spec}"] * (self.checked and not self.baseline)
        return known * self.baseline + plays + [f"same schedule as {', '.join(self.same)}"] * bool(self.same)

    def values(self, name: str) -> np.ndarray:
        """Return a metric of each seed, NaN if it is undefined; float64 [seeds]."""
        return np.array([run.metrics.get(name, math.nan) for run in self.runs], float)


def ranked(entries: Sequence[Shown], metric: str) -> list[Shown]:
    """Sort entries by the mean of the scored metric, best first, and set their ranks."""
    sign = -1.0 if more_is_better(metric) else 1.0
    means = {shown.key: sign * mean(shown.values(metric)) for shown in entries}
    order = sorted(entries, key=lambda shown: (means[shown.key], shown.key))
    return [
        dataclasses.replace(shown, rank=1 + sum(mean < means[shown.key] for mean in means.values())) for shown in order
    ]


def track_table(entries: Sequence[Shown], metric: str, brief: bool = False) -> Table:
    """Return the table of the entries of a track, best first, with two metrics (brief) or all and paired ratios."""
    seeds = len(entries[0].runs) if entries else 0
    metrics = [metric, BESIDE[metric]] if brief or not entries else scored_first(metric, entries[0].runs)
    means = {name: [bootstrap_mean(shown.values(name)) for shown in entries] for name in metrics}
    units = {name: unit_of(name, means[name]) for name in metrics}
    ratio = [] if brief else [Heading("times best", title=f"{metric} / that of the first entry, paired by seed")]
    columns = [
        Heading("#", title=f"rank by {metric}, mean over seeds"),
        Heading("entry", text=True),
        Heading("score", title=f"score by {metric} over all seeds: 0 = FIFO, 1 = the bound", better="max"),
        *ratio,
        *(heading(name, units[name]) for name in metrics),
        Heading(CLAIMED, text=True, title="claims of the authors that nothing has checked"),
    ]
    rows = []
    for number, shown in enumerate(entries):
        cells = [
            Cell(str(shown.rank), shown.rank, mark="rank"),
            Cell(shown.label, href=shown.href, badges=shown.badges),
        ]
        cells.append(scored(shown.score))
        if not brief:
            cells.append(_times(shown, entries[0], metric))
        cells += [interval(means[name][number], units[name]) for name in metrics]
        rows.append(Row([*cells, _claims(shown)]))
    caption = f"Recomputed: mean over {seeds} seeds [95 % bootstrap interval]"
    return Table(caption, columns, rows, sorted_by=0, named_by=1)


def seed_table(shown: Shown, track_href: str, metric: str) -> Table:
    """Return the table of an entry with one row per seed; each row has a link to the schedule."""
    metrics = scored_first(metric, shown.runs)
    units = {
        name: unit_of(name, [Interval(value, math.nan, math.nan, 1) for value in shown.values(name)])
        for name in metrics
    }
    columns = [Heading("seed"), *(heading(name, units[name]) for name in metrics), Heading("event log", text=True)]
    rows = []
    for number, run in enumerate(shown.runs):
        cells = [Cell(str(run.seed), run.seed, f"{track_href}#seed={run.seed}&left={shown.key}")]
        for name in metrics:
            value = float(shown.values(name)[number])
            text = three_digits(value / units[name].seconds)
            cells.append(Cell(text, value if math.isfinite(value) else None))
        rows.append(Row([*cells, Cell(run.digest[:16])]))
    return Table("Click on a seed to see its schedule", columns, rows)


def interval(value: Interval, unit: Unit) -> Cell:
    """Return a cell with a mean and its interval."""
    if not math.isfinite(value.mean):
        return Cell("-")
    text = three_digits(value.mean / unit.seconds)
    decimals = len(text.partition(".")[2])
    low, high = (f"{bound / unit.seconds:,.{decimals}f}" for bound in (value.low, value.high))
    return Cell(text, value.mean, detail=f"[{low}, {high}]" if math.isfinite(value.low) else "")


def scored(score: Interval) -> Cell:
    """Return a cell with a score above a bar from 0 to 1; for a score below 0, the bar has length 0."""
    cell = interval(score, NO_UNIT)
    return dataclasses.replace(cell, bar=min(max(score.mean, 0.0), 1.0)) if math.isfinite(score.mean) else cell


def _times(shown: Shown, best: Shown, metric: str) -> Cell:
    """Return a cell with the ratio of a metric to that of the best entry; "-" if a value is 0, as a share may be."""
    if not (shown.values(metric) > 0).all() or not (best.values(metric) > 0).all():
        return Cell("-")
    return interval(compared(shown.runs, best.runs, metric), NO_UNIT)


def _claims(shown: Shown) -> Cell:
    """Return a cell with claims that nothing has checked: the authors, and whether the scheduler is clairvoyant."""
    read = "reads true run times" if shown.entry.player.clairvoyant else "does not read true run times"
    authors = shown.entry.about.authors.strip()
    if shown.baseline:
        return Cell(read)
    return Cell(f'by "{authors}"' if authors else "names no authors", detail="" if shown.checked else read)
