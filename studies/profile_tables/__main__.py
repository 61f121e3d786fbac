"""Make a table of model profiles from throughput files that authors published, as the tables of the package were made.

python -m studies.profile_tables TABLE SOURCE --output FILE.json
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gpusched_env.cli.outputs import written
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import plain_table, show
from gpusched_env.traces.profile_tables import EfficiencyTable, FittedTable, MeasuredTable, StepTable
from studies.profile_tables.files import write_table
from studies.profile_tables.fitting import fit_table
from studies.profile_tables.measurements import KINDS

Rows = list[tuple[str, ...]]  # the first row is the header


@dataclass
class Settings:
    """Make a table of model profiles from published measurements."""

    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="gavel, elasticflow, pollux, pollux-steps, sia, sia-robust or dally.")
    ]
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Gavel's simulation_throughputs.json, packed with gzip or not; the folder that holds ElasticFlow's "
            "throughputs_A100 and throughputs_T4; the folder of Pollux's or Sia's simulator with a folder for each "
            "application (traces); the folder with Dally's layer files (workload) and astra_efficiency.csv.",
        ),
    ]
    output: Annotated[Path, written(".json", help="File of the table, .json.")]


def main(settings: Settings) -> None:
    """Make the table, write it, and print its errors or what it holds."""
    made, output = fit_table(settings.table, settings.source.expanduser()), settings.output
    write_table(made, output)
    if isinstance(made, FittedTable):
        columns, *rows = _errors(made)
        title = f"{made.name}: relative error of iteration times [%], median/90th percentile"
    elif isinstance(made, EfficiencyTable):
        columns, *rows = _efficiencies(made)
        title = f"{made.name}: lowest efficiency of any gang on its best shape, and of any shape [%]"
    elif isinstance(made, StepTable):
        columns, *rows = _gangs(made)
        title = f"{made.name}: gangs with measured or interpolated steps, of {made.source} ({made.licence})"
    else:
        columns, *rows = _rates(made)
        title = f"{made.name}: {len(made.models)} models of {made.source} ({made.licence})"
    summary = plain_table(*columns, texts=1 + isinstance(made, FittedTable | EfficiencyTable))
    for row in rows:
        summary.add_row(*row)
    show(summary, title)
    print(f"{output}: {output.stat().st_size:,} bytes")


def _errors(table: FittedTable) -> Rows:
    """Return the errors of the fits, one row per GPU type and application."""
    groups = ("all", *KINDS, "held out")
    rows: Rows = [("GPU type", "application", "rows", *groups)]
    for gpu_type, fits in table.fits.items():
        for name, fit in fits.items():
            found = (fit.errors.get(group) for group in groups)
            cells = (f"{100 * e[1]:.1f}/{100 * e[2]:.1f}" if e else "-" for e in found)
            rows.append((gpu_type, name, f"{fit.errors['all'][0]:,}", *cells))
    return rows


def _gangs(table: StepTable) -> Rows:
    """Count the gangs and the times of each application."""
    return [
        ("application", "gangs in one machine", "gangs of several", "times"),
        *(
            (
                name,
                *(f"{sum(min(m, 2) == k for m, _ in gangs)}" for k in (1, 2)),
                f"{sum(r.shape[1] for r in gangs.values()):,}",
            )
            for name, gangs in table.steps.items()
        ),
    ]


def _efficiencies(table: EfficiencyTable) -> Rows:
    """Return the lowest efficiency over gang sizes, on best and on worst shapes; one row per model and network."""
    rows: Rows = [("model", "network", "shapes", "best", "worst")]
    for name, model in table.models.items():
        for network, shapes in model.efficiency.items():
            best: dict[int, float] = {}
            for shape, efficiency in shapes.items():
                gang = math.prod(shape)
                best[gang] = max(best.get(gang, 0.0), efficiency)
            least = (min(best.values()), min(shapes.values()))
            rows.append((name, network, f"{len(shapes)}", *(f"{100 * value:.3g}" for value in least)))
    return rows


def _rates(table: MeasuredTable) -> Rows:
    """Count the measurements of each GPU type."""
    columns = ("GPU type", "models", "gang sizes", "rates", "of these also spread", "pairs on one GPU", "without room")
    return [columns, *((gpu_type, *_counts(table, gpu_type)) for gpu_type in table.gpu_types)]


def _counts(table: MeasuredTable, gpu_type: str) -> list[str]:
    """Count the measurements of a GPU type, one text per column."""
    times = {(n, g): t for n, m in table.models.items() for g in m.gangs if (t := m.times(gpu_type, g))}
    pairs = table.packed.get(gpu_type, {}).values()
    sizes = ", ".join(map(str, sorted({gpus for _, gpus in times})))
    spread = sum(len(tiers) > 1 for tiers in times.values())
    counts = (len(times), spread, len(pairs), sum(rate == 0 for rate in pairs))
    return [str(len({name for name, _ in times})), sizes, *(f"{count:,}" for count in counts)]


if __name__ == "__main__":
    run_script(main)
