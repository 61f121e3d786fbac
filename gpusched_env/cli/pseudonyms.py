"""``gpusched traces pseudonymise``: a log without the names of users, accounts, jobs and nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpusched_env.cli.choosing import MapOption, columns_of
from gpusched_env.cli.outputs import written
from gpusched_env.support.plugins import from_clone

if TYPE_CHECKING:
    from gpusched_env.pseudonyms.names import Pseudonyms


def pseudonyms_of(key: Path, hide: str = "") -> Pseudonyms:
    """Read the key, and print a warning for each reason why others could find it; ``hide`` is that of the command."""
    from gpusched_env.pseudonyms.names import Pseudonyms

    names = Pseudonyms.from_file(key, hide.replace(" ", "").split(",") if hide else ())
    for doubt in names.doubts:
        print(f"warning: {doubt}", file=sys.stderr)
    return names


def pseudonymise(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT:PATH",
            help="Log, or file of Slurm; of a PATH alone, the format is recognised; of a CSV, it is not.",
        ),
    ],
    key: Annotated[Path, typer.Option(help="File with a secret of your own, of 16 bytes or more.", metavar="FILE")],
    output: Annotated[Path, written(help="File to write.")],
    mapping: MapOption = None,
    hide: Annotated[
        str,
        typer.Option(help="Give these names pseudonyms, too: partition, qos, type, flavor, model.", metavar="ROLES"),
    ] = "",
) -> None:
    """Write a log with pseudonyms for users, accounts, jobs and nodes, so that it can leave your machine.

    Formats: csv, kubernetes, kueue, sacctmgr (associations, events, qos), slurm (sacct, slurm.conf, gres.conf,
    topology.conf, sinfo, scontrol show), squeue, sshare, volcano. Under one key a name has one pseudonym in all files.
    Columns and fields that no reader needs are left out. Keep the key, and keep it secret. The command needs a clone of
    the repository that is installed by pip install -e.

    Example: gpusched traces pseudonymise slurm:sacct.txt --key secret.txt --output public.txt
    """
    command = from_clone("tools.pseudonyms.command", "gpusched traces pseudonymise")
    command.write(source, key, output, pseudonyms_of(key, hide), columns_of(mapping) or None)
