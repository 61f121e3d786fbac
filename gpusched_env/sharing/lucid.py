"""Interference between two jobs on a GPU, as Lucid measured it (Hu et al., ASPLOS 2023; colocate_info.csv).

The file is under a non-commercial licence. The user must supply a copy; the package has none of its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.portable.arrays import mean
from gpusched_env.sharing.csv_pairs import number_of, pair_rows, text_of
from gpusched_env.sharing.pair_table import Entry, Pair, PairTable

AMP: Final = ("any", "yes", "no")


@dataclass(frozen=True)
class LucidTable(PairTable):
    """Interference from Lucid's simulation/data/colocate_info.csv.

    The columns ``model1,batchsize1,amp1,speed1,model2,batchsize2,amp2,speed2`` are read. A speed is a job's rate beside
    the other job / its rate alone. Each row gives the rates of both jobs of a pair. Pairs of models were measured at
    several batch sizes, with and without mixed precision; the rate of a pair is the mean over the rows that are used.

    Parameters
    ----------
    batch_size : use only rows in which both jobs have this batch size; 0 = use all rows
    amp : "yes" = use only rows in which both jobs use mixed precision; "no" = only rows in which neither job does;
        "any" = all rows
    """

    batch_size: int = 0
    amp: str = "any"
    kind = "lucid"

    def __post_init__(self) -> None:
        """Check every field; the file is not opened."""
        super().__post_init__()
        if isinstance(self.batch_size, bool) or not isinstance(self.batch_size, int) or self.batch_size < 0:
            raise ScenarioError(f"sharing.interference.batch_size is {self.batch_size!r}: it must be 0 (all) or above")
        if self.amp not in AMP:
            raise ScenarioError(f"sharing.interference.amp is {self.amp!r}: give one of {', '.join(AMP)}")

    def entries(self) -> Iterator[Entry]:
        """Yield the mean rate of each pair over its rows."""
        found: dict[Pair, list[Entry]] = {}
        for entry in self.measured():
            found.setdefault(entry.pair, []).append(entry)
        for pair, entries in found.items():
            yield Entry(pair, mean([entry.rate for entry in entries]), entries[0].place)

    def measured(self) -> Iterator[Entry]:
        """Read the file, and yield two entries for each row."""
        ends = ("1", "2")
        columns = [name + end for name in ("model", "batchsize", "amp", "speed") for end in ends]
        for place, row in pair_rows(Path(self.path), columns):
            sizes = {number_of(row, "batchsize" + end, place) for end in ends}
            mixed = {number_of(row, "amp" + end, place) != 0 for end in ends}
            if self.batch_size and sizes != {self.batch_size}:
                continue
            if self.amp != "any" and mixed != {self.amp == "yes"}:
                continue
            first, second = (text_of(row, "model" + end, place) for end in ends)
            yield Entry(Pair(first, second), number_of(row, "speed1", place), place)
            yield Entry(Pair(second, first), number_of(row, "speed2", place), place)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        own = {"batch_size": self.batch_size, "amp": self.amp}
        defaults = {"batch_size": 0, "amp": "any"}
        return super().as_dict() | {name: value for name, value in own.items() if value != defaults[name]}
