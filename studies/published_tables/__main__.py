"""Read a published table that lists no jobs, and print what was read and what its columns hold.

``layouts.toml`` lists the layouts. ``auto`` recognises one by the header of the file, but none in JSON or in CSV
without a header line.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from gpusched_env.evaluation.progress import reading_shown
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import plain_table, show
from studies.published_tables import LAYOUTS, read_table


def main(source: Annotated[str, typer.Argument(metavar="LAYOUT:PATH|auto:PATH")]) -> None:
    """Read and describe a table."""
    with reading_shown():
        read, report = read_table(source)
    print(report.describe())
    table = plain_table("column", "unit", "smallest", "median", "largest", texts=2)
    for name, values in read.columns.items():
        if values.dtype.kind == "U":
            cells = ["", f"{len(np.unique(values)):,} different", ""]
        else:
            told = np.sort(values[~np.isnan(values)] if values.dtype.kind == "f" else values)
            cells = [_value(told[i]) for i in (0, (len(told) - 1) // 2, -1)] if len(told) else [""] * 3
        table.add_row(Text(name or '""'), read.units[name], *cells)
    show(table, f"{read.layout}: {LAYOUTS[read.layout].about}")


def _value(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("T", " ")


if __name__ == "__main__":
    run_script(main)
