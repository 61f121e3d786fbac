"""The runs of the comparison: every contender keeps its setting in all test cells (docs/delay_timers.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Final

from gpusched_env.reproduce.card import Run
from gpusched_env.reproduce.dally_cells.cells import TimerCell
from gpusched_env.reproduce.dally_tuner.grid import COARSE_GRID_S, HOUR_S, pair_action, pairs, rows


def _hours(seconds: float) -> str:
    return "inf" if math.isinf(seconds) else f"{seconds / HOUR_S:g} h"


HAND, LEARNED, NO_WAIT, FULL = "hand tuner", "learned", "noWait", "fullyConsolidated"
MANUAL: Final = {f"manual {rack}/{network}": (rack, network) for rack, network in ((1, 2), (6, 12), (12, 24))}
_NAMES: Final = {(0.0, 0.0): NO_WAIT, (math.inf, math.inf): FULL}
# Rack timer, and network timer beyond it [s].
GRID: Final = {_NAMES.get(pair) or "+".join(_hours(s) for s in pair): pair for pair in pairs(COARSE_GRID_S)}
STATIC: Final = (*GRID, *MANUAL)
RIVALS: Final = (HAND, *STATIC)


def contests(cell: TimerCell, seed: int) -> Iterator[Run]:
    """Yield the runs of all contenders on one draw of a cell."""
    scenario = cell.problem()
    for name, parameters in specs(cell).items():
        yield Run(scenario, cell.scheduler(parameters), seed, {"cell": cell.label, "contender": name})


@cache
def specs(cell: TimerCell) -> dict[str, str]:
    """Return the parameters of Dally for each contender."""
    instance = cell.problem().instance(0)  # the timers depend on its machines and racks only
    manual = {name: f"tuner=off,rack_wait={rack},nw_wait={network}" for name, (rack, network) in MANUAL.items()}
    grid = {name: f"tuner=static,timers={rows(pair_action(pair), instance)}" for name, pair in GRID.items()}
    return {HAND: "tuner=hand", LEARNED: "tuner=learned,timers=cells", **grid, **manual}
