"""A scheduler for clusters of several GPU types: an index with few learned weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint
from gpusched_env.agents.searched import SearchedRule
from gpusched_env.errors import SchedulerError
from gpusched_env.portable import arrays
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Start

FORMAT: Final = "gpusched-type-index-1"
RULE: Final = "fastest-type"
SLOWEST: Final = 1e-4  # smallest relative rate and advantage whose logarithm is taken
DECIMALS: Final = 9  # decimals of an index: closer ones tie


@dataclass
class TypeIndex(SearchedRule):
    """Start the job with the smallest index, on the fastest type that has room; repeat while GPUs are free.

    A rate is relative to the job's best type. The advantage of a type for a job is rate / price of the type, relative
    to the job's best type in this respect. The index of a job on a type is::

        ln(remaining run time) + gang ln(gang size) - advantage ln(advantage) - speed ln(rate)

    So short jobs go first, and each free GPU attracts the jobs that lose least there. It never preempts.

    Notes
    -----
    Ties: the earliest arrival. A decision point takes O(starts x waiting x types).
    """

    kind: ClassVar = "type index"
    needs = ("types",)
    clairvoyant: bool = field(init=False, default=True)
    name = "learned"

    @classmethod
    def load(cls, path: Path) -> tuple[dict[str, float], dict[str, float]]:
        """Read weights and prices from a file that a search has written."""
        with checkpoint(path, FORMAT, "the weights of a type index") as (metadata, stored):
            weights = dict(zip(metadata["weights"], stored["weights"].tolist(), strict=True))
            return weights, dict(zip(metadata["types"], stored["prices"].tolist(), strict=True))

    def reset(self, view: ClusterView) -> None:
        """Find the prices of the cluster's types."""
        types, prices = view.cluster.gpu_types, self.rule[1]
        if missing := [name for name in types if name not in prices]:
            raise SchedulerError(f"learned:{self.agent or self.path}: no price for GPU type {', '.join(missing)}")
        self._prices = np.array([prices[name] for name in types])
        self._type_of_node = view.cluster.nodes["gpu_type"]

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start jobs, each with the smallest index at that moment."""
        assert isinstance(view, ClairvoyantView)
        jobs = view.waiting
        if not len(jobs) or not view.free_gpus:
            return
        weights = self.rule[0]
        gangs, rates = view.gpus[jobs], view.type_rates(jobs)
        rates = rates / rates.max(axis=1, keepdims=True)
        advantages = rates / self._prices
        advantages /= advantages.max(axis=1, keepdims=True)
        size = arrays.log(view.remaining_s(jobs)) + weights["gang"] * arrays.log(gangs.astype(float))
        lost = weights["advantage"] * arrays.log(np.maximum(advantages, SLOWEST))
        lost += weights["speed"] * arrays.log(np.maximum(rates, SLOWEST))
        indices = np.round(size[:, None] - lost, DECIMALS)
        left = np.ones(len(jobs), bool)
        while left.any() and view.free_gpus:
            free = np.bincount(self._type_of_node, view.free_by_node, len(self._prices))
            here = np.where(free >= gangs[:, None], rates, 0.0)
            kinds = here.argmax(axis=1)
            can = left & (here.max(axis=1) > 0.0)
            if not can.any():
                return
            best = int(np.argmin(np.where(can, indices[np.arange(len(jobs)), kinds], np.inf)))
            left[best] = False
            yield Start(int(jobs[best]), RULE)
