"""Findings: which directional targets hold (docs/reproduce_dally.md).

Comparisons with rivals, claim (d), are reported in tables but have no target.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpusched_env.metrics import paired_difference
from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.dally.cells import SCENARIOS, Cell, by_cost
from gpusched_env.reproduce.dally.comparing import ratio
from gpusched_env.reproduce.dally.policies import POLICIES, labels
from gpusched_env.reproduce.report import FEWEST, as_change
from gpusched_env.reproduce.results import Results

WELL_BELOW: Final = 0.8  # a ratio is well below 1 if the upper end of its interval is below this
REPORTED: Final = ("tiresias", "tiresias-packs", "gandiva", "manual-1-2", "manual-6-12", "consolidated")
HOUR: Final = 3_600.0  # [s]


def all_targets(results: Results) -> list[Finding]:
    """Check each target in each scenario with a congested top tier."""
    return [finding for scenario in SCENARIOS for finding in _targets(results, scenario)]


def _targets(results: Results, scenario: str) -> Iterator[Finding]:
    congested = Cell(scenario, "congested")

    def say(claim: str, holds: bool, numbers: str) -> Finding:
        return Finding(claim, f"{scenario}, congested", bool(holds), numbers)

    ratio_ = ratio(results, "mean_communication_s", congested, "dally", "no-wait")
    if not ratio_.count:
        return
    yield say(
        f"(a) communication of Dally well below no wait: interval below {100 * (WELL_BELOW - 1):.0f} %",
        (ratio_.high if ratio_.count >= FEWEST else ratio_.mean) < WELL_BELOW,
        as_change(ratio_),
    )
    hours = [_communication(results, congested, policy) for policy in ("consolidated", "dally", "no-wait")]
    yield say(
        "(b) communication: fully consolidated <= Dally <= no wait",
        hours == sorted(hours),
        " ".join(f"{value:.2f}" for value in hours) + " h a job",
    )
    gaps = [_gap(results, each) for each in by_cost(scenario)]
    known = [gap for gap in gaps if len(gap)]
    if len(known) > 1:
        yield say(
            "(c) no wait - Dally in communication grows with the cost of the top tier: more at the end of the sweep "
            "than at its start, and at no step less (intervals of paired differences)",
            _grows(known[0], known[-1]) and not any(_grows(high, low) for low, high in itertools.pairwise(known)),
            " ".join(f"{gap.mean():.2f}" for gap in known) + " h a job",
        )
    for what, metric in (("makespan", "makespan_s"), ("mean JCT", "mean_jct_s")):
        for rival in REPORTED:
            found = ratio(results, metric, congested, "dally", rival)
            if found.count:
                yield say(
                    f"(d) reported, not a target: {what} of Dally below {POLICIES[rival].heading}",
                    found.mean < 1,
                    as_change(found),
                )


def _gap(results: Results, where: Cell) -> np.ndarray:
    """float64 [seeds]: communication with Dally without waits - with Dally [h/job]; empty if one has no runs."""
    free, own = (results.values("mean_communication_s", **labels(where, policy)) for policy in ("no-wait", "dally"))
    return (free - own) / HOUR if len(free) and len(own) else np.empty(0)


def _grows(before: np.ndarray, after: np.ndarray) -> bool:
    """Return whether the interval of the paired difference is above 0; with fewer than three seeds, its mean."""
    change = paired_difference(after, before)
    return (change.low if change.count >= FEWEST else change.mean) > 0


def _communication(results: Results, where: Cell, policy: str) -> float:
    """Return the mean communication over seeds [h/job]; NaN if the policy has no runs."""
    values = results.values("mean_communication_s", **labels(where, policy))
    return float(values.mean()) / HOUR if len(values) else np.nan
