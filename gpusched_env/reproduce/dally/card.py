"""Variants of Dally and their rivals over scenarios, costs of the top tier and loads, and hazards to the results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.dally.authors import AUTHORS_CELLS, AUTHORS_POLICIES, AuthorsCell
from gpusched_env.reproduce.dally.cells import EVERYONES, OTHER_COSTS, SCENARIOS, USUAL, Cell, Conditions
from gpusched_env.reproduce.dally.hazards import hazard_runs
from gpusched_env.reproduce.dally.measures import measure
from gpusched_env.reproduce.dally.more_hazards import Measured, more_hazard_runs
from gpusched_env.reproduce.dally.policies import FEW, HASH, POLICIES, VARIANTS, add_parameters, labels, spec
from gpusched_env.reproduce.dally.tables import all_tables
from gpusched_env.reproduce.dally.targets import all_targets
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

    from gpusched_env.event_log import EventLog
    from gpusched_env.problem.instance import Instance
    from gpusched_env.scenarios import Scenario

FIRST_SEED: Final = 200_000  # first seed for reports: nothing was trained or chosen on these seeds
SEEDS: Final = 10
SIDE_SEEDS: Final = 5  # number of seeds for side results, which are hazards and the other order of machines
QUICK_SEEDS: Final = 2
QUICK_JOBS: Final = 250
QUICK_AUTHORS_JOBS: Final = 100  # a small number, because these runs have thousands of leases
QUICK_CELLS: Final = (*(Cell(scenario, "congested") for scenario in SCENARIOS), Cell("poisson"))


class DallyCard(Card):
    """Dally after its authors' simulator, in the suite's scenarios."""

    title = "Dally (arXiv 2401.16492), after its authors' simulator: means over seeds ± half of the 95 % interval"

    def runs(self, quick: bool) -> list[Run]:
        """All policies on ten draws, side results on five; ``quick`` = two shorter draws of a few cells."""
        problems: dict[Conditions, Scenario] = {}
        found = []
        for number in range(QUICK_SEEDS if quick else SEEDS):
            sides = (*_orders(quick), *hazard_runs(quick)) if number < SIDE_SEEDS else ()
            played: list[Measured] = [(*each, None) for each in (*_suite(quick), *_authors(quick), *sides)]
            for where, own, written, own_measure in (*played, *(more_hazard_runs() if number < SIDE_SEEDS else ())):
                if where not in problems:
                    problems[where] = _problem(where, quick)
                found.append(Run(problems[where], written, FIRST_SEED + number, own, own_measure))
        return found

    def measure(self, instance: Instance, log: EventLog) -> dict[str, float]:
        """Measure communication in seconds, tiers, and percentiles of JCT."""
        return measure(instance, log)

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the claims beside our ratios, every cell, sweeps, and orders of machines."""
        return all_tables(results)

    def findings(self, results: Results) -> Sequence[Finding]:
        """Check the directional targets."""
        return all_targets(results)

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw claims, sweeps, distributions and hazards."""
        from gpusched_env.reproduce.dally.figures import draw_all

        return draw_all(results, folder)


Played = tuple[Conditions, dict[str, Any], str]


def _problem(where: Conditions, quick: bool) -> Scenario:
    """Build the scenario; with ``quick`` it has fewer jobs."""
    if quick and isinstance(where, Cell):
        return dataclasses.replace(where, jobs=QUICK_JOBS).problem()
    if quick and isinstance(where, AuthorsCell):
        return dataclasses.replace(where, jobs=QUICK_AUTHORS_JOBS).problem()
    return where.problem()


def _suite(quick: bool) -> Iterator[Played]:
    """Yield the runs of all policies in the suite's cells."""
    played = [(where, policy) for where in (QUICK_CELLS if quick else EVERYONES) for policy in POLICIES]
    played += [(where, policy) for where in (() if quick else OTHER_COSTS) for policy in FEW]
    for where, policy in played:
        yield where, labels(where, policy), spec(policy)


def _orders(quick: bool) -> Iterator[Played]:
    """Yield the runs with the other order of machines, for the policies that have an order."""
    for where in QUICK_CELLS[:1] if quick else USUAL:
        for policy in VARIANTS:
            yield where, labels(where, policy, HASH), spec(policy, HASH)
    for each in AUTHORS_CELLS[:2] if quick else AUTHORS_CELLS:
        for policy, (_, written) in AUTHORS_POLICIES.items():
            yield each, labels(each, policy, HASH), add_parameters(written, {"order": HASH})


def _authors(quick: bool) -> Iterator[Played]:
    """Yield the runs of all policies in the authors' simulator."""
    for where in AUTHORS_CELLS[:2] if quick else AUTHORS_CELLS:
        for policy, (_, written) in AUTHORS_POLICIES.items():
            yield where, labels(where, policy), written
