"""Sources of run times for schedulers: true run times, true run times with noise, or the users' estimates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable import arrays, draws
from gpusched_env.simulator import ClairvoyantView, ClusterView, Scheduler

ESTIMATORS: Final = ("oracle", "noisy", "user")
KEYS: Final = ("time", "gpu-time")


@dataclass
class EstimatingScheduler(Scheduler):
    """Base class of the schedulers that read run times.

    Parameters
    ----------
    estimator : "oracle" (default) = true run times; "noisy" = the true run time x a log-normal factor, drawn once for
        each job; "user" = the attribute ``estimate_s`` of the workload's jobs [s]
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

    def _claims(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        return np.maximum(self._claimed(view, rows) - view.service_s(rows), 0.0)

    def _claimed(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        claims = view.estimate_s[rows]
        if np.isnan(claims).any():
            job = view.job_id[rows[int(np.argmax(np.isnan(claims)))]]
            raise SchedulerError(f"estimator 'user': job {job} has no estimate_s; use 'oracle' or 'noisy'")
        return claims

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
