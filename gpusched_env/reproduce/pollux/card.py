"""The simulations of Pollux's evaluation that its authors store: six workloads, interference, and other loads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpusched_env.reproduce.card import Card, Finding, Run
from gpusched_env.reproduce.pollux.published import AT_LOAD_S, CROWDED, LOADS, MEAN_JCT_S, POLICIES, WORKLOADS
from gpusched_env.reproduce.pollux.settings import SCHEDULERS, scenario
from gpusched_env.reproduce.report import new_table
from gpusched_env.reproduce.results import Results

if TYPE_CHECKING:
    from rich.table import Table

SEED: Final = 0
QUICK: Final = WORKLOADS[:2]
ON_AVERAGE, ON_EACH = 0.03, 0.08  # tolerances of the mean JCT, which are our choice


class PolluxCard(Card):
    """Mean JCT of Pollux, Optimus and Tiresias on the authors' workloads, at the authors' measured speeds."""

    title = "Pollux (OSDI 2021): mean JCT in seconds of 160 jobs on 64 T4, published and ours"

    def runs(self, quick: bool) -> list[Run]:
        """All policies on six workloads and at three more loads; ``quick`` = on two workloads, without interference.

        Raises
        ------
        GpuschedError : a workload is not in the folder of fetched files
        """
        cells = [(policy, workload, 1.0) for workload in (QUICK if quick else WORKLOADS) for policy in POLICIES]
        if not quick:
            cells += [(CROWDED, workload, 1.0) for workload in WORKLOADS]
            cells += [(policy, 1, load) for load in LOADS for policy in POLICIES]
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
        played = [w for w in WORKLOADS if not math.isnan(_ours(results, "pollux", w))]
        table = new_table("Mean JCT \\[s] by workload", "", *map(str, played), "mean")
        for policy, stored in MEAN_JCT_S.items():
            told = [stored[w - 1] for w in played]
            ours = [_ours(results, policy, w) for w in played]
            if not any(map(math.isnan, ours)):
                _add(table, policy, [*told, _mean(told)], [*ours, _mean(ours)])
        loads = [load for load in LOADS if not math.isnan(_ours(results, "pollux", 1, load))]
        if not loads:
            return [table]
        others = new_table("Mean JCT \\[s] of workload 1 by load", "", *(f"{load:g}" for load in loads))
        for policy, stored in AT_LOAD_S.items():
            _add(others, policy, list(stored), [_ours(results, policy, 1, load) for load in loads])
        return [table, others]

    def findings(self, results: Results) -> Sequence[Finding]:
        """Return which policies are near the published values, and whether their ranks and ratios are equal."""
        return [*_near(results), *_ranks(results), *_ratios(results)]

    def draw(self, results: Results, folder: Path) -> Sequence[Path]:
        """Draw the mean JCT of each policy on each workload, ours and published."""
        from gpusched_env.reproduce.pollux.figures import draw_all

        return draw_all(results, folder)


def _ours(results: Results, policy: str, workload: int, load: float = 1.0) -> float:
    return results.median("mean_jct_s", policy=policy, workload=workload, load=load)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _add(table: Table, policy: str, told: list[float], ours: list[float]) -> None:
    table.add_row(f"{policy}, published", *(f"{value:,.0f}" for value in told))
    table.add_row("ours", *(f"{value:,.0f}" for value in ours))
    changes = (f"{100 * (own / value - 1):+.1f} %" for own, value in zip(ours, told, strict=True))
    table.add_row("difference", *changes, end_section=True)


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
