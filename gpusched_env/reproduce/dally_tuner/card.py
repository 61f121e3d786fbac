"""Comparison of delay timers on test seeds, which were used neither for training nor for choosing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.dally_tuner.contenders import PROBLEMS, SANITY, contests, sanity
from gpusched_env.reproduce.dally_tuner.problems import TEST_SEEDS
from gpusched_env.reproduce.dally_tuner.tables import all_tables
from gpusched_env.reproduce.dally_tuner.verdicts import all_verdicts
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

QUICK_SEEDS: Final = 2
QUICK_PROBLEMS: Final = ("poisson .9", "drift .9")


class DallyTunerCard(Card):
    """Timers of Dally (after the authors' simulator): our learned tuner, the hand tuner, and static timers."""

    title = "Delay timers of Dally: learned (our extension), tuned by hand, and static; paired over test seeds"

    def runs(self, quick: bool) -> list[Run]:
        """All contenders on 20 test seeds; ``quick`` = two problems on two of them."""
        seeds = TEST_SEEDS[:QUICK_SEEDS] if quick else TEST_SEEDS
        labels = QUICK_PROBLEMS if quick else PROBLEMS
        contest = [run for seed in seeds for label in labels for run in contests(label, seed)]
        return contest + [run for seed in seeds for label in SANITY for run in sanity(label, seed)]

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the ratios to the hand tuner, and the cost of choosing timers."""
        return all_tables(results)

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check each criterion on each problem."""
        return all_verdicts(results)

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw the ratios with their intervals."""
        from gpusched_env.reproduce.dally_tuner.figures import draw_ratios

        return draw_ratios(results, folder)
