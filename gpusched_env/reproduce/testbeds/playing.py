"""Calibrate each family, freeze the constants, then play the rows of ``testbeds.toml`` and score them."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.reproduce.testbeds.reading import SHIPPED, Measured, Points, UnplayableError
from gpusched_env.reproduce.testbeds.scoring import Score, score
from gpusched_env.support.plugins import search_working_folder

FLOOR: Final = "floor"
COLUMNS: Final = ("as is", "rules", "calibrated")
TESTBEDS: Final = files("gpusched_env.reproduce.testbeds") / "testbeds.toml"
QUICK: Final = "left out by --quick"


@dataclass(frozen=True)
class Row:
    """A row of the table and its results by column, which are those of :data:`COLUMNS` and :data:`FLOOR`.

    Parameters
    ----------
    entry : the row in the TOML file
    reasons : why a column cannot be played
    in_sample : columns that were tested on what they were calibrated on
    """

    entry: Mapping[str, Any]
    points: dict[str, list[Points]] = field(default_factory=dict)
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    in_sample: set[str] = field(default_factory=set)

    def is_luck(self, column: str, metric: str) -> bool:
        """Whether an error is below its floor."""
        floor, own = (self.scores.get(one, {}).get(metric) for one in (FLOOR, column))
        return column != FLOOR and floor is not None and own is not None and own.loss < floor.loss


@dataclass(frozen=True)
class Table:
    """What was played: all rows, the constants of each family that could be calibrated, and what may be claimed."""

    rows: list[Row]
    constants: dict[str, Any]
    claims: Mapping[str, Mapping[str, str]]


def measured_of(file: Path | None = None) -> tuple[dict[str, Any], Measured]:
    """Return the list of rows, of the package or of a user's TOML file, and its measured values.

    Raises
    ------
    GpuschedError : the file cannot be read
    """
    try:
        listed = tomllib.loads((file or TESTBEDS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GpuschedError(f"{file}: cannot be read as TOML ({error})") from error
    return listed, Measured(listed.get("files", {}), folder=file.parent if file else SHIPPED)


def family_module(name: str) -> ModuleType:
    """Import the module of a family; a name with a dot is that of a user's module.

    Raises
    ------
    GpuschedError : there is no such module
    """
    if "." not in name:
        return importlib.import_module(f"gpusched_env.reproduce.testbeds.{name}")
    search_working_folder()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise GpuschedError(f"family {name!r}: cannot be imported ({error})") from error


def calibrate(listed: Mapping[str, Any], measured: Measured) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the constants of each family, and why other families have none; then measured values can be tested."""
    constants, reasons = {}, {}
    for family in dict.fromkeys(row["family"] for row in listed["rows"]):
        try:
            constants[family] = family_module(family).calibrate(measured)
        except UnplayableError as error:
            reasons[family] = str(error)
    measured.frozen = True
    return constants, reasons


def play_testbeds(listed: Mapping[str, Any], measured: Measured, quick: bool = False, progress: bool = True) -> Table:
    """Play all rows; a row that cannot be played has a reason, and does not stop the others.

    Parameters
    ----------
    quick : leave out rows that the list calls slow
    """
    rows = [Row(entry) for entry in listed["rows"]]
    played = [row for row in rows if not (quick and row.entry.get("slow"))]
    constants, reasons = calibrate({"rows": [row.entry for row in played]}, measured)
    for row in rows:
        if row not in played:
            row.reasons.update(dict.fromkeys(COLUMNS, QUICK))
    with ProgressBar(len(played), progress) as bar:
        for row in played:
            if row.entry["family"] in reasons:
                row.reasons.update(dict.fromkeys(COLUMNS, reasons[row.entry["family"]]))
            else:
                _play(row, constants[row.entry["family"]], measured)
            bar.run_finished()
    return Table(rows, constants, listed.get("claims", {}))


def _play(row: Row, constants: Mapping[str, Any], measured: Measured) -> None:
    """Play a row under each column, and note which of its values were seen by the calibration."""
    module = family_module(row.entry["family"])
    row.in_sample.update(row.entry.get("in_sample", ()))
    for column in (*COLUMNS, FLOOR):
        measured.tested.clear()
        try:
            points = module.play(row.entry["id"], column, constants, measured)
        except UnplayableError as error:
            row.reasons[column] = str(error)
            continue
        if points:
            row.points[column], row.scores[column] = points, score(points)
        seen = measured.seen
        if column == COLUMNS[-1] and any((at & seen[key]).any() for key, at in measured.tested.items() if key in seen):
            row.in_sample.add(column)
