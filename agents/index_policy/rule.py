"""The weights of an index policy, and the tables that they give for the job classes of a problem."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint, write_checkpoint
from gpusched_env.errors import SchedulerError
from gpusched_env.portable.arrays import log2
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK
from gpusched_env.problem.instance import Instance

FORMAT: Final = "gpusched-index-policy-1"
# [s] Ends of the levels of elapsed times: two levels for each doubling, from about a minute to about two weeks.
THRESHOLDS_S: Final = tuple(64.0 * (1 << i // 2) * (1.5 if i % 2 else 1.0) for i in range(29))
LEVELS: Final = len(THRESHOLDS_S) + 1
PREDICTIONS: Final = 2 * LEVELS + 1  # none; from the burst of a job, by level; from its series, by level
INPUTS: Final = ("gang", "share", "level", "prediction", "known", "burst")  # of the hidden units
TERMS: Final = ("gang", "level", "excess", "unknown", "burst_excess")  # of the linear part
_DECIMALS: Final = 6  # of scores
_LARGEST_EXCESS: Final = 4.0  # of seconds per iteration on a wider placement, relative to a tighter one
_LONGEST_PATIENCE_S: Final = 1e6  # [s]
_MOST: Final = 1_000  # end of the range of ``reach`` and ``censored``


class Tables(NamedTuple):
    """What the weights give for one problem; classes are those of the instance.

    Attributes
    ----------
    scores : float64 [classes, PREDICTIONS, LEVELS], by prediction (``evidence.prediction_of``) and level of progress
    aging : float64 [LEVELS], subtracted from the score of a waiting job, by level of its wait
    patience_s : float64 [classes, 2], for how long a waiting job accepts only the fewest machines, and only one rack
    ideal_s : float64 [classes], seconds of one iteration on the tightest placement
    thresholds_s : float64 [LEVELS - 1], ends of the levels [s]
    """

    scores: np.ndarray
    aging: np.ndarray
    patience_s: np.ndarray
    ideal_s: np.ndarray
    thresholds_s: np.ndarray


def _empty(*shape: int) -> np.ndarray:
    return np.zeros(shape)


@dataclass(frozen=True)
class IndexRule:
    """The weights of an index policy. The defaults give every job the score 0.

    The score is ``linear @ terms + outer @ softsign(inner.T @ inputs + bias)`` + the heights of the bounds that the job
    has reached, with softsign(z) = z / (1 + abs(z)).

    Parameters
    ----------
    linear : float64 [5], weights of TERMS: log2 of the gang size; level of progress; 1 + the predicted level - this
        level, if above 0; 1 if there is no prediction; ``excess`` again if the prediction is from the burst of the
        job. Two levels are a doubling of time and count as 1
    inner, bias, outer : float64 [6, H], [H] and [H], the hidden units; INPUTS are the gang size, its share of the
        cluster, the level, the prediction, whether there is one, and whether it is from the burst
    bounds : float64 [B], attained service at which the score rises, as in Tiresias' queues [log2 of 64 GPU s]
    heights : float64 [B], by how much it rises
    hold : subtracted from the score of a running job
    least_run_s : progress that a gang makes before it may be preempted [s]
    aging : subtracted from the score of a waiting job for each doubling of its wait
    patience_s : float64 [2, 2]. Row 0 is the patience for the fewest machines, row 1 that for one rack: seconds for
        each unit by which a wider placement lengthens an iteration, and seconds that every gang of several GPUs waits
    links_factor : factor on all patience if gangs share links
    move_factor : a gang moves to a tighter placement when its placement has cost it this many times what a move costs,
        at least 1, so that moves never take more time than they can save
    reach : largest number of neighbours on either side to whom a job gives evidence
    burst_s, series_s : time between the submissions of two neighbours of one burst, and of one series, at most [s]
    censored : levels that a job that has not finished is expected to reach beyond its own

    Raises
    ------
    SchedulerError : ``move_factor`` is below 1, the shapes are not these, or ``reach`` or ``censored`` is too large
    """

    linear: np.ndarray = field(default_factory=partial(_empty, len(TERMS)))
    inner: np.ndarray = field(default_factory=partial(_empty, len(INPUTS), 0))
    bias: np.ndarray = field(default_factory=partial(_empty, 0))
    outer: np.ndarray = field(default_factory=partial(_empty, 0))
    bounds: np.ndarray = field(default_factory=partial(_empty, 0))
    heights: np.ndarray = field(default_factory=partial(_empty, 0))
    hold: float = 0.0
    least_run_s: float = 0.0
    aging: float = 0.0
    patience_s: np.ndarray = field(default_factory=partial(_empty, 2, 2))
    links_factor: float = 1.0
    move_factor: float = 1e6
    reach: int = 8
    burst_s: float = 5.0
    series_s: float = 100_000.0
    censored: int = 3

    def __post_init__(self) -> None:
        """Check the shapes of the weights, which kernels rely on, and the factor of moves."""
        shapes = {name: getattr(self, name).shape for name in ("linear", "inner", "bias", "outer", "bounds", "heights")}
        hidden, bounds = len(self.bias), len(self.bounds)
        sizes = ((len(TERMS),), (len(INPUTS), hidden), (hidden,), (hidden,), (bounds,), (bounds,))
        if tuple(shapes.values()) != sizes or self.patience_s.shape != (2, 2):
            raise SchedulerError(f"index policy: weights of shapes {shapes}, patience_s {self.patience_s.shape}")
        for name in ("reach", "censored"):
            if getattr(self, name) not in range(_MOST):
                raise SchedulerError(f"index policy: {name} is {getattr(self, name)!r}: it must be 0 to {_MOST - 1}")
        if not self.move_factor >= 1.0:
            raise SchedulerError(f"index policy: move_factor is {self.move_factor!r}: it must be at least 1")

    def tables(self, instance: Instance) -> Tables:
        """Return the tables for the job classes of a problem."""
        sizes, of_class = np.unique(instance.classes[:, 1], return_inverse=True)
        gang = log2(sizes.astype(float))
        share = gang - log2(np.array([float(instance.cluster.gpus)]))
        aging = self.aging * np.arange(LEVELS) / 2.0
        return Tables(
            self._scores(gang, share)[of_class],
            aging,
            self._patience_s(instance),
            instance.ideal_iteration_s,
            np.array(THRESHOLDS_S),
        )

    def _scores(self, gang: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Sum in a fixed order, so that every machine gets the same bits."""
        level = np.arange(LEVELS)[None, None, :] / 2.0
        gang, share = gang[:, None, None], share[:, None, None]
        predicted = np.arange(PREDICTIONS)[None, :, None]
        known = np.where(predicted > 0, 1.0, 0.0)
        burst = np.where(predicted > LEVELS, 0.0, known)
        prediction = np.where(predicted > LEVELS, predicted - LEVELS, predicted) / 2.0
        excess = np.maximum(prediction - level, 0.0) * known
        terms = (gang, level, excess, 1.0 - known, excess * burst)
        inputs = (gang / 4 - 0.5, share / 4 + 1.0, level / 7 - 1.0, (prediction / 7 - 1.0) * known, known, burst)
        scores = np.zeros((len(gang), PREDICTIONS, LEVELS))
        for weight, term in zip(self.linear, terms, strict=True):
            scores = scores + weight * term
        attained = gang + np.maximum(level - 0.5, 0.0)
        for bound, height in zip(self.bounds, self.heights, strict=True):
            scores = scores + height * (attained >= bound)
        for unit in range(len(self.bias)):
            drive = np.full_like(scores, self.bias[unit])
            for weight, one in zip(self.inner[:, unit], inputs, strict=True):
                drive = drive + weight * one
            scores = scores + self.outer[unit] * (drive / (1.0 + np.abs(drive)))
        return np.round(scores, _DECIMALS)

    def _patience_s(self, instance: Instance) -> np.ndarray:
        seconds = instance.iteration_s.min(axis=2)
        beyond = seconds[:, NETWORK] / seconds[:, MACHINE], seconds[:, RACK] / seconds[:, MACHINE]
        excess = np.clip(np.stack([beyond[1], beyond[0]], axis=1) - 1.0, 0.0, _LARGEST_EXCESS)
        several = (instance.classes[:, 1] > 1)[:, None]
        factor = self.links_factor if instance.topology is not None else 1.0
        patience_s = factor * (self.patience_s[:, 0] * excess + self.patience_s[:, 1] * several)
        patience_s = np.minimum(patience_s, _LONGEST_PATIENCE_S)
        patience_s[:, 1] = np.maximum(patience_s[:, 0], patience_s[:, 1])
        return np.ascontiguousarray(patience_s)

    def save(self, path: Path, about: Mapping[str, Any]) -> None:
        """Write the weights as ``.npz``, with ``about`` as metadata."""
        values = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        weights = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        rest = {name: value for name, value in values.items() if name not in weights}
        write_checkpoint(path, {"format": FORMAT, "scalars": json.dumps(rest), "about": dict(about)}, weights)

    @classmethod
    def load(cls, path: Path) -> IndexRule:
        """Read what :meth:`save` wrote."""
        with checkpoint(path, FORMAT, "an index policy") as (metadata, weights):
            values: dict[str, Any] = {**weights, **json.loads(metadata["scalars"])}
            return cls(**values)
