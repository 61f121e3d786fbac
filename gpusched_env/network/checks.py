"""Check the numbers of a topology; an error names the field and the allowed range."""

from __future__ import annotations

from typing import Final

from gpusched_env.errors import ScenarioError

MOST: Final = 1e12  # largest rate, latency or ratio; the product of two such numbers is finite
MOST_COUNT: Final = 1_000_000


def check_number(value: object, where: str, least: float = 0.0, positive: bool = False, most: float = MOST) -> float:
    """Return ``value`` as a float; it must be at least ``least`` (above 0 if ``positive``) and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
        raise ScenarioError(f"{where} is {_told(value)}: it must be a number of at most {most:g}")
    if value < least or (positive and value == 0):
        raise ScenarioError(f"{where} is {value!r}: it must be {'above 0' if positive else f'at least {least:g}'}")
    return float(value)


def check_count(value: object, where: str) -> int:
    """Return ``value``, which must be a whole number from 1 to MOST_COUNT."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_COUNT:
        raise ScenarioError(f"{where} is {_told(value)}: it must be a whole number from 1 to {MOST_COUNT}")
    return value


def _told(value: object) -> str:
    return "missing" if value is None else repr(value)
