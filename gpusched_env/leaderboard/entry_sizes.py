"""Bound the number of values of an entry before it is decoded, because 48 MB of JSON could become 2 GB of objects."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from gpusched_env.errors import EntryError
from gpusched_env.leaderboard.columns import LISTS, PLACING, check_lengths

MOST_RUNS: Final = 1000
# Limits on the number of values outside the columns (metrics, bounds, parameters, training seeds); commas in texts
# count, too.
MOST_OTHERS: Final = 200_000
MOST_OTHERS_OF_A_RUN: Final = 1000

_Lengths = Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=2**40)]], msgspec.Meta(max_length=2**22)]


# The part of an entry that determines its size; the columns of the decisions are undecoded text.
_COLUMNS: Final = msgspec.defstruct("_Columns", [("kinds", str), *((name, msgspec.Raw) for name in LISTS)])
_RUN: Final = msgspec.defstruct("_Run", [("decisions", _COLUMNS | None)])
_OUTLINE: Final[Any] = msgspec.defstruct("_Outline", [("runs", list[_RUN])])  # type: ignore[valid-type]


def check_sizes(text: bytes) -> None:
    """Refuse an entry whose columns lack the lengths that its letters require, or with more other values (commas)."""
    runs = msgspec.json.decode(text, type=_OUTLINE).runs
    if len(runs) > MOST_RUNS:
        raise EntryError(f"it has {len(runs):,} runs; an entry may have {MOST_RUNS:,}")
    values = 0
    for number, run in enumerate(runs):
        columns = run.decisions
        if columns is None:
            continue
        lengths = {name: _length(getattr(columns, name)) for name in LISTS}
        few = lengths["gpu_counts"] == sum(map(columns.kinds.count, PLACING))
        gang_sizes = msgspec.json.decode(columns.gpu_counts, type=_Lengths) if few else []
        try:
            check_lengths(columns.kinds, lengths, sum(gang_sizes))
        except EntryError as error:
            raise EntryError(f"run {number}: {error}") from None
        values += sum(lengths.values())
    others = text.count(b",") - values
    if others > MOST_OTHERS + MOST_OTHERS_OF_A_RUN * len(runs):
        raise EntryError(f"it has {others:,} values besides those of its decisions, more than any entry needs")


def _length(column: msgspec.Raw) -> int:
    """Return an upper bound on the number of values of an undecoded list; exact if its values are numbers."""
    text = bytes(column)
    return 0 if text.strip() == b"[]" else text.count(b",") + 1
