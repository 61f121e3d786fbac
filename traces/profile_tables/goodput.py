"""Pollux's goodput: throughput times statistical efficiency, and the batch that makes it largest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.portable.elementary import power
from gpusched_env.traces.profile_tables.throughput import Throughput

CANDIDATES: Final = 50  # number of batches that are compared
SLACK: Final = 1e-8  # [samples] by which a batch may exceed a whole number before it is rounded up

Gain = Callable[[float], float]


def gain(square: float, variance: float, scale: float) -> float:
    """Return the iterations at the initial batch that one iteration at ``scale`` times this batch is worth.

    Parameters
    ----------
    square, variance : squared norm and variance of the gradient at the initial batch
    scale : batch / initial batch
    """
    below = variance / scale + square
    return (variance + square) / below if below > 0 else 1.0


def efficiency(square: float, variance: float, scale: float) -> float:
    """Return the statistical efficiency: progress per sample / progress per sample at the initial batch, 0 to 1."""
    return gain(square, variance, scale) / scale


class Limits(NamedTuple):
    """The batches that an application may use [samples].

    Parameters
    ----------
    initial, largest : smallest and largest batch of the whole gang
    least, most : smallest and largest batch of a pass on one GPU
    """

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


def best_batch(throughput: Throughput, gpus: int, machines: int, limits: Limits, worth: Gain) -> Choice | None:
    """Choose the batch with the largest goodput among 50 totals in a geometric sequence; None = no batch is allowed.

    Parameters
    ----------
    throughput : model of the time of an iteration
    gpus, machines : number of GPUs of the gang, and of their machines
    limits : batches that the application may use
    worth : batch of the gang -> value of one iteration, in iterations at the initial batch

    Notes
    -----
    A share that does not fit into a pass is worked off in equal passes, rounded up to whole samples. As in the authors'
    code, a gang of one GPU takes at least two passes above the initial batch. The first maximum wins.

    References
    ----------
    Qiao et al., "Pollux: Co-adaptive cluster scheduling for goodput-optimized deep learning", OSDI 2021, section 3;
    petuum/adaptdl, branch osdi21-artifact, ``simulator/goodput.py``.
    """
    first, last = max(limits.initial, limits.least * gpus), limits.largest
    if first > last:
        return None
    allowed = []
    for i in range(CANDIDATES):
        share = first * power(last / first, i / (CANDIDATES - 1)) / gpus
        passes = max(math.ceil(share / limits.most - SLACK), 1)
        if gpus == 1 and share > limits.initial + SLACK:
            passes = max(passes, 2)
        batch = math.ceil(share / passes - SLACK)
        if limits.least <= batch <= limits.most:
            allowed.append((batch, passes))
    if not allowed:
        return None
    batches, passes_of = np.array(allowed, float).T
    values = np.array([worth(min(gpus * batch * passes, limits.largest)) for batch, passes in allowed])
    gradient_s = throughput.gradient_s(batches)
    last_s = throughput.iteration_s(gpus, machines, batches)
    seconds = ((passes_of - 1) * gradient_s + last_s) / values
    best = int(np.argmin(seconds))
    return Choice(*allowed[best], float((passes_of * gradient_s / values)[best]), float(seconds[best]))
