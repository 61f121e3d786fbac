"""Pollux's goodput: throughput times statistical efficiency, and the batch that makes it largest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from gpusched_env.portable.elementary import power

CANDIDATES: Final = 50  # number of batches that are compared
SLACK: Final = 1e-8  # [samples] by which a batch may exceed a whole number before it is rounded up

Worth = Callable[[np.ndarray], np.ndarray]


class Timing(Protocol):
    """The times of a step: those of the fitted model (Throughput), or measured ones."""

    def gradient_s(self, batch: np.ndarray) -> np.ndarray:
        """Return the time to compute the gradients of ``batch`` samples on each GPU [s]."""

    def iteration_s(self, gpus: int, machines: int, batch: np.ndarray) -> np.ndarray:
        """Return the time of a step of one pass of ``batch`` samples on each GPU [s]; inf = not known."""


def gain(square: float, variance: float, scale: np.ndarray | float) -> np.ndarray:
    """Return the iterations at the initial batch that one at ``scale`` times this batch is worth.

    ``square`` and ``variance`` are those of the gradient at the initial batch.
    """
    below = np.asarray(variance / scale + square)
    return np.where(below > 0, (variance + square) / np.where(below > 0, below, 1.0), 1.0)


def efficiency(square: float, variance: float, scale: np.ndarray | float) -> np.ndarray:
    """Return the statistical efficiency: progress per sample / progress per sample at the initial batch, 0 to 1."""
    return gain(square, variance, scale) / scale


class Limits(NamedTuple):
    """The batches that an application may use [samples]: of the gang (initial, largest), of a pass (least, most)."""

    initial: int
    largest: int
    least: int
    most: int


class Choice(NamedTuple):
    """The batch of a gang.

    Parameters
    ----------
    batch : samples of a pass on each GPU
    passes : number of passes of an iteration; only the last one synchronises
    compute_s : compute time per iteration at the initial batch [s]
    seconds : time per iteration at the initial batch [s]; initial batch / ``seconds`` is the goodput
    """

    batch: int
    passes: int
    compute_s: float
    seconds: float


def best_batches(throughput: Timing, gpus: int, machines: int, limits: Limits, worths: Sequence[Worth]) -> list[Choice]:
    """Choose the batch with the largest goodput among 50 totals in a geometric sequence, for each of ``worths``.

    An item of ``worths`` is a function from batches of the gang, float64 [n], to the value of one iteration; the result
    has a choice for each, and is empty if no batch is allowed.

    A share that does not fit into a pass is worked off in equal passes, rounded up to whole samples. As in the authors'
    code, a gang of one GPU takes at least two passes above the initial batch. The first maximum wins.

    References
    ----------
    Qiao et al., "Pollux: Co-adaptive cluster scheduling for goodput-optimized deep learning", OSDI 2021, section 3;
    petuum/adaptdl, branch osdi21-artifact, ``simulator/goodput.py``.
    """
    first, last = max(limits.initial, limits.least * gpus), limits.largest
    allowed: list[tuple[int, int]] = []
    for i in range(CANDIDATES if first <= last else 0):
        allowed += _passes(first * power(last / first, i / (CANDIDATES - 1)) / gpus, gpus, limits)
    return _choose(throughput, gpus, machines, limits, allowed, worths)


def kept_batch(
    throughput: Timing, gpus: int, machines: int, limits: Limits, share: float, worths: Sequence[Worth]
) -> list[Choice]:
    """Return the choices of :func:`best_batches` if each GPU has ``share`` samples; empty = this is not allowed."""
    fits = limits.initial <= gpus * share + SLACK and gpus * share - SLACK <= limits.largest
    return _choose(throughput, gpus, machines, limits, _passes(share, gpus, limits) if fits else [], worths)


def _passes(share: float, gpus: int, limits: Limits) -> list[tuple[int, int]]:
    """Return the samples of a pass and the number of passes for ``share`` samples on each GPU; empty = not allowed."""
    passes = max(math.ceil(share / limits.most - SLACK), 1)
    if gpus == 1 and share > limits.initial + SLACK:
        passes = max(passes, 2)
    batch = math.ceil(share / passes - SLACK)
    return [(batch, passes)] if limits.least <= batch <= limits.most else []


def _choose(
    throughput: Timing,
    gpus: int,
    machines: int,
    limits: Limits,
    allowed: list[tuple[int, int]],
    worths: Sequence[Worth],
) -> list[Choice]:
    """Return the batch with the largest goodput among ``allowed``, see :func:`best_batches`, for each of ``worths``."""
    if not allowed:
        return []
    batches, passes_of = np.array(allowed, float).T
    compute_s = passes_of * throughput.gradient_s(batches)
    iteration_s = compute_s * (1.0 - 1.0 / passes_of) + throughput.iteration_s(gpus, machines, batches)
    if np.isinf(iteration_s).all():
        return []
    totals = np.minimum(gpus * batches * passes_of, limits.largest)
    choices = []
    for worth in worths:
        values = worth(totals)
        seconds = iteration_s / values
        best = int(np.argmin(seconds))
        choices.append(Choice(*allowed[best], float(compute_s[best] / values[best]), float(seconds[best])))
    return choices
