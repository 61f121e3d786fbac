"""The seeds that episodes play if ``reset`` is given none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.scenarios.seeds import Seeds

TRAIN: Final = "train"
NO_SEED: Final = -1  # before the first episode


def seeds_in_order(seeds: str | Sequence[int], ranges: Seeds) -> tuple[int, int] | None:
    """Return the half-open range of the scenario's seeds that are played in order; None = training seeds are drawn."""
    if isinstance(seeds, str):
        names = (TRAIN, "validation", "report")
        if seeds not in names:
            raise ScenarioError(f"seeds: {unknown_name('range of seeds', seeds, names)}, or give (first, end)")
        return None if seeds == TRAIN else getattr(ranges, seeds)
    pair: tuple[Any, ...] = tuple(seeds) if isinstance(seeds, Sequence) else ()
    if len(pair) != 2 or any(type(one) is not int for one in pair) or not 0 <= pair[0] < pair[1]:
        raise ScenarioError(f"seeds is {seeds!r}: give a name, or the first seed and the end, 0 <= first < end")
    return pair[0], pair[1]


def next_seed(in_order: tuple[int, int], last: int, number: int = 0, environments: int = 1) -> int:
    """Return the seed of an environment's next episode; after the end of the range its beginning follows.

    Parameters
    ----------
    in_order : half-open range of seeds
    last : seed of the environment's last episode; NO_SEED = there is none. A seed out of the range counts as none
    number, environments : number of this environment, and of all that play the range together, in turn
    """
    first, end = in_order
    place = number if not first <= last < end else last - first + environments
    return first + place % (end - first)
