"""Programs of the card of one tuner for all cells: every contender keeps its setting in all test cells."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from gpusched_env.agents.learned_timers import TimerNetwork, shipped
from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp, log
from gpusched_env.reproduce.dally_cells.cells import TEST_CELLS, TEST_SEEDS
from gpusched_env.reproduce.dally_cells.grid import HOUR_S, pair_action, pairs, rows
from gpusched_env.scenarios import Scenario

__all__ = ["TEST_SEEDS", "exp"]
CELLS: Final = {cell.label: cell for cell in TEST_CELLS}
HAND, LEARNED, NO_WAIT, FULL = "hand tuner", "learned", "noWait", "fullyConsolidated"
MANUAL: Final = {f"manual {rack}/{network}": (rack, network) for rack, network in ((1, 2), (6, 12), (12, 24))}


def _name(pair: tuple[float, float]) -> str:
    if pair[0] == pair[1] and pair[0] in (0.0, math.inf):
        return NO_WAIT if pair[0] == 0.0 else FULL
    return "+".join("inf" if math.isinf(seconds) else f"{seconds / HOUR_S:g} h" for seconds in pair)


# Rack timer, and network timer beyond it [s].
GRID: Final = {_name(pair): pair for pair in pairs()}
STATIC: Final = (*GRID, *MANUAL)
RIVALS: Final = (HAND, *STATIC)


def problem_of(cell: str) -> Scenario:
    """Return the scenario of a test cell."""
    return CELLS[cell].problem()


@cache
def specs(cell: str) -> dict[str, str]:
    """Return the spec of Dally for each contender in a test cell."""
    instance = problem_of(cell).instance(0)  # the timers depend on its machines and racks only
    manual = {name: f"tuner=off,rack_wait={rack},nw_wait={network}" for name, (rack, network) in MANUAL.items()}
    grid = {name: f"tuner=static,timers={rows(pair_action(pair), instance)}" for name, pair in GRID.items()}
    parameters = {HAND: "tuner=hand", LEARNED: "tuner=learned", **grid, **manual}
    return {name: CELLS[cell].scheduler(own) for name, own in parameters.items()}


def logs(values: Sequence[np.ndarray]) -> np.ndarray:
    """float64 [cells, seeds]: ln of values of each cell."""
    return arrays.log(np.array(values))


def exps(values: np.ndarray) -> np.ndarray:
    """float64 of the same shape: e to the power of each value."""
    return arrays.exp(values)


def ratio_of(differences: np.ndarray) -> Interval:
    """Return the geometric mean of ratios, given as differences of logarithms, with a 95 % bootstrap interval."""
    found = bootstrap_mean(differences)
    return dataclasses.replace(found, mean=exp(found.mean), low=exp(found.low), high=exp(found.high))


def geometric(ratios: np.ndarray) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, ratios.tolist())) / len(ratios))


def spent() -> Iterator[tuple[str, Any]]:
    """Yield what the search of the learned tuner took."""
    about = TimerNetwork.load(shipped()).about
    for name in ("learner", "simulated_jobs", "training_seeds", "validation_seeds", "chosen_at"):
        yield name.replace("_", " "), about[name]
    for name in ("training_cells", "validation_cells"):
        yield name.replace("_", " "), len(about[name])
