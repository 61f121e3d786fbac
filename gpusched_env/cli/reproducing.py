"""``gpusched reproduce``: repeat a paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpusched_env.cli.choosing import Processes
from gpusched_env.support.plugins import from_clone


def reproduce(
    card: Annotated[
        str,
        typer.Argument(
            metavar="CARD",
            help="dally, elasticflow, gavel, hadar, pollux, sjf-bco, sjf-bsbf or themis; testbeds, or a "
            "TOML file of others: measured values beside predicted ones.",
        ),
    ],
    processes: Processes,
    quick: Annotated[bool, typer.Option("--quick", help="Run only a part, in about a minute.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results.json, results.csv, the figures and the finished runs.",
            metavar="DIR",
            show_default="reproduction/CARD",
        ),
    ] = None,
) -> None:
    """Repeat a paper's experiments; print a summary, the paper's numbers beside ours, and which trends hold.

    It needs a clone of the repository that is installed by pip install -e. Finished runs are kept in the output
    folder: run the same command again to continue after an interruption.

    Example: gpusched reproduce sjf-bco --quick
    """
    folder = (output or Path("reproduction") / Path(card).stem).expanduser()
    from_clone("studies.reproduce.command", "gpusched reproduce").play(card, folder, quick, processes)
