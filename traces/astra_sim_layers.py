"""Layer files of ASTRA-sim 1.0: compute times and gradient bytes of each layer of a neural network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpusched_env.errors import TraceError
from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.report import ReadReport
from gpusched_env.traces.parsing.streams import tab_rows

HEADING: Final = "DATA"  # data-parallel training, in which only gradients are exchanged
FIELDS: Final = 12
READ: Final = (0, 2, 5, 8, 10, 11)  # layer, three compute times, bytes of the weight gradients, update time
FIXED: Final = {1: "-1", 3: "NONE", 4: "0", 6: "NONE", 7: "0", 9: "ALLREDUCE"}  # values in data-parallel training
STRAY: Final = "a stray total, not a layer"
GLUED: Final = "the layer's name begins with a stray total; it is kept as it is"
MISCOUNTED: Final = "line 2 gives a wrong number of layers; it is ignored"


def layer_rows(path: Path, report: ReadReport) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place of every layer and its fields READ.

    Fields are separated by tabs, and line 1 is ``DATA``. Some files end with a line that has one number, a stray total;
    it is dropped. The report notes a wrong number of layers in line 2, and layer names that begin with a stray total.
    """
    rows = tab_rows(path)
    _, heading = next(rows, (None, []))
    if heading != [HEADING]:
        raise TraceError(f"{path}, line 1: found {' '.join(heading)[:60]!r}; expected {HEADING}; is this a layer file?")
    counted, told = next(rows, (Place(str(path), 2), [""]))
    count = counted.whole("number of layers", told[0], "layers")
    names: list[tuple[Place, str]] = []
    totals: list[str] = []
    for place, row in rows:
        if len(row) == 1 and row[0].strip().isdecimal():
            totals.append(row[0].strip())
            report.drop(STRAY, place.number)
            continue
        if len(row) != FIELDS:
            raise TraceError(
                f"{path}, line {place.number}: {len(row)} fields, separated by tabs, where {FIELDS} are expected; "
                "the row is cut or has a stray tab: correct or remove it"
            )
        for position, expected in FIXED.items():
            if row[position] != expected:
                remedy = f"expected {expected}, as data-parallel training has it; other kinds are not read"
                place.refuse(f"column {position + 1}", row[position], remedy)
        names.append((place, row[0]))
        yield place, [row[position] for position in READ]
    if count != len(names):
        report.note(MISCOUNTED, counted.number)
    for place, name in names:
        if name.startswith(tuple(totals)):
            report.note(GLUED, place.number)
