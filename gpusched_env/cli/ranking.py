"""``gpusched leaderboard``: make and verify entries."""

from __future__ import annotations

import dataclasses
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from gpusched_env.cli.choosing import WORKERS, WorkersOption
from gpusched_env.cli.outputs import written
from gpusched_env.errors import GpuschedError, MismatchError, MissingLogError
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.support.files import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table as RichTable

    from gpusched_env.leaderboard import Track
    from gpusched_env.leaderboard.scoring import Scored
    from gpusched_env.support.tables import Row, Table

leaderboard_app = Commands("Make and verify entries of the leaderboard.")

LogOption = Annotated[
    Path | None,
    typer.Option("--workload", help="Log of a track that needs one, if it was not fetched.", metavar="FILE"),
]
REFUSED = 1  # exit status if an entry is refused
NOT_VERIFIED = 3  # exit status if none is refused, but the log of a track is missing


@leaderboard_app.add("list", tables=True)
def list_tracks(log: LogOption = None) -> None:
    """List the tracks with their scenarios and seeds."""
    from gpusched_env.leaderboard import TRACKS

    table = plain_table("track", "scenario", "seeds", "what separates schedulers", texts=4)
    table.columns[0].no_wrap = True
    for track in TRACKS:
        about = f"{track.parts} {track.rules}"
        about += "" if track.clairvoyant else " Not for schedulers that know run times."
        about += f" Not playable here: {absence}." if (absence := track.absence(log)) else ""
        table.add_row(track.name, track.scenario_name, "" if absence else _seeds(track, log), Text(about))
    show(table)


def _seeds(track: Track, log: Path | None) -> str:
    seeds = track.problem(log).seeds
    return f"{seeds[0]}:{seeds[-1] + 1}"


@leaderboard_app.add("show", tables=True)
def show_track(
    name: Annotated[str, typer.Argument(help="Track (gpusched leaderboard list).", metavar="NAME")],
) -> None:
    """Rank the entries of a track that the package has."""
    from gpusched_env.leaderboard import get_track
    from gpusched_env.leaderboard.standings import shipped_standings, track_tables

    track = get_track(name)
    for ranking in track_tables(shipped_standings(track), track, brief=True):
        marked, title = _marked(ranking), f"{track.name}: {ranking.caption.removeprefix('Recomputed: ')}"
        show(marked, title, "* reads true run times" if any(row.cells[1].notes for row in marked.rows) else "")


def _marked(ranking: Table) -> Table:
    """Return the table of a page for the terminal; a * takes the place of its last column, the claims."""
    from gpusched_env.leaderboard.standings import CLAIRVOYANT

    def named(row: Row) -> Row:
        rank, name, *numbers, claim = row.cells
        name = dataclasses.replace(name, notes=["*"] if claim.text == CLAIRVOYANT else [])
        return dataclasses.replace(row, cells=[rank, name, *numbers])

    rows = [named(row) for row in ranking.rows]
    return dataclasses.replace(ranking, columns=ranking.columns[:-1], rows=rows)


@dataclass(frozen=True, kw_only=True)
class AboutEntry:
    """What an entry says of itself."""

    title: Annotated[str, typer.Option(show_default="the scheduler's name")] = ""
    """Title of the entry in tables."""
    authors: str = ""
    """Who made the entry."""
    how: str = ""
    """What the scheduler does, how it was trained and chosen."""
    hardware: str = ""
    """Hardware of training and runs, and for how long."""
    training_seeds: Annotated[list[str] | None, typer.Option(metavar="FIRST:END")] = None
    """Seeds used to train or to choose the scheduler, FIRST:END, END excluded. May be given repeatedly."""
    link: str = ""
    """http or https address of the code or the paper."""
    licence: str = "CC-BY-4.0"
    """Licence of the entry, an SPDX identifier."""


@leaderboard_app.add("submit", tables=True)
def submit(
    scheduler: Annotated[
        str,
        typer.Option(
            help="Name (gpusched schedulers list), with parameters if wanted, or a class of your own, "
            "package.module:Class.",
            metavar="SPEC",
        ),
    ],
    track: Annotated[str, typer.Option(help="Name (gpusched leaderboard list).", metavar="NAME")],
    output: Annotated[Path, written(".entry.xz", help="File of the entry, NAME.entry.xz.")],
    told: AboutEntry,
    log: LogOption = None,
    workers: WorkersOption = WORKERS,
) -> None:
    """Play a scheduler on a track's report seeds and record every decision, so that others can verify it.

    Example: gpusched leaderboard submit --scheduler srtf --track general-v1 --output srtf.entry.xz
    """
    from gpusched_env.baselines.registry import split_name
    from gpusched_env.leaderboard import About, get_track, make_entry, write_entry

    seeds = [_range(text) for text in told.training_seeds or ()]
    title = told.title or split_name(scheduler)[0] or scheduler
    about = About(**vars(told) | {"title": title, "training_seeds": seeds})
    chosen = get_track(track)
    entry = make_entry(track, scheduler, about, log, workers)
    write_entry(entry, output)
    base = make_entry(track, chosen.base, about, log, workers).runs
    show(_metrics_table(entry.runs, base, chosen), f"{about.title} on {track}, mean and 95 % interval over seeds")
    print(f"{output}: {output.stat().st_size:,} bytes; verify it with: gpusched leaderboard verify {output}")


def _range(text: str) -> tuple[int, int]:

    match = re.fullmatch(r"(\d{1,12}):(\d{1,12})", text.strip())
    if match is None:
        raise GpuschedError(f"--training-seeds {text!r}: write FIRST:END, such as 0:100000")
    return int(match[1]), int(match[2])


@leaderboard_app.add("verify")
def verify_files(
    entries: Annotated[list[Path], typer.Argument(help="Entries, NAME.entry.xz.", metavar="FILE...")],
    log: LogOption = None,
    seconds: Annotated[
        float, typer.Option(help="CPU time that the replay of an entry may take, in seconds.", min=0.0)
    ] = 60.0,
) -> None:
    """Replay the decisions of entries, or play their schedulers, and check every number that they claim.

    Exit status: 0 = all are verified; 1 = at least one is refused; 3 = none is refused, but at least one cannot be
    verified because the log of its track is missing. An entry holds decisions and numbers but no code, so verification
    runs no code of its authors. An entry without decisions must name a scheduler of the package, which is played.
    """
    from gpusched_env.leaderboard.verifying import WHAT_TO_CHECK

    status = 0
    differs = False
    for path in entries:
        try:
            told = _verified(path, log, seconds)
        except MissingLogError as error:
            status = status or NOT_VERIFIED
            told = f"not verified: {path}: {error}"
        except GpuschedError as error:
            status = REFUSED
            differs |= isinstance(error, MismatchError)
            told = f"refused: {path}: {visible(str(error)).removeprefix(visible(f'{path}: '))}"
        print(visible(told))
    if differs:
        print(WHAT_TO_CHECK)
    if status:
        raise typer.Exit(status)


def _verified(path: Path, log: Path | None, seconds: float) -> str:
    """Verify an entry and return a line of results, with the unverified title at its end."""
    from gpusched_env.leaderboard import get_track, read_entry, verify
    from gpusched_env.leaderboard.baseline_entries import shipped_baselines
    from gpusched_env.leaderboard.child_process import apart
    from gpusched_env.leaderboard.verifying import played_again
    from gpusched_env.metrics import COLUMN_OF

    begin = time.perf_counter()
    entry = read_entry(path)
    track = get_track(entry.track)
    runs = apart(verify, (entry, log, seconds, False, track), seconds)
    checked = played_again(entry, track.problem(log), seconds)
    who = f"scheduler {entry.player.spec or 'unnamed'} {'checked' if checked else 'claimed, not checked'}"
    mean = sum(run.metrics[track.metric] for run in runs) / len(runs)
    shown = f"{mean:,.0f} s" if COLUMN_OF[track.metric].unit == "s" else f"{mean:.3f}"
    names = ", ".join(shipped_baselines(track.name).same_schedule(entry))
    same = f", same schedule as {names}" if names else ""
    return (
        f"verified: {path}: {track.name}, {len(runs)} seeds, {track.scored} {shown}{same} "
        f"({time.perf_counter() - begin:.1f} s), {who}; it calls itself '{entry.about.title}'"
    )


def _metrics_table(runs: Sequence[Scored], base: Sequence[Scored], track: Track) -> RichTable:
    """Return the score and every metric of the leaderboard, with intervals."""
    from gpusched_env.leaderboard.scoring import score_on
    from gpusched_env.leaderboard.tracks import scored_first
    from gpusched_env.metrics import bootstrap_mean

    table = plain_table("metric", "mean", "low", "high")
    rows = {track.score_name: score_on(track, runs, base)}
    rows |= {
        name: bootstrap_mean([run.metrics[name] or 0.0 for run in runs]) for name in scored_first(track.metric, runs)
    }
    for name, interval in rows.items():
        table.add_row(name, *(f"{number:,.4g}" for number in (interval.mean, interval.low, interval.high)))
    return table
