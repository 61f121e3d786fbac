"""``gpusched traces list``, ``show`` and ``fetch``: public data by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpusched_env.support.consoles import console, show

if TYPE_CHECKING:
    from gpusched_env.traces.downloads.public_files import PublicFile
    from gpusched_env.traces.downloads.resuming import Watch


def list_files(
    pattern: Annotated[
        str, typer.Argument(help="Name, or a pattern such as 'pollux/*'.", show_default="all lists of jobs")
    ] = "",
) -> None:
    """List the public data that can be fetched, their licences, and what has been fetched.

    Example: gpusched traces list 'sia/*'
    """
    from rich.filesize import decimal

    from gpusched_env.traces.downloads.public_files import data_folder, matching, public_files

    files = matching(pattern) if pattern else [file for file in public_files().values() if file.format]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("name", overflow="fold")
    table.add_column("format", no_wrap=True)
    for heading in ("rows", "size"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("here", justify="right", no_wrap=True)
    for file in files:
        rows = "" if file.rows is None else f"{file.rows:,}"
        size = decimal(file.bytes, precision=0).replace("bytes", "B")
        table.add_row(file.name, file.format, rows, size, _short_licence(file), _here(file))
    show(table)
    notes = []
    if any(file.restricted for file in files):
        notes.append("* no licence stated, or a restricted one: you fetch it from its owners, under their terms")
    if not pattern:
        others = len(public_files()) - len(files)
        notes.append(f"{others} more files (measured tables, machines): gpusched traces list '*'")
    if short := sorted(file.alias for file in files if file.alias):
        notes.append(f"short names, each of a source's main file: {', '.join(short)}")
    notes.append(f"data folder: {data_folder()}")
    console().print(*notes, sep="\n", markup=False)


def show_file(name: Annotated[str, typer.Argument(help="Name (gpusched traces list).", metavar="NAME")]) -> None:
    """Tell all about a public file: its owners, licence, paper, size, checksum and place."""
    from gpusched_env.traces.downloads.public_files import matching

    for file in matching(name):
        for field, value in dataclasses.asdict(file).items():
            if value not in ("", None):
                print(f"{field.replace('_', ' ') + ':':<17}{value}")
        print(f"{'here:':<17}{_here(file) or 'no'}, {file.file}")


def fetch_files(
    names: Annotated[
        list[str],
        typer.Argument(help="Names (gpusched traces list), or patterns such as 'pollux/*'.", metavar="NAME..."),
    ],
    mirror: Annotated[
        list[str] | None,
        typer.Option(
            help="Address to fetch from, with {repository}, {commit} and {path}, or with {file}, {name} or {sha256}. "
            "Several are tried in order.",
            metavar="TEMPLATE",
            show_default="GPUSCHED_MIRRORS, or else the owners' addresses",
        ),
    ] = None,
) -> None:
    """Download public data and check its SHA-256; undamaged files in the data folder are not downloaded again.

    Files go to the folder that the environment variable GPUSCHED_DATA names, or else to the cache folder that gpusched
    traces list shows. Run the command again to resume an interrupted download.

    Example: gpusched traces fetch openb
    """
    from gpusched_env.traces.downloads.fetching import fetch
    from gpusched_env.traces.downloads.public_files import matching

    for file in {file: None for name in names for file in matching(name)}:
        with _progress(file) as watch:
            path = fetch(file.name, mirror or (), watch)
        terms = f"{file.licence}; {file.paper or file.repository}"
        use = f"gpusched traces read {file.format}:@{file.alias or file.name}" if file.format else "not a list of jobs"
        print(f"{path}\n  {terms}\n  {use}")


@contextmanager
def _progress(file: PublicFile) -> Iterator[Watch]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(f"checking {file.file.name}", total=file.bytes)

        def watch(step: str, done: int, size: int) -> None:
            progress.update(task, description=f"{step} {file.file.name}", completed=done, total=size)

        yield watch


def _short_licence(file: PublicFile) -> str:
    """Return the licence in one word; ``fetch`` prints its full text."""
    word = file.licence.split()[0]
    return ("none" if word == "no" else word) + "*" * file.restricted


def _here(file: PublicFile) -> str:
    """Return how much of the file is in the data folder, by its size; only ``fetch`` checks its SHA-256."""
    if file.file.is_file() and (file.packed or file.file.stat().st_size == file.bytes):
        return "yes"
    return f"{file.partial.stat().st_size / file.bytes:.0%}" if file.partial.is_file() else ""
