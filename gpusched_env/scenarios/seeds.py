"""Disjoint ranges of seeds for training, for validation and for reports."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields

from gpusched_env.errors import ScenarioError


@dataclass(frozen=True)
class Seeds:
    """Half-open ranges ``(first, last + 1)`` of seeds.

    Parameters
    ----------
    train : seeds for training agents
    validation : seeds for choosing between checkpoints and settings
    report : seeds for published numbers
    """

    train: tuple[int, int] = (0, 100_000)
    validation: tuple[int, int] = (100_000, 100_020)
    report: tuple[int, int] = (200_000, 200_020)

    def __post_init__(self) -> None:
        """Check the ranges."""
        ranges: dict[str, tuple[int, int]] = {field.name: tuple(getattr(self, field.name)) for field in fields(self)}
        for name, pair in ranges.items():
            if len(pair) != 2 or any(isinstance(x, bool) or not isinstance(x, int) for x in pair):
                raise ScenarioError(f"seeds.{name} is {pair!r}: give two whole numbers, the first seed and the end")
            if not 0 <= pair[0] < pair[1]:
                raise ScenarioError(f"seeds.{name} is {pair!r}: it must hold a seed and begin at 0 or above")
            object.__setattr__(self, name, pair)
        for (a, first), (b, second) in itertools.combinations(ranges.items(), 2):
            if first[0] < second[1] and second[0] < first[1]:
                raise ScenarioError(f"seeds.{a} {first} and seeds.{b} {second} share a seed: make them disjoint")
