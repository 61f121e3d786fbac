"""Sources of run times for schedulers: true run times, also with noise, or claims: the users' estimates, predictions.

The claim of a job depends on the time for which it has made progress. The user's doubles when the job passes it
(docs/traces.md); Slurm's plans read time limits by the same rule. A prediction is revised when the job reaches the next
level of run time, but not before its service is worth several restarts, as each revision may preempt the job. A
scheduler for which a revision can change a decision asks to be woken then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from gpusched_env.core.handle import array, helper
from gpusched_env.core.planning import Walk
from gpusched_env.core.state import Run
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.portable import arrays, draws
from gpusched_env.prediction import LEVELS, PREDICTORS, STARTS_S, History
from gpusched_env.prediction.levels import mean_left_s, quantile_left_s
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClairvoyantView, ClusterView, Scheduler, Simulation

ESTIMATORS: Final = ("oracle", "noisy", "user")  # and every predictor
ORACLE, NOISY, USER, PREDICTED = range(4)  # from USER on, jobs have claims
# Part of the simulated time by which a job must be beyond its claim. Ends and times of progress have rounding errors,
# and a job that ends when its claim says must not seem to pass it.
ROUNDING: Final = 2.0**-40
UNIT_S: Final = 1.0  # [s] that a passed claim of 0 becomes
RESTARTS: Final = 10.0  # restarts for which a job makes progress before its prediction is revised


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


SOURCE_DTYPE: Final = np.dtype(
    [
        ("estimator", "<i8"),  # ORACLE, NOISY, USER, PREDICTED
        ("arrived", "<i8"),  # jobs that had arrived when predictions were made the last time
        ("ended", "<i8"),  # jobs that had left the system then
        ("first", "<i8"),  # first level at which a prediction is revised
    ]
)


class Estimates(Walk):
    """What a policy is told of run times; jobs are named by their rows."""

    source = array(SOURCE_DTYPE)
    told = array(np.float64, "told")  # factors of NOISY, claims of USER [s]
    class_of = array(np.int32, "predicted")  # of PREDICTED
    claims_s = array(np.float64, "classes", "levels")  # [s] claim of a job of a class that has reached a level


@helper
def has_news(sim: Run, plan: Estimates) -> bool:
    """Return whether jobs have arrived or ended of which the predictor does not know."""
    w = sim.world
    return w["next_arrival"] != plan.source["arrived"] or w["finished"] != plan.source["ended"]


@helper
def level_of(sim: Run, plan: Estimates, had_s: float) -> int:
    """Return the level by which a job is predicted that has made progress for ``had_s`` [s]."""
    low = 0
    high = LEVELS - 1
    while low < high:
        middle = (low + high + 1) // 2
        if STARTS_S[middle] < had_s - ROUNDING * sim.world["clock_s"]:
            low = middle
        else:
            high = middle - 1
    return low if low >= plan.source["first"] else 0


@helper
def claim_of(sim: Run, plan: Estimates, row: int, had_s: float) -> float:
    """Return the claim of a job that has made progress for ``had_s`` [s]."""
    if plan.source["estimator"] == USER:
        return claim_after_s(plan.told[row], had_s, sim.world["clock_s"])
    return plan.claims_s[plan.class_of[row], level_of(sim, plan, had_s)]


@helper
def revised_at_s(sim: Run, plan: Estimates, row: int, had_s: float) -> float:
    """Return for how long a job makes progress before its claim changes [s]; inf = it does not."""
    if plan.source["estimator"] == USER:
        return claim_after_s(plan.told[row], had_s, sim.world["clock_s"])
    level = max(level_of(sim, plan, had_s) + 1, plan.source["first"])
    return STARTS_S[level] if level < LEVELS else np.inf


@helper
def passes_s(due_s: float) -> float:
    """Return when it is certain, in spite of rounding, that a job passes a limit that it reaches at ``due_s`` [s]."""
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
        each job; "user" = the attribute ``estimate_s`` of the workload's jobs [s], which doubles whenever it is passed;
        or a predictor (docs/prediction.md), such as "recency": by what jobs with similar predictions have had left in
        this run when they had run as long. This is the mean; for reservations the 0.9 quantile; and for orders by which
        running jobs are preempted the Gittins index. A predictor that does worse than "none", by which all jobs are
        alike, is not believed; a job without a prediction is like all jobs
    sigma : standard deviation of the logarithm of the factor of "noisy", default 0.5; 0 = no noise
    estimator_seed : seed of the factors of "noisy", default 0
    """

    left_s: ClassVar[staticmethod[[np.ndarray], np.ndarray]] = staticmethod(mean_left_s)
    """Shares of run times by class -> estimates of the time left at the begin of each level [s]."""

    estimator: str = "oracle"
    sigma: float = 0.5
    estimator_seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters. A scheduler that reads true run times with noise still counts as clairvoyant."""
        if self.estimator not in (*ESTIMATORS, *PREDICTORS):
            raise SchedulerError(unknown_name("estimator", self.estimator, (*ESTIMATORS, *PREDICTORS)))
        if not self.sigma >= 0:
            raise SchedulerError(f"sigma is {self.sigma}: it must be a number >= 0")
        self.clairvoyant = self.estimator in ("oracle", "noisy")
        self._history: History | None = None

    def reset(self, view: ClusterView) -> None:
        """Draw the factors again, from the same seed, and forget what was learned."""
        instance = view.simulation.instance
        self._told, self._history = self.told(instance), None
        if self.estimator not in ESTIMATORS:
            self._history = History(instance, self.estimator)
            self._claims_s, self._unwritten = np.zeros_like(self._history.shares), set[int]()
            restart_s = instance.semantics.checkpoint_s + instance.semantics.restore_s
            self._first = int(np.searchsorted(STARTS_S, RESTARTS * restart_s))

    def told(self, instance: Instance) -> np.ndarray:
        """float64 [J]: for "noisy" the factor of each job, for "user" its claim [s], NaN = none; else empty."""
        if self.estimator == "noisy":
            generator = np.random.default_rng(self.estimator_seed)
            return arrays.exp(self.sigma * draws.normal(generator, len(instance.workload)))
        return instance.workload.jobs["estimate_s"].copy() if self.estimator == "user" else np.empty(0)

    def estimates(self, simulation: Simulation) -> dict[str, np.ndarray]:
        """Return the arrays of :class:`Estimates` beyond those of :class:`Walk`, for a new run."""
        EstimatingScheduler.reset(self, simulation.view_for(self))
        found = no_estimates()
        found["told"] = self._told
        found["source"]["estimator"] = PREDICTED if self._history else ESTIMATORS.index(self.estimator)
        if self._history is not None:
            found["source"]["first"] = self._first
            found["class_of"] = self._history.class_of.copy()
            found["claims_s"] = np.zeros_like(self._history.shares)
        return found

    def predict(self, simulation: Simulation, own: Estimates) -> None:
        """Learn what has happened, and write the classes of the jobs and their claims for the policy."""
        self._follow(simulation)
        assert self._history is not None
        arrived, _ = own.source["arrived"], own.source["ended"] = self._history.heard
        own.class_of[:arrived] = self._history.class_of[:arrived]
        rows = list(self._unwritten)
        own.claims_s[rows] = self._claims_s[rows]
        self._unwritten.clear()

    def _follow(self, simulation: Simulation) -> None:
        history = self._history
        assert history is not None
        history.follow(simulation.arrays)
        if news := history.news():
            self._claims_s[news] = STARTS_S + self.left_s(history.shares[news])
            self._unwritten.update(news)

    @property
    def notes(self) -> dict[str, int]:
        """For how many jobs the predictor was not believed."""
        return {} if self._history is None else self._history.notes(self.name)

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
        if self._history is None:
            check_claims(view.job_id[rows], self._told[rows])
            return claims_after_s(self._told[rows], view.service_s(rows), view.now_s)
        self._follow(view.simulation)
        levels = np.searchsorted(STARTS_S, view.service_s(rows) - ROUNDING * view.now_s) - 1
        return self._claims_s[self._history.class_of[rows], np.where(levels >= self._first, levels, 0)]

    def _noise(self, rows: np.ndarray) -> np.ndarray | float:
        return self._told[rows] if self.estimator == "noisy" else 1.0


def reserved_s(shares: np.ndarray) -> np.ndarray:
    """float64 [C, LEVELS]: time by which 0.9 of the jobs that begin a level have ended [s], for reservations."""
    return quantile_left_s(shares, 0.9)


def no_estimates() -> dict[str, np.ndarray]:
    """Return the arrays of :class:`Estimates` beyond those of :class:`Walk` of a policy that reads true run times."""
    return {
        "source": np.zeros((), SOURCE_DTYPE),
        "told": np.empty(0),
        "class_of": np.empty(0, np.int32),
        "claims_s": np.empty((0, LEVELS)),
    }


def is_strict(view: ClusterView, own: bool) -> bool:
    """Return whether the first job that does not fit blocks the queue; ``own`` holds if the scenario sets no rule."""
    return own if view.semantics.queue == "scheduler" else view.semantics.queue == "strict"
