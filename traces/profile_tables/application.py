"""An application that jobs train, and its speed on GPUs of one type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpusched_env.portable.arrays import interpolated
from gpusched_env.traces.profile_tables.throughput import Throughput


@dataclass(frozen=True)
class Application:
    """An application: what a job trains, independent of the GPU type.

    Attributes
    ----------
    name : name in workloads
    iterations : batch of the whole gang [samples] -> iterations to completion
    gradient_bytes, skew : as in PROFILE_DTYPE
    """

    name: str
    iterations: Mapping[int, float]
    gradient_bytes: float
    skew: float

    @property
    def initial_batch(self) -> int:
        """Smallest batch that was trained to completion [samples]; Pollux's jobs begin with it."""
        return min(self.iterations)

    def iterations_at(self, batch: float) -> float:
        """Iterations to completion, interpolated linearly between trained batches as in Pollux; NaN outside them."""
        known = sorted(self.iterations)
        if not known[0] <= batch <= known[-1]:
            return math.nan
        return float(interpolated(batch, np.array(known, float), np.array([self.iterations[b] for b in known], float)))


@dataclass(frozen=True)
class Fit:
    """One application on one GPU type.

    Attributes
    ----------
    throughput : fitted model
    largest_batch : samples that fit on a GPU; more are split into passes
    largest_local : largest gang that was measured in one machine [GPU]
    errors : group -> number of measurements, median and 90th percentile of the relative error of their iteration times.
        Groups: all, each of KINDS, and those held out
    """

    throughput: Throughput
    largest_batch: int
    largest_local: int
    errors: Mapping[str, tuple[int, float, float]]

    def passes(self, share: Fraction) -> int:
        """Passes that a GPU needs for ``share`` samples."""
        return max(1, math.ceil(share / self.largest_batch))

    def compute_s(self, share: Fraction, passes: int) -> float:
        """Seconds to compute the gradients of ``share`` samples on each GPU in ``passes`` passes."""
        return passes * float(self.throughput.gradient_s(float(share / passes)))

    def iteration_s(self, gpus: int, machines: int, share: Fraction, passes: int) -> float:
        """Seconds of an iteration of ``passes`` passes over ``share`` samples on each GPU.

        A gang larger than those measured in one machine is no slower in one machine than when spread: the line fitted
        to the few gangs that fit into the measured machines is steep and does not extend to larger machines.
        """
        batch = float(share / passes)
        spread = float(self.throughput.iteration_s(gpus, 2, batch, passes))
        local = float(self.throughput.iteration_s(gpus, 1, batch, passes))
        if machines > 1:
            return spread
        return min(local, spread) if gpus > self.largest_local else local
