"""Rows of Gavel's ``.trace``: fields separated by tabs, without a header; their number says which layout it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import tab_rows

_COMMON: Final = ("job type", "command", "directory", "steps option", "needs data directory", "steps", "scale factor")
# Fields of a row by their number. That of Philly's virtual clusters has no directory, and the scale factor at its end.
LAYOUTS: Final[dict[int, tuple[str, ...]]] = {
    7: ("job type", "command", "steps option", "needs data directory", "steps", "arrival", "scale factor"),
    10: (*_COMMON, "priority weight", "slo", "arrival"),
    12: (*_COMMON, "mode", "priority weight", "slo", "duration", "arrival"),
}
SHOCKWAVE_FIELDS: Final = 12

Row = dict[str, tuple[str, str]]  # field name -> name with its position, as a refusal shows it, and text


def gavel_rows(path: Path, widths: Collection[int] = tuple(LAYOUTS), refusal: str = "") -> Iterator[tuple[Place, Row]]:
    """Yield the place and the fields of every row of a ``.trace``; the first row's width says which layout it is.

    Parameters
    ----------
    widths : number of fields of the layouts that the caller reads
    refusal : what to say of a trace in one of the other layouts

    Raises
    ------
    TraceError : a row of another width than the first, or a first row of none of ``widths``
    """
    width = 0
    for place, row in tab_rows(path):
        if len(row) not in (widths if not width else (width,)):
            wanted = width or " or ".join(map(str, widths))
            remedy = "the row is cut or has a stray tab: correct or remove it"
            if not width and len(row) in LAYOUTS:
                remedy = refusal
            found = f"{len(row)} fields, separated by tabs, where {wanted} are expected"
            complaint = f"{place.path}, line {place.number}: {found}; {remedy}"
            if not width:  # the first row says which layout this is, so it cannot be skipped
                raise TraceError(complaint)
            refuse_row(BadRowError(complaint, (place.number,), found))
            continue
        if not width:
            width = len(row)
            names = LAYOUTS[width]
            shown = [f"{name} ({position})" for position, name in enumerate(names, 1)]
        yield place, dict(zip(names, zip(shown, row, strict=True), strict=True))
