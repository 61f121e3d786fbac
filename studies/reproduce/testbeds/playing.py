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
from gpusched_env.support.plugins import search_working_folder
from studies.reproduce.testbeds.reading import SHIPPED, Measured, Points, UnplayableError
from studies.reproduce.testbeds.scoring import Score, score

HERE: Final = "studies.reproduce.testbeds"
FLOOR: Final = "floor"
COLUMNS: Final = ("as is", "rules", "calibrated")
QUICK: Final = "left out by --quick"
SAID: Final = ("id", "family", "measured", "hardware", "calibrate", "test", "blame", "source", "licence")
SPLITS: Final = {"speeds": ("folder", "split"), "colocation": ("split",)}


@dataclass(frozen=True)
class Row:
    """A row: its entry in the TOML file, and by column its results, or why there are none.

    ``in_sample`` : columns that were tested on what they were calibrated on
    """

    entry: Mapping[str, Any]
    points: dict[str, list[Points]] = field(default_factory=dict)
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    in_sample: set[str] = field(default_factory=set)

    @property
    def beside(self) -> bool:
        """Whether the floor stands beside the errors and bounds none: it does not measure the same thing again."""
        return bool(self.entry.get("beside", False))

    def is_luck(self, column: str, metric: str) -> bool:
        """Whether an error is below its floor."""
        if self.beside:
            return False
        floor, own = (self.scores.get(one, {}).get(metric) for one in (FLOOR, column))
        return floor is not None and own is not None and own.loss < floor.loss

    def is_worse(self, column: str, metric: str) -> bool:
        """Whether a calibrated error is above that of the defaults."""
        plain, own = (self.scores.get(one, {}).get(metric) for one in (COLUMNS[0], column))
        return column == COLUMNS[-1] and plain is not None and own is not None and own.loss > plain.loss


def measured_of(file: Path | None = None) -> tuple[dict[str, Any], Measured]:
    """Return the list of rows, of the package or of a user's TOML file, and its measured values.

    Raises
    ------
    GpuschedError : the file cannot be read, or lacks what the table needs
    """
    name = str(file or "testbeds.toml")
    try:
        listed = tomllib.loads((file or files(HERE) / "testbeds.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or f"not valid TOML ({error})"
        raise GpuschedError(f"{name}: {reason}; check the path and the text") from error
    files_of, rows = listed.get("files", {}), listed.get("rows", [])
    if not rows or not isinstance(rows, list):
        raise GpuschedError(f"{name}: has no [[rows]]: list one at least")
    entries = [
        (f"[[rows]] {row.get('id', number)}", row, (*SAID, *SPLITS.get(row.get("family"), ())))
        for number, row in enumerate(rows, 1)
    ]
    for key, of in files_of.items():
        entries.append((f"[files.{key}]", of, ("values", *(["public"] if "public" in of else ["shipped", "sha256"]))))
    for what, of, needed in entries:
        if absent := [one for one in needed if one not in of]:
            raise GpuschedError(f"{name}: {what}: add {', '.join(absent)}")
    by_name = {row["id"]: row for row in rows}
    if len(by_name) < len(rows):
        raise GpuschedError(f"{name}: two [[rows]] have the same id")
    return listed, Measured(files_of, folder=file.parent if file else SHIPPED, rows=by_name)


def family_module(name: str) -> ModuleType:
    """Import the module of a family: one of this folder, or, if its name has a dot, any."""
    search_working_folder()
    try:
        return importlib.import_module(name if "." in name else f"{HERE}.{name}")
    except ImportError as error:
        raise GpuschedError(f"family {name!r}: cannot be imported ({error})") from error


class Unknown(dict[str, Any]):
    """Constants of a family that cannot be calibrated: what needs one of them cannot be played, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __missing__(self, name: str) -> Any:
        raise UnplayableError(self.reason)


def calibrate(rows: list[Row], measured: Measured) -> dict[str, Any]:
    """Return the constants of each family, perhaps unknown ones. From then on, tests can be read."""
    constants: dict[str, Any] = {}
    for family in dict.fromkeys(row.entry["family"] for row in rows):
        try:
            constants[family] = family_module(family).calibrate(measured)
        except UnplayableError as error:
            constants[family] = Unknown(str(error))
    measured.frozen = True
    return constants


def play_rows(listed: Mapping[str, Any], measured: Measured, quick: bool = False) -> tuple[list[Row], dict[str, Any]]:
    """Return the played rows, and the constants of each family; rows that cannot be played do not stop the others.

    ``quick`` : leave out rows that the list calls slow
    """
    rows = [Row(entry, in_sample=set(entry.get("in_sample", ()))) for entry in listed["rows"]]
    for row in rows:
        row.reasons.update(dict.fromkeys(COLUMNS if quick and row.entry.get("slow") else (), QUICK))
    played = [row for row in rows if not row.reasons]
    constants = calibrate(played, measured)
    for row in played:
        _play(row, constants[row.entry["family"]], measured)
    return rows, {family: known for family, known in constants.items() if not isinstance(known, Unknown)}


def _play(row: Row, constants: Mapping[str, Any], measured: Measured) -> None:
    """Play a row under each column, and note which of its values the calibration has seen."""
    module = family_module(row.entry["family"])
    for column in (*COLUMNS, FLOOR):
        measured.tested.clear()
        try:
            points = module.play(row.entry["id"], column, constants, measured)
        except UnplayableError as error:
            row.reasons[column] = str(error)
            continue
        if points:
            told = {name: one for name, one in score(points).items() if column != FLOOR or one.kind != "refused"}
            row.points[column], row.scores[column] = points, told
        if column == COLUMNS[-1] and any(
            (at & seen[key]).any()
            for seen in (measured.seen[""], measured.seen[row.entry["id"]])
            for key, at in measured.tested.items()
            if key in seen
        ):
            row.in_sample.add(column)
