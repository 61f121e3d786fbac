"""The commands: the site, and the entries of the package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gpusched_env.cli.choosing import WORKERS, Processes, WorkersOption
from gpusched_env.cli.parsing import chosen_schedulers
from gpusched_env.cli.ranking import LogOption
from gpusched_env.evaluation.processes import backend
from gpusched_env.leaderboard import TRACKS
from gpusched_env.leaderboard.baseline_entries import shipped_entries
from gpusched_env.leaderboard.verifying import WHAT_TO_CHECK
from gpusched_env.support.consoles import plain_table, show
from tools.leaderboard.baselines import write_baselines
from tools.leaderboard.site import build_site, entry_files


def write_baselines_of(
    output: Annotated[Path, typer.Option(help="Folder of the files, FOLDER/TRACK.jsonl.", metavar="FOLDER")],
    tracks: Annotated[str, typer.Option(help="Names, separated by commas.", show_default="all")] = "",
    schedulers: Annotated[
        str, typer.Option(help="Names, separated by commas.", show_default="all that fit the track")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Also play schedulers that have an entry already.")] = False,
    log: LogOption = None,
    workers: WorkersOption = WORKERS,
) -> None:
    """Play the registered schedulers and write their entries."""
    chosen = tracks.split(",") if tracks else [track.name for track in TRACKS]
    specs = chosen_schedulers([schedulers]) if schedulers else ()
    if write_baselines(output, chosen, specs, log, workers, again):
        raise typer.Exit(1)


def build(
    entries: Annotated[Path, typer.Argument(help="Folder of entries, *.entry.xz.", metavar="FOLDER")],
    output: Annotated[
        Path, typer.Option(help="Folder of the site; an earlier site of this command is replaced.", metavar="FOLDER")
    ],
    processes: Processes,
    baselines: Annotated[bool, typer.Option(help="Also show the baselines of the package.")] = True,
    log: LogOption = None,
    tracks: Annotated[
        str, typer.Option(help="Tracks of the site, names separated by commas.", show_default="all", metavar="NAMES")
    ] = "",
) -> None:
    """Replay entries and write pages with tables, curves and every schedule. Entries with false claims are refused.

    Example: python -m tools site entries/ --output site/
    """
    begin = time.perf_counter()
    beside = shipped_entries() if baselines else []
    try:
        with backend(processes.backend):
            built = build_site(
                entry_files(entries), output, beside, log, processes.workers, tracks.split(",") if tracks else ()
            )
    except KeyboardInterrupt as stop:
        kept = "the site that was there stays" if (output / "index.html").is_file() else "nothing was written"
        raise KeyboardInterrupt(f"{output}: {kept}") from stop
    table = plain_table("track", "entries", "of these baselines")
    for track, shown in built.entries.items():
        table.add_row(track, str(len(shown)), str(sum(one.baseline for one in shown)))
    show(table)
    for reason, names in built.reasons().items():
        print(f"not shown: {', '.join(names)}: {reason}")
    if built.differs:
        print(WHAT_TO_CHECK)
    print(f"{output / 'index.html'}: open it in a browser; took {time.perf_counter() - begin:.0f} s")
