"""Findings: which trends of the paper hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.results import Results
from gpusched_env.reproduce.sjf_bco.published import KAPPAS, POLICIES, SERVERS
from gpusched_env.reproduce.sjf_bco.settings import SETTINGS, Setting, fixed, plain, searched

MOST = 0.75  # fraction of the draws on which a claim must hold


def all_trends(results: Results) -> list[Finding]:
    """Check each trend in each setting."""
    return [finding for setting in SETTINGS for finding in _trends(results, setting)]


def _trends(results: Results, setting: Setting) -> Iterator[Finding]:
    def say(claim: str, holds: bool, numbers: str) -> Finding:
        return Finding(claim, str(setting), bool(holds), numbers)

    makespan = [results.median("makespan_s", **searched(setting, policy)) for policy in POLICIES]
    written = " ".join(f"{value:.0f}" for value in makespan)
    yield say("20 servers: makespan SJF-BCO <= LS <= FF <= RAND", makespan == sorted(makespan), written)
    own, ls = (results.values("makespan_s", **searched(setting, policy)) for policy in ("sjf-bco", "bco-ls"))
    yield say("20 servers: SJF-BCO <= LS on three draws in four", *_often(own <= ls))
    yield say("20 servers: RAND is the worst", makespan[-1] == max(makespan), written)

    by_kappa = {kappa: results.values("makespan_s", **fixed(setting, kappa)) for kappa in KAPPAS}
    medians = {kappa: float(np.median(values)) for kappa, values in by_kappa.items() if len(values)}
    best = min(medians, key=lambda kappa: medians[kappa])
    yield say(
        "figure 5: the best kappa is at most 8, and 32 is worse",
        best <= 8 and medians[32] > medians[best],
        f"best at {best}: {medians[best]:.0f}; 32: {medians[32]:.0f}",
    )
    yield say(
        "the best kappa is at most 4, and with 8 gangs of 8 join the small ones: worse than 4 on three draws in four",
        best <= 4 and _often(by_kappa[8] > by_kappa[4])[0],
        f"best at {best}; {medians[4]:.0f} to {medians[8]:.0f}, {_often(by_kappa[8] > by_kappa[4])[1]}",
    )
    first, last = (results.values("makespan_s", **fixed(setting, 1, lambda_)) for lambda_ in (1, 8))
    holds, numbers = _often(last <= first)
    yield say(
        "figure 7: lambda = 8 is at most lambda = 1 on three draws in four",
        holds,
        f"{np.median(first):.0f} to {np.median(last):.0f}, {numbers}",
    )
    few = [results.median("makespan_s", **searched(setting, policy, SERVERS[0])) for policy in POLICIES]
    ratios = [slow / fast for slow, fast in zip(few, makespan, strict=True)]
    yield say(
        "figure 6: every policy is slower on 10 servers than on 20 (paper: x 1.76 1.95 1.95 1.32)",
        min(ratios) > 1,
        "x " + " ".join(f"{ratio:.2f}" for ratio in ratios),
    )
    least = [results.median("min_jct_s", **searched(setting, policy)) for policy in ("sjf-bco", "bco-ls")]
    yield say(
        "least completion of SJF-BCO and LS is 14 to 20 slots",
        all(14 <= value <= 20 for value in least),
        " ".join(f"{value:.0f}" for value in least),
    )
    fifo = results.values("makespan_s", **plain(setting.extra, "fifo"))
    holds, numbers = _often(own <= fifo)
    yield say(
        "not in the paper: SJF-BCO is at most FIFO with best fit on three draws in four",
        holds,
        f"{np.median(own):.0f} against {np.median(fifo):.0f}, {numbers}",
    )


def _often(draws: np.ndarray) -> tuple[bool, str]:
    """Return whether a claim holds on at least the fraction MOST of the draws, and a text with their number."""
    return draws.mean() >= MOST, f"on {draws.sum()} of {len(draws)}"
