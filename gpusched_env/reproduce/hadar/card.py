"""Hadar against Gavel on three GPU types, and HadarE against single copies of jobs on a few nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.hadar.settings import (
    FIRST_SEED,
    FULL,
    NODES,
    PLAYERS,
    POLICIES,
    QUICK,
    SETTINGS,
    SLOT_MIXES,
    SLOTS_S,
    Extent,
    family_name,
    of_mix,
    of_policy,
    of_slot,
)
from gpusched_env.reproduce.hadar.tables import all_tables
from gpusched_env.reproduce.hadar.trends import all_trends
from gpusched_env.reproduce.results import Results
from gpusched_env.scenarios import get_scenario

if TYPE_CHECKING:
    from rich.table import Table


class HadarCard(Card):
    """The claims of both abstracts, and the bands in which a reconstruction should lie."""

    title = "Hadar and HadarE (reconstructions): means and medians over seeds; factors are paired by seed"

    def runs(self, quick: bool) -> list[Run]:
        """All policies, rivals and slot lengths; ``quick`` = fewer jobs, GPUs, mixes and seeds."""
        extent = QUICK if quick else FULL
        return [*_of_policies(extent), *_of_mixes(extent), *_of_slots(extent)]

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the claims beside our results by utility, the policies, HadarE's factors, and slot lengths."""
        return all_tables(results)

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check each claim and each band."""
        return all_trends(results)

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw total duration against JCT, HadarE's factors, and slot lengths."""
        from gpusched_env.reproduce.hadar.figures import draw_all

        return draw_all(results, folder)


def _of_policies(extent: Extent) -> Iterator[Run]:
    for setting, parameters in SETTINGS.items():
        problem = get_scenario(family_name("hadar-60gpu-v1", [*extent.problem, *parameters]))
        for seed in range(FIRST_SEED, FIRST_SEED + extent.seeds):
            for policy, spec in POLICIES.items():
                yield Run(problem, spec, seed, of_policy(setting, policy))


def _of_mixes(extent: Extent) -> Iterator[Run]:
    for cluster in NODES:
        for jobs in extent.mixes:
            problem = get_scenario(f"hadare-{cluster}-v0:jobs={jobs}")
            for seed in range(FIRST_SEED, FIRST_SEED + extent.mix_seeds):
                for player, spec in PLAYERS.items():
                    yield Run(problem, spec, seed, of_mix(cluster, jobs, player))


def _of_slots(extent: Extent) -> Iterator[Run]:
    for jobs in SLOT_MIXES:
        if jobs in extent.mixes:
            problem = get_scenario(f"hadare-lab-v0:jobs={jobs}")
            for seed in range(FIRST_SEED, FIRST_SEED + extent.mix_seeds):
                for slot_s in SLOTS_S:
                    yield Run(problem, f"hadare:slot_s={slot_s}", seed, of_slot(jobs, slot_s))
