"""The user's own table of interference, with one row for each ordered pair of models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.sharing.csv_pairs import Row, number_of, pair_rows, text_of
from gpusched_env.sharing.pair_numbers import NUMBERS, PairNumbers
from gpusched_env.sharing.pair_table import Entry, Pair, PairTable

VALUES: Final = ("xi", "lost_share", "rate")
YES_NO: Final = {"0": False, "1": True, "false": False, "true": True}


@dataclass(frozen=True)
class UserTable(PairTable):
    """Interference from a CSV file with the columns ``model_self``, ``model_other`` and one column of values.

    The column of values is one of these:

    - ``xi``: iteration time of ``model_self`` beside ``model_other`` / its iteration time alone
    - ``lost_share``: share of its throughput that ``model_self`` loses; xi = 1 / (1 - lost_share)
    - ``rate``: throughput of ``model_self`` beside ``model_other`` / its throughput alone; xi = 1 / rate

    These columns are optional, and an empty field means any value:

    - ``gpus_self``: gang size of ``model_self``
    - ``gpu_type``: GPU type
    - ``mps``: 1 if the row was measured with CUDA's Multi-Process Service (MPS), else 0

    Other columns are ignored. Or the columns are ``model, sensitivity, aggressiveness``
    (gpusched_env.sharing.pair_numbers).

    Parameters
    ----------
    mps : True = use the rows measured with MPS; False = use the rows measured without MPS. Rows with an empty ``mps``
        are always used
    """

    mps: bool = False
    kind = "table"

    def entries(self) -> Iterator[Entry]:
        """Read the entries from the file."""
        path = Path(self.path)
        numbers = PairNumbers({}, {})
        for place, row in pair_rows(path, ("model_self", "model_other"), NUMBERS):
            given = [name for name in VALUES if name in row]
            if len(given) != ("model_self" in row):
                raise ScenarioError(
                    f"{path}, line 1: the header must name one of {', '.join(VALUES)}, which says what numbers mean "
                    f"(xi = seconds shared / alone, lost_share = 1 - 1 / xi, rate = 1 / xi), or none with {NUMBERS[1]}"
                )
            if not given:
                numbers.add(row, place)
                continue
            if (mps := row.get("mps", "").lower()) and YES_NO.get(mps) is None:
                raise ScenarioError(f"{place}, field 'mps': {mps!r}: expected 0 or 1")
            if mps and YES_NO[mps] != self.mps:
                continue
            pair = Pair(
                text_of(row, "model_self", place),
                text_of(row, "model_other", place),
                _gpus(row, place),
                row.get("gpu_type") or None,
            )
            yield Entry(pair, _rate(row, given[0], place), place)
        for (model, other), rate in numbers.rates().items():
            yield Entry(Pair(model, other), rate, self.path)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return super().as_dict() | ({"mps": True} if self.mps else {})


def _gpus(row: Row, place: str) -> int | None:
    if not row.get("gpus_self"):
        return None
    value = number_of(row, "gpus_self", place)
    if value < 1 or value % 1:
        raise ScenarioError(f"{place}, field 'gpus_self': {row['gpus_self']!r}: expected a whole number of GPUs")
    return int(value)


def _rate(row: Row, column: str, place: str) -> float:
    """Return throughput beside the other model / throughput alone; 0 = the pair must not share a GPU."""
    if column == "lost_share":
        return 1.0 - number_of(row, column, place, most=1.0, wanted="a share from 0 to 1")
    value = number_of(row, column, place)
    if column == "rate":
        return value
    if value == 0.0:
        raise ScenarioError(f"{place}, field 'xi': 0: xi must be above 0; a pair that cannot share has rate 0")
    return 1.0 / value
