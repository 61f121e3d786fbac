"""Measured values, read in two phases: first those on which constants are calibrated, then those of the test."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import io
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from posixpath import commonpath
from typing import Any, Final, TypeAlias

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.traces.downloads.public_files import data_folder, find

SHIPPED: Final = files("studies.reproduce.testbeds") / "measured"
Columns: TypeAlias = dict[str, np.ndarray]
Chosen: TypeAlias = Callable[[Columns], np.ndarray]
Noted: TypeAlias = dict[tuple[str, str], np.ndarray]


class UnplayableError(GpuschedError):
    """A row of the table cannot be played; the message says why, and what would help."""


@dataclass(frozen=True)
class Points:
    """Predicted and measured values of one row of the table, under one column.

    Parameters
    ----------
    quantity : what the values are, with its unit, such as "JCT [s]", perhaps with a part: "time [s], > 256 MiB". Its
        first word selects the metrics (:mod:`studies.reproduce.testbeds.scoring`)
    groups : group of each value, which the bootstrap draws as a whole: a job, an application, a band, a pair of models
    predicted, measured : float64 [n]; a prediction of NaN was refused, and is counted
    totals : values of the whole run, such as "makespan [s]" -> (predicted, measured)
    """

    quantity: str
    groups: Sequence[str]
    predicted: np.ndarray
    measured: np.ndarray
    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass
class Measured:
    """The files of ``testbeds.toml``. Tests can be read only after the constants are frozen.

    Parameters
    ----------
    listed : name of a file -> its entry: ``shipped`` or ``public`` = where it is; ``values`` = columns of measured
        values, all others say what was measured; ``rows`` = "MODULE:FUNCTION" that reads a file which is no CSV, from
        its bytes to columns
    change : changes a table after it was read; for the test that constants do not depend on values of the test
    folder : of the files that are shipped
    rows : row of the table -> its entry, where a family finds what calibrates and what is tested

    Attributes
    ----------
    sha256 : name of a file -> SHA-256 of what was read
    seen : row, "" = all rows of a family -> (file, column) -> bool [n], measured values that calibration read for it
    tested : (file, column) -> bool [n], measured values that were read for the test
    """

    listed: Mapping[str, Mapping[str, Any]]
    change: Callable[[str, Columns], Columns] | None = None
    folder: Traversable = SHIPPED
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    seen: dict[str, Noted] = field(default_factory=lambda: defaultdict(dict))
    tested: Noted = field(default_factory=dict)
    frozen: bool = False
    tables: dict[str, Columns] = field(default_factory=dict)

    def calibration(self, file: str, columns: Sequence[str], chosen: Chosen, row: str = "") -> Columns:
        """Return columns of the rows on which constants are calibrated.

        ``chosen`` gets the columns that are not measured values, and returns which rows are wanted, bool [n]. ``row``
        of the table has constants of its own, which are the item of this name of those that ``calibrate`` returns.
        """
        if self.frozen:
            raise RuntimeError(f"{file}: constants are frozen; a calibration reads before")
        return self._read(file, columns, chosen, self.seen[row])

    def test(self, file: str, columns: Sequence[str], chosen: Chosen) -> Columns:
        """Return columns of rows that are predicted, as :meth:`calibration` does."""
        if not self.frozen:
            raise RuntimeError(f"{file}: the test is read before the constants are frozen")
        return self._read(file, columns, chosen, self.tested)

    def _read(self, file: str, columns: Sequence[str], chosen: Chosen, noted: Noted) -> Columns:
        table, values = self._table(file), self.listed[file]["values"]
        at = np.asarray(chosen({name: table[name] for name in table if name not in values}), bool)
        for column in set(columns) & set(values):
            noted[file, column] = at | noted.get((file, column), np.zeros(len(at), bool))
        return {name: table[name][at] for name in columns}

    def _table(self, file: str) -> Columns:
        """Return all columns of a file: numbers as float64, else text.

        Raises
        ------
        UnplayableError : the file is not there, or is not the one that was published
        """
        if file not in self.tables:
            entry = self.listed[file]
            content = self._content(file, entry)
            if "rows" in entry:
                module, _, name = entry["rows"].partition(":")
                table: Columns = getattr(importlib.import_module(module), name)(content)
            else:
                rows = list(csv.DictReader(io.StringIO(content.decode())))
                if not rows:
                    raise UnplayableError(f"{file}: there are no rows below the header")
                table = {name: _numbers([row[name] for row in rows]) for name in rows[0]}
            self.tables[file] = table if self.change is None else self.change(file, table)
        return self.tables[file]

    def _content(self, file: str, entry: Mapping[str, Any]) -> bytes:
        shipped = "shipped" in entry
        name = entry["shipped" if shipped else "public"]
        expected = entry["sha256"] if shipped else find(name).sha256
        place = (self.folder if shipped else data_folder()) / name
        packed = data_folder() / f"{name}.gz"
        try:
            content = place.read_bytes() if shipped or place.is_file() else gzip.decompress(packed.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            why, remedy = f"cannot be read ({error})", f"gpusched traces fetch {name}"
            if shipped:
                remedy = f"correct [files.{file}]"
            elif isinstance(error, FileNotFoundError):
                why, remedy = "is not in the data folder", f"gpusched traces fetch {self._absent(name)}"
            raise UnplayableError(f"{name} {why}: {remedy}") from error
        self.sha256[name] = hashlib.sha256(content).hexdigest()
        if self.sha256[name] != expected:
            raise UnplayableError(
                f"{file}: not the published file, whose SHA-256 is {expected[:12]}...: fetch it again"
            )
        return content

    def _absent(self, name: str) -> str:
        """Return the listed files of one owner that are not there, as a pattern if they are many."""
        owner, folder = name.partition("/")[0] + "/", data_folder()
        names = {entry.get("public", "") for entry in self.listed.values()}
        here = {one for one in names if (folder / one).exists() or (folder / f"{one}.gz").exists()}
        absent = sorted(one for one in names - here if one.startswith(owner)) or [name]
        return " ".join(absent) if len(absent) < 5 else f"'{commonpath(absent)}/*'"


def _numbers(texts: Sequence[str]) -> np.ndarray:
    try:
        return np.array([float(text) if text else np.nan for text in texts])
    except ValueError:
        return np.array(texts)
