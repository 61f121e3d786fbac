"""Dally's delay timers over cells of all kinds: the cells, and the contenders of the card (docs/delay_timers.md).

A cell is a scenario and the preset under which Dally plays it. The three sets share no cell. They were fixed before any
tuner was played on a test cell. Every contender keeps its setting in all test cells.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from gpusched_env.agents.learned_timers import TimerNetwork, shipped
from gpusched_env.delay_timers.actions import TimerActions, timer_action
from gpusched_env.metrics import Interval, bootstrap_mean
from gpusched_env.portable import arrays
from gpusched_env.portable.elementary import exp, log
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.dally import ABOVE, BELOW, FREE

__all__ = ["TEST_SEEDS", "exp"]

# Training, the choice, and reports use disjoint seeds.
TRAINING_SEEDS: Final = tuple(range(10))
VALIDATION_SEEDS: Final = tuple(range(100, 105))
TEST_SEEDS: Final = tuple(range(1_000, 1_010))
NETWORKS: Final = (FREE, "1", "2", "4", "8", "20")  # oversubscription of the racks' uplinks
LOADS: Final = (0.5, 0.7, 0.9, 1.1)
LOADS_BETWEEN: Final = (0.8, 1.0)
GANGS: Final = (BELOW, ABOVE)


@dataclass(frozen=True)
class TimerCell:
    """One cell.

    Parameters
    ----------
    label : short name in tables
    scenario : name of the scenario
    preset : preset of Dally
    """

    label: str
    scenario: str
    preset: str = "suite"

    def problem(self) -> Scenario:
        """Build the scenario."""
        return get_scenario(self.scenario)

    def scheduler(self, parameters: str) -> str:
        """Return the spec of Dally with some parameters, such as ``tuner=hand``."""
        return f"dally:preset={self.preset},{parameters}"


def _authors(label: str, parameters: str = "") -> TimerCell:
    return TimerCell(f"authors {label}", "dally-authors-v1" + (parameters and f":{parameters}"), "authors")


def _latin(part: int) -> tuple[TimerCell, ...]:
    """Return every third cell of the grid, so that each part has every network, load and kind of gangs."""
    grid = itertools.product(enumerate(NETWORKS), enumerate(LOADS), enumerate(GANGS))
    return tuple(
        TimerCell(f"{network} {load:g} {gangs}", f"dally-cells-v0:network={network},load={load:g},gangs={gangs}")
        for (i, network), (j, load), (k, gangs) in grid
        if (i + j + k) % 3 == part
    )


def _between() -> tuple[TimerCell, ...]:
    """Return more training cells, at loads between those of the grid: large gangs need them most."""
    return tuple(
        TimerCell(f"{network} {load:g} {ABOVE}", f"dally-cells-v0:network={network},load={load:g},gangs={ABOVE}")
        for network, load in itertools.product(NETWORKS[2:], LOADS_BETWEEN)
    )


BETWEEN_CELLS: Final = _between()
# Mean gaps of 2,000 to 900 s are loads of 0.6 to 1.3 of the authors' scenario; 0 = all jobs at time 0.
TRAINING_CELLS: Final = (
    *_latin(0),
    _authors("gap 2000", "mean_gap_s=2000"),
    _authors("gap 1100", "mean_gap_s=1100"),
    _authors("batch of 300", "mean_gap_s=0,jobs=300"),
    *BETWEEN_CELLS,
)
VALIDATION_CELLS: Final = (
    *_latin(1),
    _authors("gap 1700", "mean_gap_s=1700"),
    _authors("gap 900", "mean_gap_s=900"),
)
TEST_CELLS: Final = (
    *_latin(2),
    _authors("gap 1461"),
    _authors("gap 1200", "mean_gap_s=1200"),
    _authors("batch", "mean_gap_s=0"),
)


HOUR_S: Final = 3_600.0  # [s]
GRID_S: Final = (0.0, HOUR_S, 6 * HOUR_S, 24 * HOUR_S, math.inf)  # [s] of the rack timer, and of what the other adds


def pairs(values_s: Sequence[float] = GRID_S) -> list[tuple[float, float]]:
    """Return all pairs (rack timer, network timer beyond it) of a grid [s]."""
    return list(itertools.product(values_s, values_s))


def pair_action(pair: tuple[float, float]) -> tuple[float, float]:
    """Return the action of each class that gives a pair of the grid."""
    rack, beyond = timer_action(pair)
    return float(rack), float(beyond)


def static_waits(instance: Instance, action: Sequence[float] | np.ndarray) -> np.ndarray:
    """float64 [G + 1, 2] [s]: timers of a constant action, which is one pair for all classes, or [D, 2]."""
    actions = TimerActions(instance.cluster)
    return actions.waits(np.broadcast_to(np.asarray(action, float), actions.shape))


def rows(action: Any, instance: Instance) -> str:
    """Return a constant action as ``dally:tuner=static,timers=...`` accepts it: GPUS:RACK:NETWORK/..., in seconds."""
    waits_s = static_waits(instance, action)[1:]
    changes = np.flatnonzero((waits_s[1:] != waits_s[:-1]).any(axis=1)) + 1  # not np.diff: inf - inf is NaN
    ends = [*changes.tolist(), len(waits_s)]
    return "/".join(f"{end}:{_plain(waits_s[end - 1, 0])}:{_plain(waits_s[end - 1, 1])}" for end in ends)


def _plain(seconds: float) -> str:
    """Format a time exactly and without an exponent."""
    return "inf" if math.isinf(seconds) else np.format_float_positional(seconds, trim="-")


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
