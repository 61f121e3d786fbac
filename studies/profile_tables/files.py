"""Files of profile tables: writing them, and reading one that need not be whole."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from gpusched_env.errors import WorkloadError
from gpusched_env.support.files import write_whole
from gpusched_env.traces.profile_tables import EfficiencyTable, FittedTable, MeasuredTable, StepTable
from gpusched_env.traces.profile_tables.application import Application, Fit
from gpusched_env.traces.profile_tables.efficiency import COLUMNS as OF_SHAPED
from gpusched_env.traces.profile_tables.efficiency import Shape
from gpusched_env.traces.profile_tables.measured import COLUMNS, MeasuredModel
from gpusched_env.traces.profile_tables.profile_table import WORDS, ProfileTable
from gpusched_env.traces.profile_tables.steps import UNITS

Table = TypeVar("Table", bound=ProfileTable)
Parts = Mapping[str, Mapping[str, str]]  # part -> name of a row -> text of the row
MORE: Final = {MeasuredTable: ("gpu_types",), StepTable: ("gpu_type",)}  # fields beside those of all, and the parts


def write_table(table: ProfileTable, path: Path) -> None:
    """Write a table atomically, with a line for each row of its parts; equal tables give equal bytes."""
    lines = {key: json.dumps(getattr(table, key)) for key in (*WORDS, *MORE.get(type(table), ()))}
    write_whole(path, block(lines | {key: block(part) for key, part in parts_of(table).items()}) + "\n")


def read_table(kind: type[Table], path: Path) -> Table:
    """Read a table that :func:`write_table` wrote; WorkloadError: it cannot be read, or is damaged."""
    try:
        return kind.parse(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"{path}: cannot be read ({error})") from error
    except WorkloadError as error:
        raise WorkloadError(f"{path}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        told = f"not a table that write_table wrote ({type(error).__name__}: {error}); make it again"
        raise WorkloadError(f"{path}: {told}") from error


def parts_of(table: ProfileTable) -> Parts:
    """Return the parts of the file, with rows that are formatted already."""
    if isinstance(table, MeasuredTable):
        return _measured(table)
    if isinstance(table, EfficiencyTable):
        return _efficiencies(table)
    if isinstance(table, StepTable):
        return _steps(table)
    assert isinstance(table, FittedTable)
    fits = {gpu_type: block(_rows(row)) for gpu_type, row in table.fits.items()}
    return {"applications": _rows(table.applications), "fits": fits}


def _measured(table: MeasuredTable) -> Parts:
    """A line for each model; of the packed rates, a row for each model, a column for each other, null = unknown."""
    models = {}
    for name, model in table.models.items():
        told = {column: getattr(model, column) for column in COLUMNS}
        plain = {column: value for column, value in told.items() if value != getattr(MeasuredModel, column)}
        models[name] = json.dumps(plain | {"rates": model.rates})
    packed = {
        gpu_type: matrix([json.dumps([rates.get((own, other)) for other in models]) for own in models])
        for gpu_type, rates in table.packed.items()
    }
    return {"models": models, "packed": packed}


def _efficiencies(table: EfficiencyTable) -> Parts:
    """One line per shape with one number per model; null = the model lacks the shape."""
    columns = {name: {key: getattr(model, key) for key in OF_SHAPED} for name, model in table.models.items()}
    efficiency = {}
    for network in table.networks:
        of_model = [model.efficiency[network] for model in table.models.values()]
        shapes: list[Shape] = sorted(set().union(*of_model))
        rows = [f"[{json.dumps(shape)}, {json.dumps([known.get(shape) for known in of_model])}]" for shape in shapes]
        efficiency[network] = matrix(rows)
    return {"models": {name: json.dumps(row) for name, row in columns.items()}, "efficiency": efficiency}


def _steps(table: StepTable) -> Parts:
    """Times in microseconds, a line for each application and gang."""
    steps = {}
    for name, gangs in table.steps.items():
        rows = {}
        for (machines, gpus), found in gangs.items():
            whole = [[round(v * unit) for v in row.tolist()] for row, unit in zip(found, UNITS, strict=True)]
            rows[f"{machines} {gpus}"] = json.dumps(whole)
        steps[name] = block(rows)
    return {"applications": _rows(table.applications), "steps": steps}


def _rows(rows: Mapping[str, Application] | Mapping[str, Fit]) -> dict[str, str]:
    """Format the fields of applications or fits, with those of their throughput."""
    texts = {}
    for name, row in rows.items():
        flat = {key: value for key, value in dataclasses.asdict(row).items() if key != "name" and value != {}}
        texts[name] = json.dumps(flat.pop("throughput", {}) | flat)
    return texts


def block(rows: Mapping[str, str]) -> str:
    """Format an object, with a line for each of its values, which are formatted already."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {row}" for name, row in rows.items()) + "\n}"


def matrix(rows: list[str]) -> str:
    """Format a list, with a line for each of its values, which are formatted already."""
    return "[\n" + ",\n".join(rows) + "\n]"
