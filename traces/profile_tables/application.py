"""An application that jobs train, and the model of its speed on GPUs of one type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from gpusched_env.portable.arrays import interpolated
from gpusched_env.traces.profile_tables.goodput import Worth
from gpusched_env.traces.profile_tables.throughput import Throughput


@dataclass(frozen=True)
class Application:
    """The properties of an application that do not depend on the GPU type.

    ``iterations`` : batch of the whole gang [samples] -> iterations to completion; ``milestones`` : the same to the end
    of each of up to ten equal parts of the training, empty = not known.
    """

    name: str
    iterations: Mapping[int, float]
    gradient_bytes: float
    skew: float
    milestones: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @property
    def initial_batch(self) -> int:
        """Smallest batch that was trained to completion [samples]; jobs of Pollux begin with this batch."""
        return min(self.iterations)

    def iterations_at(self, batch: float) -> float:
        """Return the iterations to completion, interpolated linearly as in Pollux; NaN outside the trained batches."""
        known = sorted(self.iterations)
        if not known[0] <= batch <= known[-1]:
            return math.nan
        return float(interpolated(batch, np.array(known, float), np.array([self.iterations[b] for b in known], float)))

    def worths(self) -> tuple[np.ndarray, list[Worth]]:
        """Return the share of the progress in each part of the training, and functions: batch -> worth of an iteration.

        Progress is counted in iterations at the initial batch. Between trained batches, the samples that a part needs
        are linear in the batch, as they are if the gradient has a constant noise scale.
        """
        known = np.array(sorted(self.milestones), float)
        ends = np.array([self.milestones[int(batch)] for batch in known], float)
        needed = np.diff(ends, axis=1, prepend=0.0)  # [batches, parts]
        samples = known[:, None] * needed

        def worth_in(part: int) -> Worth:
            return lambda batch: batch * needed[0, part] / interpolated(batch, known, samples[:, part])

        return needed[0] / ends[0, -1], [worth_in(part) for part in range(needed.shape[1])]


@dataclass(frozen=True)
class Fit:
    """The fitted speed of an application on a GPU type.

    ``largest_batch`` [samples] fits on a GPU; ``largest_local`` is the largest gang that was measured in one machine.
    ``errors`` : "all", each of KINDS, "held out" -> number, median and 90th percentile of the relative error.
    """

    throughput: Throughput
    largest_batch: int
    largest_local: int
    errors: Mapping[str, tuple[int, float, float]]

    def passes(self, share: Fraction) -> int:
        """Return the number of passes that a GPU needs for ``share`` samples."""
        return max(1, math.ceil(share / self.largest_batch))

    def compute_s(self, share: Fraction, passes: int) -> float:
        """Return the time to compute the gradients of ``share`` samples on each GPU in ``passes`` passes [s]."""
        return passes * float(self.throughput.gradient_s(float(share / passes)))

    def iteration_s(self, gpus: int, machines: int, share: Fraction, passes: int) -> float:
        """Return the time of an iteration of ``passes`` passes over ``share`` samples on each GPU [s].

        In one machine, a gang of more than ``largest_local`` takes at most the time of the same gang over machines: the
        fit to few small gangs cannot be extrapolated.
        """
        batch = float(share / passes)
        spread = float(self.throughput.iteration_s(gpus, 2, batch, passes))
        local = float(self.throughput.iteration_s(gpus, 1, batch, passes))
        if machines > 1:
            return spread
        return min(local, spread) if gpus > self.largest_local else local
