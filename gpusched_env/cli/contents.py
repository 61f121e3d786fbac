"""``gpusched traces cluster`` and ``gpusched traces table``: describe files that list no jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from gpusched_env.support.consoles import plain_table, show


def describe_cluster(source: Annotated[str, typer.Argument(metavar="FORMAT:PATH")]) -> None:
    """Read a cluster description and print what was kept, what was dropped and why, and the machines.

    Formats: bsbf, helios, kubernetes, muri, openb, pai, philly, slurm, spot, tiresias. --cluster of run and compare
    accepts them too.
    """
    from rich.text import Text

    from gpusched_env.evaluation.progress import reading_shown
    from gpusched_env.traces import read_cluster

    with reading_shown():
        cluster, report = read_cluster(source)
    print(report.describe())
    table = plain_table("GPU type", "GPUs per node", "nodes", "GPUs", "nodes per rack")
    for group in cluster.groups:
        counts = (group.gpus, group.count, group.count * group.gpus, group.nodes_per_rack or group.count)
        table.add_row(Text(group.gpu_type), *(f"{count:,}" for count in counts))
    note = f"{cluster.gpus:,} GPUs in {len(cluster.nodes):,} nodes in {len(cluster.racks):,} racks"
    show(table, note=note)


def describe_table(source: Annotated[str, typer.Argument(metavar="LAYOUT:PATH|auto:PATH")]) -> None:
    """Read a published table that lists no jobs and print what was read and what its columns hold.

    docs/traces.md lists the layouts. auto detects a layout by the header of the file; it detects no layout in JSON or
    in CSV without a header line.
    """
    import numpy as np
    from rich.text import Text

    from gpusched_env.evaluation.progress import reading_shown
    from gpusched_env.traces import LAYOUTS, read_table

    with reading_shown():
        read, report = read_table(source)
    print(report.describe())
    table = plain_table("column", "unit", "smallest", "median", "largest", texts=2)
    for name, values in read.columns.items():
        if values.dtype.kind == "U":
            cells = ["", f"{len(np.unique(values)):,} different", ""]
        else:
            told = np.sort(values[~np.isnan(values)] if values.dtype.kind == "f" else values)
            cells = [_shown(told[i]) for i in (0, (len(told) - 1) // 2, -1)] if len(told) else [""] * 3
        table.add_row(Text(name or '""'), read.units[name], *cells)
    show(table, f"{read.layout}: {LAYOUTS[read.layout].about}")


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("T", " ")
