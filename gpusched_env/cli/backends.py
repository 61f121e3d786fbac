"""The option ``--backend``."""

from __future__ import annotations

from typing import Annotated

import typer

BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        help="Where the runs are played: processes of this machine, ray (a Ray cluster that is started here), or "
        "ray:ADDRESS of a running cluster. Results do not depend on it.",
        metavar="processes|ray[:ADDRESS]",
    ),
]
