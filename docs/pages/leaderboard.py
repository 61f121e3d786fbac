"""Results of the registered schedulers on each track, from the entries that the package ships."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gpusched_env.leaderboard.scoring import at_bound, score_on
from gpusched_env.leaderboard.standings import shipped_standings, values
from gpusched_env.leaderboard.tracks import TRACKS, Track
from gpusched_env.metrics import COLUMN_OF, TENANT_COLUMNS, Column, Interval, mean_interval
from gpusched_env.support.units import Unit, unit_for
from pages.markdown import table
from pages.markdown import write as write_page

TENANT_TITLES = {
    "worst_tenant_jct_s": "worst tenant's mean JCT",
    "tenant_distance": "distance from fair shares",
    "tenant_jain": "Jain's index",
    "tenant_violation": "beyond limits",
}


class Result(NamedTuple):
    """One scheduler on one track.

    Attributes
    ----------
    scheduler : its registered name
    clairvoyant : whether it reads true run times
    value : what the track ranks by: mean JCT or makespan [s], or the share of deadlines met
    score : 0 = FIFO, 1 = the lower bound; on a track with a reference, the ratio to it
    p99 : 99th percentile of the JCT [s]
    preemptions : a job
    tenants : the columns of TENANT_COLUMNS; empty if the track has no tenants
    rank, of : its rank on the track, and how many entries are ranked with it
    bound, bound_score : value and score of the lower bound (of deadlines met, of the upper one)
    """

    track: Track
    scheduler: str
    clairvoyant: bool
    value: Interval
    score: Interval
    p99: Interval
    preemptions: Interval
    tenants: tuple[Interval, ...]
    rank: int
    of: int
    bound: Interval
    bound_score: Interval


def read_results() -> list[Result]:
    """Read the shipped entries, track by track, best first."""
    return [result for track in TRACKS for result in _results(track)]


def _results(track: Track) -> list[Result]:
    entries = shipped_standings(track)
    bound = at_bound(entries[0].runs, track.metric)
    [base] = [shown.runs for shown in entries if shown.entry.player.spec == track.base]
    return [
        Result(
            track,
            shown.entry.player.spec,
            shown.entry.player.clairvoyant,
            mean_interval(values(shown.runs, track.metric)),
            shown.score,
            mean_interval(values(shown.runs, "p99_jct_s")),
            mean_interval(values(shown.runs, "preemptions_per_job")),
            tuple(
                mean_interval(values(shown.runs, column.name))
                for column in TENANT_COLUMNS
                if column.name in shown.runs[0].metrics
            ),
            shown.rank,
            shown.of,
            mean_interval(values(bound, track.metric)),
            score_on(track, bound, base),
        )
        for shown in entries
    ]


def number(interval: Interval, unit: float = 1.0) -> str:
    """Write a mean in a unit, with half the width of its interval."""
    return f"{interval.mean / unit:.2f} ± {interval.half_width / unit:.2f}".replace(" ", "\N{NO-BREAK SPACE}")


def page_of(result: Result) -> str:
    """Return the name of the scheduler's page; agents of a name of their own are on that of ``learned``."""
    name: str = result.scheduler.partition(":")[0]
    return name


def _tenant_column(column: Column, unit: Unit) -> tuple[str, float]:
    """Return the head of a column about tenants, and the size of its unit; ``unit`` is that of times."""
    title = TENANT_TITLES[column.name]
    if column.unit == "s":
        return f"{title} [{unit.sign}]", unit.seconds
    return (f"{title} [%]", 0.01) if column.unit == "share" else (title, 1.0)


def write_track(track: Track, results: list[Result]) -> str:
    """Give the section of one track."""
    column = COLUMN_OF[track.metric]
    unit = unit_for([(results[0].value if column.unit == "s" else results[0].p99).mean])
    scored = unit if column.unit == "s" else Unit("%", 0.01)
    by_tenant = [_tenant_column(one, unit) for one in TENANT_COLUMNS[: len(results[0].tenants)]]
    rows = [
        [
            str(result.rank),
            f"[{result.scheduler}](../schedulers/{page_of(result)}.md){'*' if result.clairvoyant else ''}",
            number(result.value, scored.seconds),
            number(result.score),
            number(result.p99, unit.seconds),
            number(result.preemptions),
            *(number(value, size) for value, (_, size) in zip(result.tenants, by_tenant, strict=True)),
        ]
        for result in results
    ]
    bound = ["", "bound", number(results[0].bound, scored.seconds), number(results[0].bound_score)]
    rows.append(bound + [""] * (len(rows[0]) - len(bound)))
    head = [
        "rank",
        "scheduler",
        f"{track.scored} [{scored.sign}]",
        track.score_name,
        f"p99 JCT [{unit.sign}]",
        "preemptions a job",
        *(title for title, _ in by_tenant),
    ]
    where = f"{track.rules} Scenario `{track.scenario_name}`, {track.reports} seeds."
    return f"## {track.title}: `{track.name}`\n\n{track.parts} {where}\n\n{table(head, rows)}\n"


def write(folder: Path, results: list[Result]) -> None:
    """Write one page with a table for each track."""
    tracks = list(dict.fromkeys(result.track for result in results))
    parts = [write_track(track, [result for result in results if result.track == track]) for track in tracks]
    introduction = (
        "# Results of the baselines\n\n"
        "These are the entries that the package ships, one for each scheduler that fits a track. Each number is the\n"
        "mean over the track's report seeds with its 95 % interval. A score of 0 is that of FIFO, and 1 is the lower\n"
        "bound; a ratio is a geometric mean.\n"
        "A scheduler with * reads true run times. [Metrics](../metrics.md) defines the columns.\n"
        "Playing a scheduler again gives the same numbers.\n"
        "[The leaderboard](../leaderboard.md) explains how to enter.\n"
    )
    write_page(folder / "baselines.md", "\n".join([introduction, *parts]))
