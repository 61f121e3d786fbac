"""Layouts of the published tables: their columns, kinds and units, from ``layouts.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusched_env.support.files import toml_beside

NAMED, BARE, LAYERS = "CSV with a header line", "CSV without a header line", "layer file of ASTRA-sim"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : name in the file; may be empty
    kind : "text", "time" (a date, or a date and time), "whole" (a whole number) or "number" (empty or nan = missing)
    unit : unit of the values; "" = none, "1" = a ratio
    """

    name: str
    kind: str
    unit: str = ""


@dataclass(frozen=True)
class Layout:
    """The layout of a table; ``layouts.toml`` explains the fields."""

    about: str
    columns: tuple[Column, ...]
    rest: Column | None = None
    levels: int = 0
    root: str = ""
    form: str = NAMED


def _read() -> dict[str, Layout]:
    """Read ``layouts.toml``, which explains its own fields."""
    tables = toml_beside(__file__)
    return {name: _layout(**table) for name, table in tables.items()}


def _layout(
    about: str, columns: Sequence[Sequence[str]], rest: Sequence[str] = (), form: str = "NAMED", **json: Any
) -> Layout:
    listed = [Column(name.strip("_") and name, kind, unit) for kind, unit, names in columns for name in names.split()]
    return Layout(about, tuple(listed), Column("", *rest) if rest else None, form=FORMS[form], **json)


FORMS: Final = {"NAMED": NAMED, "BARE": BARE, "LAYERS": LAYERS}
LAYOUTS: Final = _read()
