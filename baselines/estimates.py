"""Sources of run times for schedulers: true run times, true run times with noise, or the users' estimates (claims).

A claim that turns out to be too short doubles each time the job passes it: the claim of a job that has made progress
for ``had_s`` is estimate x 2^k, with the smallest k for which this is more than ``had_s``. Every scheduler that reads
claims, and Slurm's plans, which read time limits, use this one rule. A scheduler for which the passing of a claim can
change a decision asks to be woken then (docs/traces.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gpusched_env.core.handle import helper
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable import arrays, draws
from gpusched_env.simulator import ClairvoyantView, ClusterView, Scheduler, Wait

ESTIMATORS: Final = ("oracle", "noisy", "user")
KEYS: Final = ("time", "gpu-time")
# Part of the simulated time by which a job must be beyond its claim. Ends and times of progress have rounding errors,
# and a job that ends when its claim says must not seem to pass it.
ROUNDING: Final = 2.0**-40
UNIT_S: Final = 1.0  # [s] that a passed claim of 0 becomes


@helper
def claim_after_s(claim_s: float, had_s: float, now_s: float) -> float:
    """Return the claim of a job, doubled until it exceeds the time for which the job has made progress [s].

    Parameters
    ----------
    claim_s : run time that its user has claimed [s]; inf = none
    had_s : time with progress so far [s]
    now_s : simulated time [s]
    """
    beyond_s = had_s - ROUNDING * now_s
    if claim_s == 0.0 and beyond_s > 0.0:
        claim_s = UNIT_S
    while claim_s < beyond_s:  # at most 2,100 times: powers of two are exact, and had_s is finite
        claim_s = 2.0 * claim_s
    return claim_s


def claims_after_s(claims_s: np.ndarray, had_s: np.ndarray, now_s: float) -> np.ndarray:
    """float64 [s]: claims doubled as :func:`claim_after_s` does."""
    beyond_s = had_s - ROUNDING * now_s
    passed = claims_s < beyond_s
    if not passed.any():
        return claims_s
    claims_s = np.where(passed & (claims_s == 0.0), UNIT_S, claims_s)
    part, power = np.frexp(claims_s)
    wanted, wanted_power = np.frexp(beyond_s)
    doublings = wanted_power - power + (part < wanted)
    return np.where(passed, np.ldexp(claims_s, np.maximum(np.where(passed, doublings, 0), 0)), claims_s)


@helper
def passes_s(due_s: float) -> float:
    """Return when it is certain, in spite of rounding, that a job passes a claim that it reaches at ``due_s`` [s]."""
    return due_s + 3.0 * ROUNDING * due_s


@dataclass
class EstimatingScheduler(Scheduler):
    """Base class of the schedulers that read run times.

    Parameters
    ----------
    estimator : "oracle" (default) = true run times; "noisy" = the true run time x a log-normal factor, drawn once for
        each job; "user" = the attribute ``estimate_s`` of the workload's jobs [s], which doubles whenever it is passed
    sigma : standard deviation of the logarithm of the factor of "noisy", default 0.5; 0 = no noise
    estimator_seed : seed of the factors of "noisy", default 0
    """

    estimator: str = "oracle"
    sigma: float = 0.5
    estimator_seed: int = 0
    _factors: np.ndarray = field(init=False, repr=False, default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        """Check the parameters. A scheduler that reads true run times with noise still counts as clairvoyant."""
        if self.estimator not in ESTIMATORS:
            raise SchedulerError(unknown_name("estimator", self.estimator, ESTIMATORS))
        if not self.sigma >= 0:
            raise SchedulerError(f"sigma is {self.sigma}: it must be a number >= 0")
        self.clairvoyant = self.estimator != "user"

    def reset(self, view: ClusterView) -> None:
        """Draw the factors again, from the same seed."""
        self._generator = np.random.default_rng(self.estimator_seed)
        self._factors = np.empty(0)

    def remaining_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Estimate the remaining run time [s] of each of the jobs ``rows`` on the ideal placement."""
        if not isinstance(view, ClairvoyantView):
            return self._claims(view, rows)
        return view.remaining_s(rows) * self._noise(view, rows)

    def ideal_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Estimate the whole run time [s] of each of the jobs ``rows`` on the ideal placement."""
        if not isinstance(view, ClairvoyantView):
            return self._claimed(view, rows)
        return view.ideal_s[rows] * self._noise(view, rows)

    def longest_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Estimate the remaining run time [s] of each of the jobs ``rows`` on the worst placement."""
        if not isinstance(view, ClairvoyantView):
            return self._claims(view, rows)
        return view.slowest_remaining_s(rows) * self._noise(view, rows)

    def ends_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Estimate when each of the running jobs ``rows`` will end on its present GPUs [s]."""
        if not isinstance(view, ClairvoyantView):
            return view.now_s + self._claims(view, rows)
        if self.estimator == "oracle":
            return view.end_s(rows)
        return view.now_s + (view.end_s(rows) - view.now_s) * self._noise(view, rows)

    def wait_for_overrun(self, view: ClusterView) -> Iterable[Wait]:
        """Ask for a decision when the first running job passes its claim, if run times are claims."""
        if self.estimator == "user" and len(running := view.running):
            begin_s = np.maximum(view.progress_since_s(running), view.now_s)  # inf = it is in a checkpoint
            due_s = float((begin_s + self._claims(view, running)).min())
            if np.isfinite(due_s):
                yield Wait(max(passes_s(due_s), math.nextafter(view.now_s, math.inf)))

    def _claims(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        return np.maximum(self._claimed(view, rows) - view.service_s(rows), 0.0)

    def _claimed(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        claims = view.estimate_s[rows]
        if np.isnan(claims).any():
            job = view.job_id[rows[int(np.argmax(np.isnan(claims)))]]
            raise SchedulerError(f"estimator 'user': job {job} has no estimate_s; use 'oracle' or 'noisy'")
        return claims_after_s(claims, view.service_s(rows), view.now_s)

    def _noise(self, view: ClusterView, rows: np.ndarray) -> np.ndarray | float:
        if self.estimator == "oracle":
            return 1.0
        missing = view.arrived - len(self._factors)
        if missing > 0:  # rows are numbered in order of arrival, so the seed determines the factor of each job
            fresh = arrays.exp(self.sigma * draws.normal(self._generator, missing))
            self._factors = np.concatenate([self._factors, fresh])
        return self._factors[rows]


@dataclass
class SizeOrderedScheduler(EstimatingScheduler):
    """Base class of the schedulers that serve the smallest job first.

    Parameters
    ----------
    key : size of a job: "time" (default) = remaining run time [s], "gpu-time" = gang size x remaining run time [GPU s]
    placement : placement rule of all jobs; default best fit
    """

    key: str = "time"
    placement: str = "pack"

    def __post_init__(self) -> None:
        """Check the key."""
        super().__post_init__()
        if self.key not in KEYS:
            raise SchedulerError(unknown_name("key", self.key, KEYS))

    def smallest_first(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Sort rows by size, ascending; rows of equal size keep their order."""
        size = self.remaining_s(view, rows)
        if self.key == "gpu-time":
            size = size * view.gpus[rows]
        return rows[np.argsort(size, kind="stable")]


def is_strict(view: ClusterView, own: bool) -> bool:
    """Return whether the first job that does not fit blocks the queue.

    Parameters
    ----------
    own : the scheduler's own discipline, which holds if the scenario's rule ``queue`` is "scheduler"
    """
    return own if view.semantics.queue == "scheduler" else view.semantics.queue == "strict"
