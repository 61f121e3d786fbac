"""Sources of run times for schedulers: true run times, true run times with noise, or the users' estimates (claims).

A claim that a job passes doubles (docs/traces.md); Slurm's plans read time limits by the same rule. A scheduler for
which the passing of a claim can change a decision asks to be woken then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpusched_env.core.handle import helper
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable import arrays, draws
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClairvoyantView, ClusterView, Scheduler

ESTIMATORS: Final = ("oracle", "noisy", "user")
ORACLE, NOISY, USER = range(3)
# Part of the simulated time by which a job must be beyond its claim. Ends and times of progress have rounding errors,
# and a job that ends when its claim says must not seem to pass it.
ROUNDING: Final = 2.0**-40
UNIT_S: Final = 1.0  # [s] that a passed claim of 0 becomes


@helper
def claim_after_s(claim_s: float, had_s: float, now_s: float) -> float:
    """Return the claim of a job, doubled until it exceeds the time for which the job has made progress [s].

    ``claim_s`` is the run time that its user has claimed, inf = none; it has made progress for ``had_s`` [s].
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
    claims_s = np.where((claims_s == 0.0) & (beyond_s > 0.0), UNIT_S, claims_s)
    while (passed := claims_s < beyond_s).any():
        claims_s = np.where(passed, 2.0 * claims_s, claims_s)
    return claims_s


@helper
def passes_s(due_s: float) -> float:
    """Return when it is certain, in spite of rounding, that a job passes a claim that it reaches at ``due_s`` [s]."""
    return due_s + 3.0 * ROUNDING * due_s


def check_claims(ids: np.ndarray, claims_s: np.ndarray) -> None:
    """Refuse claims that are missing."""
    missing = np.isnan(claims_s)
    if missing.any():
        job = ids[int(np.argmax(missing))]
        raise SchedulerError(f"estimator 'user': job {job} has no estimate_s; use 'oracle' or 'noisy'")


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

    def __post_init__(self) -> None:
        """Check the parameters. A scheduler that reads true run times with noise still counts as clairvoyant."""
        if self.estimator not in ESTIMATORS:
            raise SchedulerError(unknown_name("estimator", self.estimator, ESTIMATORS))
        if not self.sigma >= 0:
            raise SchedulerError(f"sigma is {self.sigma}: it must be a number >= 0")
        self.clairvoyant = self.estimator != "user"

    def reset(self, view: ClusterView) -> None:
        """Draw the factors again, from the same seed."""
        self._told = self.told(view.simulation.instance)

    def told(self, instance: Instance) -> np.ndarray:
        """float64 [J]: for "noisy" the factor of each job, for "user" its claim [s], NaN = none; empty for "oracle"."""
        if self.estimator == "oracle":
            return np.empty(0)
        if self.estimator == "noisy":
            generator = np.random.default_rng(self.estimator_seed)
            return arrays.exp(self.sigma * draws.normal(generator, len(instance.workload)))
        return instance.workload.jobs["estimate_s"].copy()

    def remaining_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Estimate the remaining run time [s] of each of the jobs ``rows`` on the ideal placement."""
        if not isinstance(view, ClairvoyantView):
            return np.maximum(self._claimed(view, rows) - view.service_s(rows), 0.0)
        return view.remaining_s(rows) * self._noise(rows)

    def ideal_s(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        """Estimate the whole run time [s] of each of the jobs ``rows`` on the ideal placement."""
        if not isinstance(view, ClairvoyantView):
            return self._claimed(view, rows)
        return view.ideal_s[rows] * self._noise(rows)

    def _claimed(self, view: ClusterView, rows: np.ndarray) -> np.ndarray:
        check_claims(view.job_id[rows], self._told[rows])
        return claims_after_s(self._told[rows], view.service_s(rows), view.now_s)

    def _noise(self, rows: np.ndarray) -> np.ndarray | float:
        return self._told[rows] if self.estimator == "noisy" else 1.0


def is_strict(view: ClusterView, own: bool) -> bool:
    """Return whether the first job that does not fit blocks the queue; ``own`` holds if the scenario sets no rule."""
    return own if view.semantics.queue == "scheduler" else view.semantics.queue == "strict"
