"""JSON files of efficiency tables: one is in this package, others are written by ``gpusched traces fit-profiles``."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.profile_tables.efficiency_table import EfficiencyTable, Shape, ShapedModel
from gpusched_env.traces.profile_tables.json_files import (
    WORDS,
    not_as_written,
    shipped_text,
    write_table,
    written_text,
)

EFFICIENCY_TABLES: Final = ("dally",)  # shipped beside this file as NAME.json
COLUMNS: Final = ("compute_s", "gradient_bytes", "skew")


@functools.cache
def load_efficiency(name: str) -> EfficiencyTable:
    """Load a table of this package."""
    return _table(shipped_text(name, EFFICIENCY_TABLES), name)


def read_efficiency(path: str | Path) -> EfficiencyTable:
    """Read a table that :func:`write_efficiency` wrote."""
    return _table(written_text(path), str(path))


def write_efficiency(table: EfficiencyTable, path: Path) -> None:
    """Write a table atomically, one line per shape with one number per model; equal tables give equal bytes."""
    models = {
        name: json.dumps({column: getattr(model, column) for column in COLUMNS}) for name, model in table.models.items()
    }
    networks = {network: _shape_lines(table, network) for network in table.networks}
    write_table(path, table, {"models": models, "efficiency": networks})


def _shape_lines(table: EfficiencyTable, network: str) -> str:
    """Format one line for each shape that at least one model has; null = the model lacks the shape."""
    of_model = [model.efficiency[network] for model in table.models.values()]
    shapes: list[Shape] = sorted(set().union(*of_model))
    rows = [f"[{json.dumps(shape)}, {json.dumps([known.get(shape) for known in of_model])}]" for shape in shapes]
    return "[\n" + ",\n".join(rows) + "\n]"


def _table(text: str, where: str) -> EfficiencyTable:
    place = where
    try:
        data = json.loads(text)
        names = list(data["models"])
        efficiency: dict[str, dict[str, dict[Shape, float]]] = {name: {} for name in names}
        for network, rows in data["efficiency"].items():
            place = f"{where}, network {network!r}"
            for name in names:
                efficiency[name][network] = {}
            for shape, values in rows:
                gpu, slot, machine, rack = map(int, shape)
                for name, value in zip(names, values, strict=True):
                    if value is not None:
                        efficiency[name][network][gpu, slot, machine, rack] = float(value)
        models = {}
        for name, row in data["models"].items():
            place = f"{where}, model {name!r}"
            models[name] = ShapedModel(*_columns(row), efficiency[name])
        place = where
        return EfficiencyTable(models=models, **{key: str(data[key]) for key in WORDS})
    except WorkloadError as error:
        raise WorkloadError(f"{place}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise not_as_written(place, error) from error


def _columns(row: dict[str, Any]) -> tuple[float, float, float]:
    compute_s, gradient_bytes, skew = (float(row[column]) for column in COLUMNS)
    return compute_s, gradient_bytes, skew
