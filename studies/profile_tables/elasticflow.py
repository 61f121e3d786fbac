"""ElasticFlow (Gu et al., ASPLOS 2023): iterations per second at fixed global batch sizes, on 1 to 64 GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.streams import csv_header, csv_rows
from gpusched_env.traces.profile_tables.measured import MeasuredModel, MeasuredTable

FOLDERS: Final = {"A100": "throughputs_A100", "T4": "throughputs_T4"}
BATCH: Final = "global_batch_size"
NOT_MEASURED: Final = frozenset({"", "nan", "0"})


def elasticflow_table(source: Path) -> MeasuredTable:
    """Read the folder that contains ``throughputs_A100`` and ``throughputs_T4``.

    Each of these two subfolders has a file for each model, and a file has a row for each global batch size. The columns
    after the batch size are gang sizes, and their cells are rates [iterations / s]. The rate of a gang does not depend
    on its placement. An iteration of the gang processes the global batch, so the batch per GPU shrinks as the gang
    grows.
    """
    rates: dict[str, dict[str, dict[int, tuple[float, ...]]]] = {}
    for gpu_type, folder in FOLDERS.items():
        files = sorted([*(source / folder).glob("*.csv"), *(source / folder).glob("*.csv.gz")])
        if not files:
            raise TraceError(
                f"{source / folder}: no CSV file there; give the folder that holds {' and '.join(FOLDERS.values())}"
            )
        for file in files:
            model = file.name.removesuffix(".gz").removesuffix(".csv")
            for batch, gangs in _rows(file).items():
                rates.setdefault(f"{model} (batch size {batch})", {})[gpu_type] = gangs
    return MeasuredTable(
        "elasticflow",
        "gudiandian/ElasticFlow, ElasticFlow/scheduler/throughputs_*; Gu et al., ASPLOS 2023",
        "Apache-2.0",
        "python -m studies.profile_tables elasticflow scheduler",
        tuple(FOLDERS),
        {name: MeasuredModel(name, rates[name]) for name in sorted(rates)},
    )


def _rows(file: Path) -> dict[int, dict[int, tuple[float, ...]]]:
    """Return global batch size -> gang size -> rate; gangs without a rate are left out."""
    sizes = [name for name in csv_header(file) if name != BATCH]
    found: dict[int, dict[int, tuple[float, ...]]] = {}
    for place, (batch, *values) in csv_rows(file, [BATCH, *sizes]):
        samples = place.whole(BATCH, batch, "samples")
        if samples in found:
            place.refuse(BATCH, batch, "this batch size occurs twice; remove one of the two rows")
        found[samples] = {
            place.gpus("gang size in the header", size): (place.amount(size, value, "iterations a second"),)
            for size, value in zip(sizes, values, strict=True)
            if value not in NOT_MEASURED
        }
    return found
