"""Files of weights that a search has found; the classes of the schedulers read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpusched_env.agents import sharing_index, size_index, type_index
from gpusched_env.agents.checkpoints import write_checkpoint
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.agents.sharing_index import TERMS, SharingRule
from gpusched_env.agents.size_index import SizeWeights


def save_weights(kind: type[SearchedRule], path: Path, weights: Sequence[float], about: Mapping[str, Any]) -> None:
    """Write weights of a kind of schedulers, in the order of its ``names``, with ``about`` as metadata."""
    metadata = {"format": kind.format, "weights": list(kind.names), "about": dict(about)}
    write_checkpoint(path, metadata, {"weights": np.array(weights)})


def save_types(path: Path, weights: Mapping[str, float], prices: Mapping[str, float], about: Mapping[str, Any]) -> None:
    """Write the weights of a type index, ``gang``, ``advantage`` and ``speed``, and the price of each GPU type."""
    metadata = {"format": type_index.FORMAT, "weights": list(weights), "types": list(prices), "about": dict(about)}
    arrays = {"weights": np.array(list(weights.values())), "prices": np.array(list(prices.values()))}
    write_checkpoint(path, metadata, arrays)


def save_sharing(rule: SharingRule, path: Path, about: Mapping[str, Any]) -> None:
    """Write the weights of a sharing index."""
    metadata = {"format": sharing_index.FORMAT, "terms": list(TERMS), "about": dict(about)}
    write_checkpoint(path, metadata, {"gang": np.array(rule.gang), "weights": np.array(rule.weights)})


def save_sizes(weights: SizeWeights, path: Path, about: Mapping[str, Any]) -> None:
    """Write the weights of a size index."""
    values = dataclasses.asdict(weights)
    clairvoyant = values.pop("clairvoyant")
    metadata = {"format": size_index.FORMAT, "weights": list(values), "clairvoyant": clairvoyant, "about": dict(about)}
    write_checkpoint(path, metadata, {"weights": np.array(list(values.values()))})
