"""Rows of Gavel's ``.trace``: fields separated by tabs, without a header; the number of fields gives the layout."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.bad_rows import BadRowError, refuse_row
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.streams import tab_rows

_COMMON: Final = ("job type", "command", "directory", "steps option", "needs data directory", "steps", "scale factor")
# Number of fields -> field names. The layout with 7 fields is that of Philly's virtual clusters. It has no directory,
# and its last field is the scale factor.
LAYOUTS: Final[dict[int, tuple[str, ...]]] = {
    7: ("job type", "command", "steps option", "needs data directory", "steps", "arrival", "scale factor"),
    10: (*_COMMON, "priority weight", "slo", "arrival"),
    12: (*_COMMON, "mode", "priority weight", "slo", "duration", "arrival"),
}
SHOCKWAVE_FIELDS: Final = 12

Row = dict[str, tuple[str, str]]  # field name -> (name with position, for errors; text)


def gavel_rows(path: Path, widths: Collection[int] = tuple(LAYOUTS), refusal: str = "") -> Iterator[tuple[Place, Row]]:
    """Yield the place and the fields of every row of a ``.trace``, whose first row determines the layout.

    ``refusal`` is the remedy in the error message if the number of fields is another one of LAYOUTS than ``widths``.
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
            if not width:  # the first row determines the layout, so it cannot be skipped
                raise TraceError(complaint)
            refuse_row(BadRowError(complaint, (place.number,), found))
            continue
        if not width:
            width = len(row)
            names = LAYOUTS[width]
            shown = [f"{name} ({position})" for position, name in enumerate(names, 1)]
        yield place, dict(zip(names, zip(shown, row, strict=True), strict=True))
