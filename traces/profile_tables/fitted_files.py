"""JSON files of fitted models: some are in this package, others are written by ``gpusched traces fit-profiles``."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpusched_env.traces.profile_tables.application import Application, Fit
from gpusched_env.traces.profile_tables.fitted_table import FittedTable
from gpusched_env.traces.profile_tables.json_files import (
    WORDS,
    block,
    not_as_written,
    shipped_text,
    write_table,
    written_text,
)
from gpusched_env.traces.profile_tables.throughput import Throughput

FITTED_TABLES: Final = ("pollux", "sia", "sia-robust", "bsbf")  # shipped beside this file as NAME.json
ACCUMULATING: Final = ("bsbf",)  # tables whose jobs may share GPUs by splitting a batch into more, smaller passes
PARAMETERS: Final = tuple(field.name for field in dataclasses.fields(Throughput))


@functools.cache
def load_fitted(name: str) -> FittedTable:
    """Load a table of this package.

    ``pollux`` and ``bsbf`` have T4 only; ``sia`` and ``sia-robust`` have three other GPU types, and T4 from ``pollux``.
    """
    table = _table(shipped_text(name, FITTED_TABLES), name)
    table = dataclasses.replace(table, accumulates=name in ACCUMULATING)
    if table.applications:
        return table
    pollux = load_fitted("pollux")
    others = {gpu_type: fits for gpu_type, fits in pollux.fits.items() if gpu_type not in table.fits}
    return dataclasses.replace(table, applications=pollux.applications, fits={**table.fits, **others})


def write_fitted(table: FittedTable, path: Path) -> None:
    """Write a table atomically, with one line for each application or fit; equal tables give equal bytes."""
    fits = {gpu_type: block(written_rows(row)) for gpu_type, row in table.fits.items()}
    write_table(path, table, {"applications": written_rows(table.applications), "fits": fits})


def read_fitted(path: str | Path) -> FittedTable:
    """Read a table that :func:`write_fitted` wrote."""
    return _table(written_text(path), str(path))


def _table(text: str, where: str) -> FittedTable:
    try:
        data = json.loads(text)
        applications = {name: read_application(name, row) for name, row in data["applications"].items()}
        fits = {t: {name: _fit(row) for name, row in rows.items()} for t, rows in data["fits"].items()}
        called, source, licence, made = (str(data[key]) for key in WORDS)
        return FittedTable(called, source, licence, made, applications, fits)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_as_written(where, error) from error


def written_rows(rows: Mapping[str, Application] | Mapping[str, Fit]) -> dict[str, str]:
    """Format the fields of applications or fits, with those of their throughput."""
    texts = {}
    for name, row in rows.items():
        flat = {key: value for key, value in dataclasses.asdict(row).items() if key != "name" and value != {}}
        texts[name] = json.dumps(flat.pop("throughput", {}) | flat)
    return texts


def read_application(name: str, row: Mapping[str, Any]) -> Application:
    """Read an application from the fields that :func:`written_rows` gives."""
    iterations = {int(batch): float(count) for batch, count in row["iterations"].items()}
    milestones = {int(b): tuple(map(float, counts)) for b, counts in row.get("milestones", {}).items()}
    return Application(name, iterations, float(row["gradient_bytes"]), float(row["skew"]), milestones)


def _fit(row: Mapping[str, Any]) -> Fit:
    errors = {
        str(group): (int(rows), float(median), float(p90)) for group, (rows, median, p90) in row["errors"].items()
    }
    throughput = Throughput(*(float(row[key]) for key in PARAMETERS))
    return Fit(throughput, int(row["largest_batch"]), int(row["largest_local"]), errors)
