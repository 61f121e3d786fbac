"""Findings: whether each criterion of the protocol holds on each problem (docs/delay_timers.md, Protocol)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpusched_env.metrics import Interval
from gpusched_env.reproduce.card import Finding
from gpusched_env.reproduce.dally_tuner.contenders import FREE, HAND, LEARNED, NO_WAIT, PROBLEMS, SANITY, best_static
from gpusched_env.reproduce.dally_tuner.problems import NON_STATIONARY, STATIONARY
from gpusched_env.reproduce.dally_tuner.ratios import P99, problems, ratio, written
from gpusched_env.reproduce.results import Results

WITHIN: Final = 0.02  # maximum relative excess over the best static timers on stationary problems
MARGIN: Final = 0.05  # maximum relative excess over noWait, and also the required gain over the hand tuner
SANE: Final = {"insensitive": 0.01, "lone gangs": 0.02}


def all_verdicts(results: Results) -> list[Finding]:
    """Check each criterion on each problem."""
    found = [finding for label in problems(results, PROBLEMS) for finding in _verdicts(results, label)]
    for label in problems(results, tuple(SANITY)):
        reference = SANITY[label]
        own = ratio(results, label, LEARNED, reference)
        claim = f"sanity: within {SANE[label]:.0%} of {reference}"
        found.append(Finding(claim, label, abs(own.mean - 1.0) <= SANE[label], written(own)))
    return found


def _verdicts(results: Results, label: str) -> Iterator[Finding]:
    def say(claim: str, holds: bool, interval: Interval) -> Finding:
        return Finding(claim, label, bool(holds), written(interval))

    static = best_static(label)
    hand = ratio(results, label, LEARNED, HAND)
    yield say("(a) beats the hand tuner: upper bound below 1", hand.high < 1.0, hand)
    ceiling = ratio(results, label, FREE, HAND)
    yield say(
        f"possible: even a network that costs nothing is {MARGIN:.0%} below the hand tuner",
        ceiling.mean <= 1.0 - MARGIN,
        ceiling,
    )
    if label in NON_STATIONARY:
        yield say(f"asked for: {MARGIN:.0%} below the hand tuner", hand.mean <= 1.0 - MARGIN, hand)
    else:
        yield say("asked for: not above the hand tuner", hand.mean <= 1.0, hand)
    own = ratio(results, label, LEARNED, static)
    if label in STATIONARY:
        yield say(f"(b) stationary: within {WITHIN:.0%} of the best static timers", own.mean <= 1.0 + WITHIN, own)
    if label in NON_STATIONARY:
        yield say("(c) non-stationary: upper bound below 1 against the best static timers", own.high < 1.0, own)
    no_wait = ratio(results, label, LEARNED, NO_WAIT)
    yield say(f"(d) at most {MARGIN:.0%} worse than noWait", no_wait.mean <= 1.0 + MARGIN, no_wait)
    tail = ratio(results, label, LEARNED, HAND, P99)
    yield say("p99 not above that of the hand tuner", tail.mean <= 1.0, tail)
