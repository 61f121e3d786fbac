"""The entries of a track, ranked and scored, as tables with intervals."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.tables import heading, unit_of
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.entry import Entry
from gpusched_env.leaderboard.scoring import Scored, at_bound, compared, more_is_better, ranked, score_on
from gpusched_env.leaderboard.tracks import Track, scored_first
from gpusched_env.leaderboard.verifying import LEARNED
from gpusched_env.metrics import COLUMN_OF, Interval, bootstrap_mean
from gpusched_env.support.tables import BOUND, Cell, Heading, Row, Table
from gpusched_env.support.units import Unit, three_digits

BASELINE: Final = "baseline"
CLAIRVOYANT: Final = "reads true run times"
CLAIMED: Final = "claimed, not checked"
# Scored metric -> second metric (brief)
BESIDE: Final = {"mean_jct_s": "p99_jct_s", "makespan_s": "mean_jct_s", "deadlines_met": "mean_jct_s"}
NO_UNIT: Final = Unit("", 1.0)
LONGEST: Final = 80  # [characters] longest name in tables and plots
RANDOM: Final = "random"  # spec of the baseline that has a row in every table


@dataclass(frozen=True)
class Given:
    """An entry with valid format and seal whose claims are not verified yet.

    The decisions are in the file at ``path``; None = a baseline in memory. ``same`` : baselines of the same schedule.
    """

    entry: Entry
    path: Path | None
    baseline: bool
    same: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name of the entry in addresses and file names, the first 12 hexadecimal digits of the seal."""
        return self.entry.sha256[:12]

    @property
    def name(self) -> Path:
        """Name of the entry's file; for a baseline in memory, its track and scheduler."""
        return name_of(self.path or self.entry)

    @property
    def title(self) -> str:
        """Title of the entry; if it is empty, the spec; if that is empty, the key. At most LONGEST characters."""
        about = self.entry.about
        text = about.title.strip() or self.entry.player.spec.strip() or self.key
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def name_of(source: Path | Entry) -> Path:
    """Return the name of an entry's file; for a baseline in memory, its track and scheduler."""
    return source if isinstance(source, Path) else Path(f"{source.track}-{source.player.spec}")


@dataclass(frozen=True)
class Shown(Given):
    """An entry that the site shows: all its runs were replayed, and its claims are true.

    ``score`` : :func:`~gpusched_env.leaderboard.scoring.score_on`; NaN without an entry of ``track.base``.
    ``checked`` : whether the scheduler that the entry names was played, and made its event logs. ``of`` : number of
    entries that are ranked together.
    """

    runs: Sequence[Scored]
    label: str
    score: Interval
    checked: bool
    rank: int
    of: int

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
        learned = self.entry.player.name.partition(":")[0] == LEARNED  # not if it plays untrained
        known = [BASELINE, LEARNED] if learned else [BASELINE]  # the spec of a file of the package is true
        plays = [f"plays {self.entry.player.spec}"] * (self.checked and not self.baseline)
        return known * self.baseline + plays + [f"same schedule as {', '.join(self.same)}"] * bool(self.same)


def standings(
    given: Sequence[Given], track: Track, runs: Mapping[str, Sequence[Scored]], checked: Collection[str] = ()
) -> list[Shown]:
    """Rank and score entries, best first; with a reference, those that read true run times apart, after the others.

    ``runs`` : by key. ``checked`` : keys of those whose scheduler was played, too.
    """
    labels = unique_labels(given)
    base = next((runs[one.key] for one in given if one.baseline and one.entry.player.spec == track.base), ())
    shown = []
    for reads in (False, True) if track.reference else (None,):
        group = {one.key: one for one in given if reads in (None, one.entry.player.clairvoyant)}
        for key, rank in ranked({key: runs[key] for key in sorted(group)}, track).items():
            score = _score(runs[key], base, track)
            shown.append(Shown(**vars(group[key]), runs=runs[key], label=labels[key], score=score,
                               checked=key in checked, rank=rank, of=len(group)))  # fmt: skip
    return shown


def unique_labels(entries: Iterable[Given]) -> dict[str, str]:
    """Return key -> unique label of each entry."""
    found = list(entries)
    titles = [one.title for one in found]
    return {
        one.key: title if titles.count(title) == 1 or (one.baseline and _alone(one, found)) else f"{title} ({one.key})"
        for one, title in zip(found, titles, strict=True)
    }


def _alone(one: Given, entries: Iterable[Given]) -> bool:
    return sum(other.baseline and other.title == one.title for other in entries) == 1


def shipped_standings(track: Track) -> list[Shown]:
    """Return the standings of the entries of the package; nothing is played."""
    given = [Given(entry, None, True, ()) for entry in shipped_entries(track.name)]
    return standings(given, track, {one.key: one.entry.runs for one in given})


def _score(runs: Sequence[Scored], base: Sequence[Scored], track: Track) -> Interval:
    """Return the score; NaN if there is no entry to compare with, or if FIFO is at the bound on every seed."""
    if base:
        with contextlib.suppress(GpuschedError):
            return score_on(track, runs, base)
    return Interval(math.nan, math.nan, math.nan, len(runs))


def track_tables(entries: Sequence[Shown], track: Track, brief: bool = False, best: int | None = None) -> list[Table]:
    """Return a table of the entries that are ranked together, best first, with :data:`RANDOM` and the lower bound.

    ``best`` : number of entries, beside ``random``; None = all. ``brief`` : two metrics, instead of all and ratios to
    the first entry.
    """
    groups = [list(group) for _, group in itertools.groupby(entries, lambda one: track.reference and _reads(one))]
    return [_table(group, entries, track, brief, best) for group in groups]


def _reads(shown: Shown) -> bool:
    return shown.entry.player.clairvoyant


class _Line(NamedTuple):
    """A row before its columns are chosen; ``below`` : it stays below the entries."""

    rank: Cell
    name: Cell
    score: Interval
    runs: Sequence[Scored]
    claims: Cell
    below: bool = False


def _lines(group: Sequence[Shown], entries: Sequence[Shown], track: Track, best: int | None) -> list[_Line]:
    """Return the best entries of a group, then ``random`` if it is not one of them, and the bound."""
    base = next((one.runs for one in entries if one.baseline and one.entry.player.spec == track.base), ())
    chance = [one for one in entries if one.baseline and one.entry.player.spec == RANDOM and one not in group[:best]]
    lines = []
    for one in (*group[:best], *chance):
        rank = Cell(str(one.rank), one.rank, mark="rank") if one in group else Cell("")
        name = Cell(one.label, href=one.href, badges=one.badges)
        lines.append(_Line(rank, name, one.score, one.runs, _claims(one), one in chance))
    bound = at_bound(group[0].runs, track.metric)
    name = Cell("upper bound" if more_is_better(track.metric) else BOUND)
    return [*lines, _Line(Cell(""), name, _score(bound, base, track), bound, Cell(""), True)]


def _table(group: Sequence[Shown], entries: Sequence[Shown], track: Track, brief: bool, best: int | None) -> Table:
    metrics = [track.metric, BESIDE[track.metric]] if brief else scored_first(track.metric, group[0].runs)
    lines = _lines(group, entries, track, best)
    means = {name: [bootstrap_mean(values(line.runs, name)) for line in lines] for name in metrics}
    units = {name: unit_of(name, means[name][:-1]) for name in metrics}
    rows = []
    for number, line in enumerate(lines):
        times = [] if brief else [_times(line.runs, group[0].runs, track.metric)]
        of_metrics = [interval(means[name][number], units[name]) for name in metrics]
        cells = [line.rank, line.name, scored(line.score, track), *times, *of_metrics, line.claims]
        rows.append(Row(cells, bound=line.below))
    caption = f"Recomputed: mean over {len(group[0].runs)} seeds [95 % bootstrap interval]"
    if track.reference:
        caption += "; ratios: geometric mean [95 % Student t interval]"
        caption += f"; schedulers that {'' if _reads(group[0]) else 'do not '}read true run times"
    return Table(caption, _columns(track, metrics, units, brief), rows, sorted_by=0, named_by=1)


def _columns(track: Track, metrics: Sequence[str], units: Mapping[str, Unit], brief: bool) -> list[Heading]:
    metric = track.metric
    rank, score = f"rank by {metric}, mean over seeds", f"score by {metric} over all seeds: 0 = FIFO, 1 = the bound"
    if track.reference:
        rank = f"rank by {metric}, geometric mean over seeds; shared if there is no difference from the rank's first"
        score = f"{metric} / that of {track.reference} on the same seed, geometric mean [95 % Student t interval]"
    better = COLUMN_OF[metric].better if track.reference else "max"
    ratio = [] if brief else [Heading("times best", title=f"{metric} / that of the first entry, paired by seed")]
    return [
        Heading("#", title=rank),
        Heading("entry", text=True),
        Heading(track.score_name, title=score, better=better),
        *ratio,
        *(heading(name, units[name]) for name in metrics),
        Heading(CLAIMED, text=True, title="claims of the authors that nothing has checked"),
    ]


def values(runs: Sequence[Scored], name: str) -> np.ndarray:
    """Return a metric of each seed, NaN if it is undefined; float64 [seeds]."""
    return np.array([run.metrics.get(name, math.nan) for run in runs], float)


def interval(value: Interval, unit: Unit) -> Cell:
    """Return a cell with a mean and its interval."""
    if not math.isfinite(value.mean):
        return Cell("-")
    text = three_digits(value.mean / unit.seconds)
    decimals = len(text.partition(".")[2])
    low, high = (f"{bound / unit.seconds:,.{decimals}f}" for bound in (value.low, value.high))
    return Cell(text, value.mean, detail=f"[{low}, {high}]" if math.isfinite(value.low) else "", interval=value)


def scored(score: Interval, track: Track) -> Cell:
    """Return a cell with a score; from 0 to 1, above a bar: for a score below 0, the bar has length 0."""
    cell = interval(score, NO_UNIT)
    if track.reference or not math.isfinite(score.mean):
        return cell
    return dataclasses.replace(cell, bar=min(max(score.mean, 0.0), 1.0))


def _times(runs: Sequence[Scored], best: Sequence[Scored], metric: str) -> Cell:
    """Return a cell with the ratio of a metric to that of the best entry; "-" if a value is 0, as a share may be."""
    if not (values(runs, metric) > 0).all() or not (values(best, metric) > 0).all():
        return Cell("-")
    return interval(compared(runs, best, metric), NO_UNIT)


def _claims(shown: Shown) -> Cell:
    """Return a cell with claims that nothing has checked: the authors, and whether the scheduler is clairvoyant."""
    read = CLAIRVOYANT if _reads(shown) else "does not read true run times"
    authors = shown.entry.about.authors.strip()
    if shown.baseline:
        return Cell(read)
    return Cell(f'by "{authors}"' if authors else "names no authors", detail="" if shown.checked else read)
