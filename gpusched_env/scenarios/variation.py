"""The distribution from which a scenario that varies draws the problem of each seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.portable import draws
from gpusched_env.problem.cluster import NodeGroup

Range = tuple[float, float]

# Gang sizes of small and of large jobs [GPU], and their shares; gangs above a third of the cluster are left out.
SMALL_GANGS: Final = {"1": 0.5, "2": 0.25, "4": 0.25}
LARGE_GANGS: Final = {"8": 0.6, "16": 0.3, "32": 0.1}
LARGEST_SHARE: Final = 3  # GPUs of the cluster / GPUs of the largest gang, at least
_HIGHEST: Final[Mapping[str, float]] = {"large_share": 1.0, "swing": 1.0}  # no limit for the other ranges
_WORD: Final = (1 << 64) - 1
_POSITIVE: Final = ("oversubscription", "load", "mean_duration_s")


@dataclass(frozen=True)
class Variation:
    """What a scenario draws for each seed: uniformly among choices, or uniformly in a range.

    Every draw is independent of the others. It depends on the seed alone, not on the machine.

    Parameters
    ----------
    racks : choices of the number of racks
    rack_nodes : choices of the nodes per rack
    node_gpus : choices of the GPUs per node
    gpu_types : choices of lists of GPU types; all nodes of a rack have one type, and types divide the racks evenly
    oversubscription : choices of the summed rate of a rack's servers / summed rate of its uplinks
    load : range of the offered load
    swing : range of the burstiness of arrivals: the rate alternates between 1 - swing and 1 + swing times its mean
    mean_duration_s : range of the mean ideal run time of a job [s]
    large_share : range of the share of jobs with a large gang, of LARGE_GANGS; the others have one of SMALL_GANGS.
        Gangs above a third of the cluster are then left out
    checkpoint_s : range of the duration of a checkpoint [s]
    restore_s : range of the duration of a restore [s]
    """

    racks: tuple[int, ...] = (3, 4, 6)
    rack_nodes: tuple[int, ...] = (2, 4)
    node_gpus: tuple[int, ...] = (4, 8)
    gpu_types: tuple[tuple[str, ...], ...] = (("A100",), ("A100", "T4"), ("A100", "RTX2080Ti", "T4"))
    oversubscription: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    load: Range = (0.6, 1.5)
    swing: Range = (0.0, 0.95)
    mean_duration_s: Range = (1_800.0, 14_400.0)
    large_share: Range = (0.0, 0.4)
    checkpoint_s: Range = (0.0, 60.0)
    restore_s: Range = (0.0, 60.0)

    def __post_init__(self) -> None:
        """Check every field."""
        for item in fields(self):
            name, given = item.name, getattr(self, item.name)
            lists = [given, *(given if name == "gpu_types" and isinstance(given, list | tuple) else ())]
            if not all(isinstance(one, list | tuple) for one in lists):
                example = "(0.6, 0.9)" if name in RANGES else repr(getattr(Variation, name)[:1])
                raise ScenarioError(f"variation.{name} is {given!r}: give a tuple, such as {example}")
            given = tuple(given)
            if name == "gpu_types":
                given = tuple(map(tuple, given))
            object.__setattr__(self, name, given)
            if name in RANGES:
                self._check_range(name, given)
            elif not given or len(set(given)) < len(given):
                raise ScenarioError(f"variation.{name} is {given!r}: give at least one choice, each once")
        for name in ("racks", "rack_nodes", "node_gpus"):
            for count in getattr(self, name):
                if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                    raise ScenarioError(f"variation.{name} has {count!r}: give whole numbers of at least 1")
        for types in self.gpu_types:
            if not 1 <= len(set(types)) == len(types) <= min(self.racks):
                raise ScenarioError(
                    f"variation.gpu_types has {types!r}: give different types, at most one for each of "
                    f"{min(self.racks)} racks"
                )
        for ratio in self.oversubscription:
            if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 1 <= ratio < math.inf:
                raise ScenarioError(f"variation.oversubscription has {ratio!r}: give finite numbers of at least 1")
        object.__setattr__(self, "oversubscription", tuple(map(float, self.oversubscription)))

    def _check_range(self, name: str, given: tuple[Any, ...]) -> None:
        highest = _HIGHEST.get(name, math.inf)
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in given)
        if len(given) != 2 or not numbers or not 0 <= given[0] <= given[1] <= highest or given[1] == math.inf:
            bounds = f"0 <= least <= most <= {highest:g}" if highest < math.inf else "0 <= least <= most, finite"
            raise ScenarioError(f"variation.{name} is {given!r}: give the least and the most, {bounds}")
        if name in _POSITIVE and given[0] == 0:
            raise ScenarioError(f"variation.{name} is {given!r}: the least value must be above 0")
        object.__setattr__(self, name, tuple(map(float, given)))

    # --- draws

    def drawn(self, seed: int) -> dict[str, Any]:
        """Return the value of every field for a seed."""
        uniforms = draws.of_seeds(np.array([seed & _WORD], np.uint64), len(NAMES))[0].tolist()
        found = {name: self._scaled(name, u) for name, u in zip(NAMES, uniforms, strict=True)}
        return {name: value if name in RANGES else getattr(self, name)[int(value)] for name, value in found.items()}

    def _scaled(self, name: str, uniforms: Any) -> Any:
        """Return values in a range, or the indices of choices before they are cut to whole numbers."""
        given = getattr(self, name)
        return given[0] + (given[1] - given[0]) * uniforms if name in RANGES else uniforms * len(given)

    def narrowed(self, changes: Mapping[str, Any]) -> Self:
        """Return a part of this distribution: fewer choices, or smaller ranges; ``changes`` : field -> new value."""
        for name in changes:
            if name not in NAMES:
                raise ScenarioError(f"variation: {unknown_name('parameter', name, NAMES)}")
        part = dataclasses.replace(self, **changes)
        for name in NAMES:
            whole, some = getattr(self, name), getattr(part, name)
            inside = whole[0] <= some[0] and some[1] <= whole[1] if name in RANGES else set(some) <= set(whole)
            if not inside:
                what = "a range within" if name in RANGES else "choices among"
                raise ScenarioError(f"variation.{name} is {some!r}: give {what} {whole!r}")
        return part

    def fits(self, seeds: np.ndarray, part: Self) -> np.ndarray:
        """Return whether the problem of each seed, int64 [n], lies in a part of this distribution, bool [n]."""
        uniforms = draws.of_seeds(seeds, len(NAMES))
        fitting = np.ones(len(seeds), bool)
        for column, name in enumerate(NAMES):
            whole, some = getattr(self, name), getattr(part, name)
            if some == whole:
                continue
            drawn = self._scaled(name, uniforms[:, column])
            if name in RANGES:
                fitting &= (some[0] <= drawn) & (drawn <= some[1])
            else:
                fitting &= np.array([choice in some for choice in whole])[drawn.astype(np.int64)]
        return fitting

    # --- clusters

    def largest(self) -> tuple[NodeGroup, ...]:
        """Return the node groups of the cluster with the most racks, nodes, GPUs and GPU types."""
        return node_groups(max(self.racks), max(self.rack_nodes), max(self.node_gpus), max(self.gpu_types, key=len))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return dataclasses.asdict(self)


NAMES: Final = tuple(item.name for item in fields(Variation))
RANGES: Final = ("load", "swing", "mean_duration_s", "large_share", "checkpoint_s", "restore_s")


def node_groups(racks: int, rack_nodes: int, node_gpus: int, gpu_types: tuple[str, ...]) -> tuple[NodeGroup, ...]:
    """Return the node groups of a cluster of equal racks; the racks of a type are consecutive."""
    edges = [racks * i // len(gpu_types) for i in range(len(gpu_types) + 1)]
    return tuple(
        NodeGroup((end - first) * rack_nodes, node_gpus, gpu_type, nodes_per_rack=rack_nodes)
        for gpu_type, first, end in zip(gpu_types, edges[:-1], edges[1:], strict=True)
    )


def gang_shares(large_share: float) -> dict[str, float]:
    """Return the share of each gang size, as text, if ``large_share`` of the jobs have a large gang."""
    small = {size: share * (1.0 - large_share) for size, share in SMALL_GANGS.items()}
    return small | {size: share * large_share for size, share in LARGE_GANGS.items()}
