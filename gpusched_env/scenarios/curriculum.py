"""A curriculum: which part of a scenario's variation an agent trains on, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from gpusched_env.errors import ScenarioError
from gpusched_env.scenarios.family import distinct, pairs
from gpusched_env.scenarios.variation import NAMES, RANGES


@dataclass(frozen=True)
class Curriculum:
    """A schedule over the parameters of a variation.

    Parameters
    ----------
    stages : pairs (share of the training at which the stage ends, ranges), by ascending share. Ranges are fields of
        :class:`~gpusched_env.scenarios.Variation` with fewer choices or smaller ranges; fields that a stage leaves out
        have all their values. After the last stage, all problems are drawn
    """

    stages: tuple[tuple[float, Mapping[str, Any]], ...] = ()

    def __post_init__(self) -> None:
        """Check the shares."""
        ends = [0.0, *(end for end, _ in self.stages)]
        if ends != sorted(set(ends)) or not ends[-1] <= 1.0:
            raise ScenarioError(f"curriculum: stages end at {ends[1:]}; give ascending shares above 0, at most 1")

    def at(self, share: float) -> Mapping[str, Any]:
        """Return the ranges at a share of the training, for ``train_on``; empty = all problems."""
        return next((ranges for end, ranges in self.stages if share < end), {})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``SHARE:name=value,...`` for each stage, with semicolons between stages.

        A range is written ``0.6..0.9``; choices have slashes between them, and GPU types of one choice a plus:
        ``0.3:racks=3,load=0.6..0.9;0.6:racks=3/4,gpu_types=A100/A100+T4``. An empty text has no stage.
        """
        stages = []
        for stage in filter(None, text.split(";")):
            end, _, ranges = stage.partition(":")
            where = f"curriculum {stage!r}"
            given = distinct(pairs(ranges, where), where)
            try:
                values = {name: _value(name, value) for name, value in given.items()}
                stages.append((float(end), values))
            except ValueError:
                raise ScenarioError(
                    f"{where}: write SHARE:name=value,..., such as 0.3:racks=3/4,load=0.6..0.9; names: "
                    f"{', '.join(NAMES)}"
                ) from None
        return cls(tuple(stages))


def _value(name: str, text: str) -> tuple[Any, ...]:
    """Return the value of a field; raise ValueError if the text does not fit."""
    if name in RANGES:
        least, _, most = text.partition("..")
        return float(least), float(most)
    choices = text.split("/")
    if name == "gpu_types":
        return tuple(tuple(choice.split("+")) for choice in choices)
    return tuple(map(float if name == "oversubscription" else int, choices))
