"""JSON files of measured models: some are in this package, others are written by ``gpusched traces fit-profiles``."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.json_files import (
    WORDS,
    not_as_written,
    shipped_text,
    write_table,
    written_text,
)
from gpusched_env.traces.profile_tables.measured_model import MeasuredModel
from gpusched_env.traces.profile_tables.measured_table import MeasuredTable

MEASURED_TABLES: Final = ("elasticflow", "gavel")  # shipped beside this file as NAME.json
COLUMNS: Final = ("batch", "gradient_bytes", "memory_bytes", "skew", "overlap")  # left out of the file if the default


@functools.cache
def load_measured(name: str) -> MeasuredTable:
    """Load a table of this package."""
    return _table(shipped_text(name, MEASURED_TABLES), name)


def read_measured(path: str | Path) -> MeasuredTable:
    """Read a table that :func:`write_measured` wrote."""
    return _table(written_text(path), str(path))


def write_measured(table: MeasuredTable, path: Path) -> None:
    """Write a table atomically, with one line for each model; equal tables give equal bytes."""
    models = {name: json.dumps(_model_data(model)) for name, model in table.models.items()}
    packed = {gpu_type: _matrix(table, gpu_type) for gpu_type in table.packed}
    write_table(path, table, {"models": models, "packed": packed}, ("gpu_types",))


def _model_data(model: MeasuredModel) -> dict[str, Any]:
    told = {column: getattr(model, column) for column in COLUMNS}
    plain = {column: value for column, value in told.items() if value != getattr(MeasuredModel, column)}
    return plain | {"rates": model.rates}


def _matrix(table: MeasuredTable, gpu_type: str) -> str:
    """Format the packed rates: a row for each model, a column for each other model; null = not measured."""
    rates = table.packed[gpu_type]
    rows = [json.dumps([rates.get((own, other)) for other in table.models]) for own in table.models]
    return "[\n" + ",\n".join(rows) + "\n]"


def _table(text: str, where: str) -> MeasuredTable:
    place = where
    try:
        data = json.loads(text)
        models = {}
        for name, row in data["models"].items():
            place = f"{where}, model {name!r}"
            models[name] = _model(name, row)
        packed = {}
        for gpu_type, matrix in data["packed"].items():
            place = f"{where}, packed on {gpu_type!r}"
            packed[gpu_type] = {
                (own, other): float(rate)
                for own, row in zip(models, matrix, strict=True)
                for other, rate in zip(models, row, strict=True)
                if rate is not None
            }
        place = where
        words = {key: str(data[key]) for key in WORDS}
        return MeasuredTable(gpu_types=tuple(map(str, data["gpu_types"])), models=models, packed=packed, **words)
    except WorkloadError as error:
        raise WorkloadError(f"{where}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_as_written(place, error) from error


def _model(name: str, row: Mapping[str, Any]) -> MeasuredModel:
    rates = {
        gpu_type: {int(gpus): tuple(map(float, values)) for gpus, values in gangs.items()}
        for gpu_type, gangs in row["rates"].items()
    }
    return MeasuredModel(name, rates, **{column: row[column] for column in COLUMNS if column in row})
