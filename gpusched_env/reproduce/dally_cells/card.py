"""One tuner for networks, loads and gangs of all kinds, on test cells that no tuner was trained on or chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.dally_cells.cells import TEST_CELLS
from gpusched_env.reproduce.dally_cells.contenders import contests
from gpusched_env.reproduce.dally_cells.tables import all_findings, all_tables
from gpusched_env.reproduce.dally_tuner.problems import TEST_SEEDS
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

SEEDS: Final = TEST_SEEDS[:10]
QUICK_SEEDS: Final = 1
QUICK_CELLS: Final = ("free 0.9 below", "2 0.9 above", "20 0.9 above", "authors gap 1461")


class DallyCellsCard(Card):
    """Timers of Dally (after the authors' simulator): one learned tuner for cells of all kinds."""

    title = "Delay timers of Dally over test cells: one learned tuner (our extension), the hand tuner, static timers"

    def runs(self, quick: bool) -> list[Run]:
        """All contenders on ten test seeds of every test cell; ``quick`` = four cells, one seed."""
        cells = [cell for cell in TEST_CELLS if cell.label in QUICK_CELLS] if quick else TEST_CELLS
        seeds = SEEDS[:QUICK_SEEDS] if quick else SEEDS
        return [run for seed in seeds for cell in cells for run in contests(cell, seed)]

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the ratios over all cells, and those in each cell."""
        return all_tables(results)

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check each criterion."""
        return all_findings(results)

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw nothing: the tables say it all."""
        return ()
