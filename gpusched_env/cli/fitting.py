"""``gpusched traces fit-profiles``: from the throughput files that authors published to a table of model profiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gpusched_env.traces.profile_tables import ProfileTable


def fit_profiles(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="gavel or elasticflow.")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Gavel's simulation_throughputs.json, packed with gzip or not, or the folder that holds "
            "ElasticFlow's throughputs_A100 and throughputs_T4.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="The table, as .json.")],
) -> None:
    """Make a table of model profiles from published throughput files."""
    from rich.table import Table

    from gpusched_env.cli.console import show
    from gpusched_env.cli.outputs import check_output
    from gpusched_env.traces.profile_tables import write_table
    from gpusched_env.traces.profile_tables.fitting import fit_table

    check_output("--output", output, (".json",))
    made = fit_table(table, source.expanduser())
    write_table(made, output)
    columns = ("GPU type", "models", "gang sizes", "rates", "of them also spread", "pairs on one GPU", "without room")
    summary = Table(*columns, show_edge=False, pad_edge=False)
    for column in summary.columns[1:]:
        column.justify = "right"
    for gpu_type in made.gpu_types:
        summary.add_row(gpu_type, *_counts(made, gpu_type))
    show(summary, f"{made.name}: {len(made.models)} models of {made.source} ({made.licence})")
    print(f"{output}: {output.stat().st_size:,} bytes")


def _counts(table: ProfileTable, gpu_type: str) -> list[str]:
    """Count what is known of a GPU type, one text a column."""
    times = {(n, g): t for n, m in table.models.items() for g in m.gangs if (t := m.times(gpu_type, g))}
    pairs = table.packed.get(gpu_type, {}).values()
    sizes = ", ".join(map(str, sorted({gpus for _, gpus in times})))
    spread = sum(len(tiers) > 1 for tiers in times.values())
    counts = (len(times), spread, len(pairs), sum(rate == 0 for rate in pairs))
    return [str(len({name for name, _ in times})), sizes, *(f"{count:,}" for count in counts)]
