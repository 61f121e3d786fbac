"""All output columns, which ``columns.toml`` defines; docs/metrics.md is generated from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gpusched_env.support.files import toml_beside


@dataclass(frozen=True)
class Column:
    """The definition of a number in a summary.

    Parameters
    ----------
    name : key in the summary, in JSON and in CSV
    unit : "s", "" (a pure number), "share" (0 to 1), or one that tables print, such as "kWh"
    formula : definition in words
    better : "min" = lower values are better, "max" = higher values are better, "" = neither
    scope : "jobs" = computed over the jobs of the tracked window, "run" = computed over the whole run
    """

    name: str
    unit: str
    formula: str
    better: Literal["min", "max", ""]
    scope: Literal["jobs", "run"] = "jobs"


_TABLES: Final = {
    kind: tuple(Column(name, **fields) for name, fields in columns.items())
    for kind, columns in toml_beside(__file__).items()
}
COLUMNS: Final = _TABLES["all"]
DEADLINE_COLUMNS: Final = _TABLES["deadlines"]
LIMIT_COLUMNS: Final = _TABLES["limits"]
HOLD_COLUMNS: Final = _TABLES["held"]
FAILURE_COLUMNS: Final = _TABLES["failures"]
TENANT_COLUMNS: Final = _TABLES["tenants"]
ENERGY_COLUMNS: Final = _TABLES["energy"]
ALL_COLUMNS: Final = (
    *COLUMNS, *DEADLINE_COLUMNS, *LIMIT_COLUMNS, *HOLD_COLUMNS, *FAILURE_COLUMNS, *ENERGY_COLUMNS, *TENANT_COLUMNS,
)  # fmt: skip
COLUMN_OF: Final = {column.name: column for column in ALL_COLUMNS}


def columns_markdown() -> str:
    """Return the table of all columns as Markdown, for docs/metrics.md."""
    lines = ["| column | unit | formula | better | scope |", "|---|---|---|---|---|"]
    for column in ALL_COLUMNS:
        cells = (f"`{column.name}`", column.unit or "-", column.formula, column.better or "-", column.scope)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
