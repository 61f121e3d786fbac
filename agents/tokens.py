"""What a token network reads of an observation: rows of arrays as tokens of a few kinds, and pairs of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import torch

from gpusched_env.envs.actions import SLOT_ACTIONS
from gpusched_env.envs.observation.links import LINKS
from gpusched_env.envs.observation.registry import ARRAYS, find_array
from gpusched_env.envs.windows import Windows

# Kinds of tokens: axes of observation arrays. The array of the same name has one row for each token. Arrays with other
# rows describe the whole cluster.
_KINDS: Final = ("nodes", "links", "types", "tenants", "partners", "queue", "running")
CLUSTER: Final = "cluster"
SIZES: Final = "sizes"  # the sizes of elastic jobs, which are no tokens: they have columns only in the pairs


def kinds_of(name: str, columns: int = 0) -> tuple[str, ...]:
    """Return the kind of token that an array has rows for; of an array of pairs, two, of which the second may be SIZES.

    A token of the first kind sees its pairs. The links of a network priced by tiers are its tiers: these are not alike,
    so they describe the cluster, and their number of columns tells them apart.
    """
    found = find_array(name)
    if found is None or (name == "links" and columns not in (0, len(LINKS))):
        return ()
    return tuple(axis for axis in found.rows if axis in (*_KINDS, SIZES))


@dataclass(frozen=True)
class Layout:
    """The arrays that a network reads, and the actions that it chooses between.

    ``kinds`` : for each kind of token, and "cluster", the columns that each array has for one token; ``pairs`` :
    columns of each array of pairs; ``sizes`` : sub-batches that a start may name, at least 1; ``more`` : kind of the
    tokens that each of ``more_actions`` is about.
    """

    kinds: Mapping[str, Mapping[str, int]]
    pairs: Mapping[str, int]
    rules: int
    sizes: int
    waits: int
    more: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, shapes: Mapping[str, tuple[int, ...]], windows: Windows) -> Self:
        """Return the layout of an environment's observations and actions."""
        kinds: dict[str, dict[str, int]] = {}
        for name, shape in sorted(shapes.items()):
            own = kinds_of(name, shape[-1])
            if len(own) < 2:
                tokens = shapes[own[0]][0] if own else 1
                kinds.setdefault(own[0] if own else CLUSTER, {})[name] = math.prod(shape) // tokens
        names = [one.name for one in ARRAYS if one.name in shapes and len(kinds_of(one.name)) > 1]
        pairs = {name: shapes[name][1] for name in names}
        more = {name: SLOT_ACTIONS[name].slots for name in windows.more_actions}
        return cls(kinds, pairs, len(windows.rules), max(windows.sub_batches, 1), 1 + len(windows.delays_s), more)

    def columns(self, kind: str) -> int:
        """Return the number of columns of a token of this kind."""
        return sum(self.kinds[kind].values())

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, from which ``Layout(**data)`` makes an equal layout."""
        return asdict(self)

    def refusal(self, shapes: Mapping[str, tuple[int, ...]], windows: Windows) -> str:
        """Return why a network of this layout cannot play with these observations; empty = it can."""
        shown = Layout.of(shapes, windows)
        had, has = "links" in self.kinds, "links" in shown.kinds
        if had != has:
            networks = ("priced by tiers", "a topology")
            return f"trained on a network that is {networks[had]}, but this one is {networks[has]}"
        for kind in ("running", "partners"):
            if kind in shown.kinds and kind not in self.kinds:
                return f"trained without actions about {kind}, but {kind.removesuffix('s')}_window is not 0 here"
        if ("queue_sizes" in self.pairs) != ("queue_sizes" in shown.pairs):
            ways = ("jobs keep the sizes that they request", "actions choose sizes")
            return f"trained where {ways['queue_sizes' in self.pairs]}, but here {ways['queue_sizes' in shown.pairs]}"
        if self.more != shown.more:
            names = [", ".join(one.more) or "none" for one in (self, shown)]
            return f"trained with more_actions {names[0]}, but here they are {names[1]}"
        columns_here = shown._columns()
        for name, columns in self._columns().items():
            if (here := columns_here.get(name, columns)) != columns:
                return f"trained with {columns} columns of {name}, but here it has {here}"
        return ""

    def _columns(self) -> dict[str, int]:
        return {name: columns for arrays in (*self.kinds.values(), self.pairs) for name, columns in arrays.items()}

    def inputs(self, observations: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the inputs of a network: no weights take part, so training stores them instead of the observations.

        "cluster" [B, columns]; each kind [B, tokens, columns]; each array of pairs [B, tokens, others, columns].
        """
        return {
            name: torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]
            for name, parts in self.parts(observations).items()
        }

    def parts(self, observations: Mapping[str, torch.Tensor]) -> dict[str, list[torch.Tensor]]:
        """Return what the columns of each input consist of: views of the observations, and zeros for others."""
        parts: dict[str, list[torch.Tensor]] = {}
        for kind, arrays in self.kinds.items():
            main = observations.get(kind)
            if main is None:
                continue
            rows = main.shape[:1] if kind == CLUSTER else main.shape[:2]
            parts[kind] = [
                observations[name].view(*rows, count) if name in observations else main.new_zeros(*rows, count)
                for name, count in arrays.items()
            ]
        for name, columns in self.pairs.items():
            if name in observations:
                one, _ = kinds_of(name)
                parts[name] = [observations[name].view(*parts[one][0].shape[:2], -1, columns)]
        return parts
