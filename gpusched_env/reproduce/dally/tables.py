"""Tables: the paper's headline claims beside our ratios, every cell, the two sweeps, and the orders of machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpusched_env.reproduce.dally.authors import AUTHORS_CELLS, AUTHORS_POLICIES
from gpusched_env.reproduce.dally.cells import (
    LARGE,
    LOADS,
    SCENARIOS,
    SUITE,
    TOPS,
    USUAL,
    Cell,
    Conditions,
    by_cost,
    by_load,
)
from gpusched_env.reproduce.dally.comparing import sweep
from gpusched_env.reproduce.dally.policies import ORDERS, POLICIES, VARIANTS, Policy, labels
from gpusched_env.reproduce.dally.published import CLAIMS, Claim
from gpusched_env.reproduce.report import as_change, mean_and_half_width, new_table
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

HOUR: Final = 3_600.0  # [s]
PERCENT: Final = 0.01


class Shown(NamedTuple):
    """A column: heading, metric and unit."""

    heading: str
    metric: str
    unit: float


JCT: Final = Shown("mean JCT \\[h]", "mean_jct_s", HOUR)
COMMUNICATION: Final = Shown("comm. \\[h a job]", "mean_communication_s", HOUR)
COLUMNS: Final = (
    JCT,
    Shown("p99 JCT \\[h]", "p99_jct_s", HOUR),
    Shown("makespan \\[h]", "makespan_s", HOUR),
    Shown("queueing \\[h]", "mean_queueing_s", HOUR),
    COMMUNICATION,
    Shown("comm. \\[%]", "communication_share", PERCENT),
    Shown("across racks \\[%]", "network_share", PERCENT),
    Shown("preemptions a job", "preemptions_per_job", 1.0),
)


def all_tables(results: Results) -> list[Table]:
    """Return every table, without those that would be empty."""
    tables = [_headline(results, claim, "dally", SUITE, POLICIES) for claim in CLAIMS]
    tables += [_headline(results, claim, "dally", AUTHORS_CELLS, AUTHORS_POLICIES) for claim in CLAIMS]
    tables += [_cell(results, cell, POLICIES) for cell in (*USUAL, *LARGE)]
    tables += [_cell(results, cell, AUTHORS_POLICIES) for cell in AUTHORS_CELLS]
    for shown in (JCT, COMMUNICATION):
        for scenario in SCENARIOS:
            headings = [f"{cell.cost:g}:1" for cell in by_cost(scenario)]
            title = f"{shown.heading}, {scenario}, by oversubscription (20:1 = 4:1, congested)"
            tables.append(_by_axis(results, title, shown, dict(zip(headings, by_cost(scenario), strict=True))))
        for top in TOPS:
            headings = [f"load {load:g}" for load in LOADS]
            title = f"{shown.heading}, poisson, {top} top, by load"
            tables.append(_by_axis(results, title, shown, dict(zip(headings, by_load(top), strict=True))))
    tables.append(_orders(results, USUAL, VARIANTS))
    tables.append(_orders(results, AUTHORS_CELLS, AUTHORS_POLICIES))
    return [table for table in tables if table.row_count]


def _headline(
    results: Results, claim: Claim, policy: str, cells: Sequence[Conditions], policies: Mapping[str, Policy]
) -> Table:
    cells = [cell for cell in cells if cell.congested or not claim.congested]
    where = "in the suite's scenarios" if policies is POLICIES else "after the authors' simulator"
    title = (
        f"Change of {claim.what}, {policies[policy].heading} against others, {where}.\n"
        f"Paper: up to {100 * claim.change:.0f} % against consolidating schedulers, in its simulator, on its traces"
    )
    table = new_table(title, "against", "mean", "cells", "best cell", "", "worst cell", "", "best run")
    for rival, (heading, _) in policies.items():
        found = sweep(results, claim.metric, cells, policy, rival)
        if rival != policy and found is not None:
            (best, at_best), (worst, at_worst) = found.best, found.worst
            run = f"{100 * (found.best_run - 1):+.0f} %"
            table.add_row(
                heading, as_change(found.mean), str(found.cells), as_change(at_best), str(best), as_change(at_worst),
                str(worst), run,                end_section=rival == list(VARIANTS)[-1],
            )  # fmt: skip
    return table


def _cell(results: Results, cell: Conditions, policies: Mapping[str, Policy]) -> Table:
    table = new_table(str(cell), "", *(shown.heading for shown in COLUMNS))
    for policy, (heading, _) in policies.items():
        own = labels(cell, policy)
        cells = [mean_and_half_width(results, shown.metric, shown.unit, **own) for shown in COLUMNS]
        if any(cells):
            table.add_row(heading, *cells, end_section=policy == list(VARIANTS)[-1])
    return table


def _by_axis(results: Results, title: str, shown: Shown, cells: dict[str, Cell]) -> Table:
    known = {heading: cell for heading, cell in cells.items() if results.where(**labels(cell, "dally")).runs}
    table = new_table(title, "", *known)
    if len(known) > 1:
        for policy, (heading, _) in POLICIES.items():
            own = [labels(cell, policy) for cell in known.values()]
            row = [mean_and_half_width(results, shown.metric, shown.unit, **each) for each in own]
            if any(row):
                table.add_row(heading, *row, end_section=policy == list(VARIANTS)[-1])
    return table


def _orders(results: Results, cells: Sequence[Conditions], policies: Mapping[str, Policy]) -> Table:
    """Mean JCT with machines visited in both orders, and whether the ranking changes."""
    results = results.of_seeds_of(results.where(order=ORDERS[-1]))
    title = f"Mean JCT \\[h] with machines visited in ascending and in hash order, {len(results.seeds)} seeds"
    table = new_table(title, "", *(heading for heading, _ in policies.values()), "ranking")
    for cell in cells:
        means = {order: _means(results, cell, list(policies), order) for order in ORDERS}
        if any(np.isnan(values).all() for values in means.values()):
            continue
        rankings = {tuple(np.argsort(values, kind="stable")) for values in means.values()}
        for order, values in means.items():
            written = ["" if np.isnan(value) else f"{value / HOUR:.2f}" for value in values]
            verdict = "" if order == ORDERS[0] else "same" if len(rankings) == 1 else "changes"
            table.add_row(f"{cell}, {order}", *written, verdict, end_section=order == ORDERS[-1])
    return table


def _means(results: Results, cell: Conditions, policies: Sequence[str], order: str) -> Sequence[float]:
    """Return the mean JCT of each policy [s]; NaN = the policy has no runs."""
    found = [results.values("mean_jct_s", **labels(cell, policy, order)) for policy in policies]
    return [float(values.mean()) if len(values) else np.nan for values in found]
