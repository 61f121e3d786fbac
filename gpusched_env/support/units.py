"""Times in readable units, for tables and figures, and the range of times. Times in files are always in seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple


class Unit(NamedTuple):
    """A unit of time: its symbol and its length [s]."""

    sign: str
    seconds: float


# [s] Latest time of a run, 3,000 years: there the clock still resolves 0.02 ms, a small part of the shortest round.
LATEST_S: Final = 1e11
BEYOND_CLOCK: Final = (
    f"the run goes on beyond {LATEST_S:g} s, the latest time of the clock; shorten its jobs, or set "
    "semantics.time_limit_s"
)
SHORTEST_S: Final = 1e-9  # [s] shortest run time: sums of 1 / run time stay finite
MOST_ITERATIONS: Final = 2.0**53  # of a job, or in a slot: whole numbers up to here are exact
UNITS: Final = (Unit("s", 1.0), Unit("min", 60.0), Unit("h", 3_600.0), Unit("d", 86_400.0))


def unit_for(seconds: Iterable[float]) -> Unit:
    """Return one unit for a column or an axis: the largest unit in which the largest value is at least 2."""
    largest = max((abs(value) for value in seconds if math.isfinite(value)), default=0.0)
    return next((unit for unit in reversed(UNITS) if largest >= 2 * unit.seconds), UNITS[0])


def metric_unit(seconds: Iterable[float]) -> Unit:
    """Return the unit of a metric in tables of results: hours, or seconds if the largest value is below 0.01 h."""
    largest = max((abs(value) for value in seconds if math.isfinite(value)), default=0.0)
    return UNITS[2] if largest == 0 or largest >= 36 else UNITS[0]


def readable(seconds: float) -> str:
    """Format a time with three significant digits and its unit (:func:`unit_for`); NaN and inf give a dash."""
    if not math.isfinite(seconds):
        return "-"
    unit = unit_for([seconds])
    return f"{three_digits(seconds / unit.seconds)} {unit.sign}"


def three_digits(value: float) -> str:
    """Format a number with three significant digits, with an exponent from 1e9 on; NaN and inf give a dash."""
    if not math.isfinite(value):
        return "-"
    if value == 0 or abs(value) >= 1e9:
        return f"{value:.3g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"
