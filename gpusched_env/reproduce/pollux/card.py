"""The simulations of Pollux's evaluation that its authors store: six workloads, interference, and other loads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.pollux.published import (
    AT_LOAD_S,
    CROWDED,
    LOADS,
    MEAN_JCT_S,
    POLICIES,
    REALISTIC,
    REALISTIC_WORKLOADS,
    TESTBED_H,
    WORKLOADS,
)
from gpusched_env.reproduce.pollux.settings import SCHEDULERS, scenario
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

SEED: Final = 0
QUICK: Final = WORKLOADS[:2]  # of Pollux, whose runs take the longest
ON_AVERAGE, ON_EACH = 0.03, 0.08  # tolerances of the mean JCT, which are our choice


class PolluxCard(Card):
    """Mean JCT of Pollux, Optimus and Tiresias on the authors' workloads, at the authors' measured speeds."""

    title = "Pollux (OSDI 2021): mean JCT in seconds of 160 jobs on 64 T4, published and ours"

    def runs(self, quick: bool) -> list[Run]:
        """All policies on six workloads, three more loads and two realistic workloads.

        Parameters
        ----------
        quick : True = one load, and Pollux on two workloads

        Raises
        ------
        GpuschedError : a workload is not in the folder of fetched files
        """
        cells: list[tuple[str, int, float | str]] = [
            (policy, workload, 1.0)
            for workload in WORKLOADS
            for policy in POLICIES
            if not quick or policy != "pollux" or workload in QUICK
        ]
        if not quick:
            cells += [(CROWDED, workload, 1.0) for workload in WORKLOADS]
            cells += [(policy, 1, load) for load in LOADS for policy in POLICIES]
            cells += [(policy, workload, REALISTIC) for workload in REALISTIC_WORKLOADS for policy in POLICIES]
        return [
            Run(
                scenario(policy, workload, load),
                SCHEDULERS[policy],
                SEED,
                {"policy": policy, "workload": workload, "load": load},
            )
            for policy, workload, load in cells
        ]

    def tables(self, results: Results) -> Sequence[Table]:
        """Return the mean JCT by workload, and by load: published, ours, and the difference."""
        table = new_table("Mean JCT \\[s] by workload", "", *map(str, WORKLOADS), "mean")
        for policy, stored in MEAN_JCT_S.items():
            ours = [_ours(results, policy, w) for w in WORKLOADS]
            known = [at for at, value in enumerate(ours) if not math.isnan(value)]
            if known:
                means = [_mean([values[at] for at in known]) for values in (stored, ours)]
                _add(table, policy, [*stored, means[0]], [*ours, means[1]])
        loads = [load for load in LOADS if not math.isnan(_ours(results, "pollux", 1, load))]
        if not loads:
            return [table]
        others = new_table("Mean JCT \\[s] of workload 1 by load", "", *(f"{load:g}" for load in loads))
        for policy, stored in AT_LOAD_S.items():
            _add(others, policy, list(stored), [_ours(results, policy, 1, load) for load in loads])
        return [table, others, *_realistic(results)]

    def findings(self, results: Results) -> Sequence[Finding]:
        """Return which policies are near the published values, and whether their ranks and ratios are equal."""
        return [*_near(results), *_ranks(results), *_ratios(results)]

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw the mean JCT of each policy on each workload, ours and published."""
        from gpusched_env.reproduce.pollux.figures import draw_all

        return draw_all(results, folder)


def _ours(results: Results, policy: str, workload: int, load: float | str = 1.0) -> float:
    return results.median("mean_jct_s", policy=policy, workload=workload, load=load)


def _realistic(results: Results) -> list[Table]:
    """Return the mean JCT on workloads whose jobs request the GPUs of the log, and its ratio to that of Pollux.

    The last column has the published values, which were measured on a cluster, for workload 6.
    """
    known = [w for w in REALISTIC_WORKLOADS if not math.isnan(_ours(results, "pollux", w, REALISTIC))]
    if not known:
        return []
    table = new_table("Mean JCT \\[s] of realistic workloads", "", *map(str, known), "6, on the authors' cluster")
    for policy in POLICIES:
        ours = {w: _ours(results, policy, w, REALISTIC) for w in known}
        ratios = {w: value / _ours(results, "pollux", w, REALISTIC) for w, value in ours.items()}
        told = f"{3600 * TESTBED_H[policy]:,.0f} ({TESTBED_H[policy] / TESTBED_H['pollux']:.1f})"
        table.add_row(policy, *(f"{ours[w]:,.0f} ({ratios[w]:.2f})" for w in known), told)
    return [table]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _add(table: Table, policy: str, told: list[float], ours: list[float]) -> None:
    """Add the published values, ours, and the difference; cells without runs stay empty."""
    known = [not math.isnan(value) for value in ours]
    table.add_row(f"{policy}, published", *(f"{v:,.0f}" if k else "" for v, k in zip(told, known, strict=True)))
    table.add_row("ours", *(f"{v:,.0f}" if k else "" for v, k in zip(ours, known, strict=True)))
    changes = (100 * (own / value - 1) for own, value in zip(ours, told, strict=True))
    table.add_row("difference", *("" if math.isnan(c) else f"{c:+.1f} %" for c in changes), end_section=True)


def _near(results: Results) -> Iterator[Finding]:
    for policy, stored in MEAN_JCT_S.items():
        pairs = [(_ours(results, policy, w), stored[w - 1]) for w in WORKLOADS]
        pairs = [pair for pair in pairs if not math.isnan(pair[0])]
        if not pairs:
            continue
        own, told = (_mean(values) for values in zip(*pairs, strict=True))
        worst = max((ours / value - 1 for ours, value in pairs), key=abs)
        change = own / told - 1
        numbers = f"{own:,.0f} s for {told:,.0f} s, {100 * change:+.1f} %"
        yield Finding(f"mean over the workloads within {ON_AVERAGE:.0%}", policy, abs(change) <= ON_AVERAGE, numbers)
        numbers = f"at most {100 * worst:+.1f} %, of {len(pairs)} workloads"
        yield Finding(f"each workload within {ON_EACH:.0%}", policy, abs(worst) <= ON_EACH, numbers)


def _ranks(results: Results) -> Iterator[Finding]:
    for w in WORKLOADS:
        ours = {policy: _ours(results, policy, w) for policy in POLICIES}
        if not any(map(math.isnan, ours.values())):
            told = {policy: MEAN_JCT_S[policy][w - 1] for policy in POLICIES}
            order = sorted(POLICIES, key=ours.__getitem__)
            holds = order == sorted(POLICIES, key=told.__getitem__)
            yield Finding("the policies have the published ranks", f"workload {w}", holds, " < ".join(order))


def _ratios(results: Results) -> Iterator[Finding]:
    """Compare the mean JCT of each rival / that of Pollux at each load, to one decimal."""
    for at, load in enumerate(LOADS):
        for policy in POLICIES[1:]:
            ours = _ours(results, policy, 1, load) / _ours(results, "pollux", 1, load)
            told = AT_LOAD_S[policy][at] / AT_LOAD_S["pollux"][at]
            if not math.isnan(ours):
                setting, numbers = f"{policy}, load {load:g}", f"{ours:.2f} for {told:.2f}"
                yield Finding("workload 1: worse than Pollux", setting, (ours > 1) == (told > 1), numbers)
                claim = "workload 1: mean JCT / that of Pollux, to one decimal"
                yield Finding(claim, setting, round(ours, 1) == round(told, 1), numbers)
