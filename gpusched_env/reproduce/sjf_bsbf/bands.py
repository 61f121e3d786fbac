"""Each result of the other prototype beside ours, and whether the two differ by at most TOLERANCE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gpusched_env.reproduce.report import NO, YES, new_table
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bsbf.published import (
    FIFO_OVER_TIRESIAS,
    FULL_BATCH_30,
    PROTOTYPE,
    PROTOTYPE_30,
    TIRESIAS,
)
from gpusched_env.reproduce.sjf_bsbf.settings import BSBF, DRAWN, FIFO, FULL_BATCH, POLLUX, SPANS_S, USUAL_XI
from gpusched_env.reproduce.sjf_bsbf.tables import Setting, as_percent, reduction, settings, title, values, xis

if TYPE_CHECKING:
    from rich.table import Table

TOLERANCE: Final = 0.05  # maximum difference of two reductions (our choice); the spread of the prototype is not known


class Band(NamedTuple):
    """One result of the prototype, and ours."""

    figure: str
    prototype: str
    ours: str
    within: bool
    by_draw: str = ""  # lowest and highest of single draws


def _by_draw(results: Results, setting: Setting, xi: float, rival: str) -> str:
    own, other = (values(results, "mean_jct_s", setting, xi, name) for name in (BSBF, rival))
    found = 1.0 - own / other
    if len(found) == 1:
        return "one draw"
    return f"{as_percent(found.min())} to {as_percent(found.max())}, {len(found)} draws"


def bands(results: Results) -> Iterator[Band]:
    """Compare every cell for which there are runs."""
    setups = settings(results)
    for part in (POLLUX, DRAWN):
        for cell in PROTOTYPE:
            setting = (part, cell.jobs)
            if setting in setups and cell.xi in xis(results, setting):
                ours = reduction(results, setting, cell.xi, cell.rival)
                yield Band(
                    f"{title(setting)}, xi {cell.xi:g}: against {cell.rival}", as_percent(cell.reduction),
                    as_percent(ours), abs(ours - cell.reduction) <= TOLERANCE,
                    _by_draw(results, setting, cell.xi, cell.rival),
                )  # fmt: skip
    for setting in ((part, 30) for part in SPANS_S if (part, 30) in setups):
        for rival, (low, high) in PROTOTYPE_30.items():
            found = [reduction(results, setting, xi, rival) for xi in xis(results, setting)]
            yield Band(
                f"{title(setting)}, all xi: against {rival}", f"{as_percent(low)} to {as_percent(high)}",
                f"{as_percent(min(found))} to {as_percent(max(found))}",
                low - TOLERANCE <= min(found) and max(found) <= high + TOLERANCE,
            )  # fmt: skip
    if (FULL_BATCH, 30) in setups:
        ours = reduction(results, (FULL_BATCH, 30), USUAL_XI, TIRESIAS, "whole batches only")
        yield Band(
            f"{FULL_BATCH}, whole batches only: against {TIRESIAS}", as_percent(FULL_BATCH_30), as_percent(ours),
            abs(ours - FULL_BATCH_30) <= TOLERANCE,
        )  # fmt: skip
    low, high = FIFO_OVER_TIRESIAS
    for setting in setups:
        if setting[0] in (DRAWN, POLLUX) and setting[1] in (160, 240):
            fifo, tiresias = (values(results, "mean_jct_s", setting, 0.0, name).mean() for name in (FIFO, TIRESIAS))
            yield Band(
                f"{title(setting)}: FIFO's mean JCT over Tiresias'", f"{low} to {high}", f"{fifo / tiresias:.1f}",
                bool(low <= fifo / tiresias <= high),
            )  # fmt: skip


def bands_table(results: Results) -> Table:
    """Return the table of all comparisons."""
    table = new_table(
        "A prototype's figures beside ours: reduction of SJF-BSBF's mean JCT", "", "prototype", "ours",
        f"within {100 * TOLERANCE:g} points", "single draws",
    )  # fmt: skip
    for band in bands(results):
        table.add_row(band.figure, band.prototype, band.ours, YES if band.within else NO, band.by_draw)
    return table
