"""The cells and seeds on which the tuner of delay timers is trained, chosen and tested.

A cell is a scenario and the preset under which Dally plays it. The three sets share no cell. They were fixed before any
tuner was played on a test cell.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.scenarios.delay_timer_cells import ABOVE, BELOW, FREE

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
