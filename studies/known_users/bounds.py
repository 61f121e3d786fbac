"""What bounds the agent: the true order, true run times in its classes, and the true distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.agents.index_policy.scheduler import IndexPolicy
from gpusched_env.agents.index_policy.state import IndexState
from gpusched_env.baselines import make_scheduler
from gpusched_env.prediction.levels import counts_of, levels_of, normalised, tables
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Scheduler, Simulation
from studies.unseen_logs.oracles import known_order, with_shipped_weights

AGENT: Final = "learned:general"
TRUTH: Final = "true order"
_LEAST: Final = 1e-3  # jobs of each level, so that no share is 0


class TrueDistribution(IndexPolicy):
    """The agent with one class: the distribution of the run times of the jobs that it plays, which it does not know."""

    def begin(self, simulation: Simulation, alone: bool) -> IndexState:
        """Return the arrays of a run, with the indices of that distribution."""
        own = super().begin(simulation, alone)
        levels = levels_of(simulation.instance.ideal_s)
        shares = normalised(counts_of(levels, np.zeros(len(levels), np.int64), 1) + _LEAST)
        found = tables(shares)
        own.index_s[:], own.left_s[:] = found.index_s, found.mean_s
        return own

    def assist(self, simulation: Simulation, own: IndexState) -> None:
        """Learn nothing."""


def true_distribution() -> Scheduler:
    """Return the shipped agent with the true distribution."""
    return with_shipped_weights(TrueDistribution)


def true_limits(workload: Workload) -> Workload:
    """Return the jobs with their true run times as limits."""
    return workload.unchecked_columns(estimate_s=workload.jobs["duration_s"])


def shuffled_limits(workload: Workload) -> Workload:
    """Return the jobs with limits that are true run times shuffled among the jobs of a user and gang size.

    This is what users and gang sizes can tell about run times if the whole window is known.
    """
    jobs, rng = workload.jobs, np.random.default_rng(0)
    _, users = np.unique(workload.attributes["user"], return_inverse=True)
    order = np.lexsort((np.arange(len(jobs)), jobs["gpus"], users))
    drawn = np.lexsort((rng.random(len(jobs)), jobs["gpus"], users))
    estimate_s = np.empty(len(jobs))
    estimate_s[order] = jobs["duration_s"][drawn]
    return workload.unchecked_columns(estimate_s=estimate_s)


class Bound(NamedTuple):
    """A scheduler that knows more than the agent.

    Parameters
    ----------
    scheduler : makes it
    columns : changes what jobs tell; None = nothing
    """

    scheduler: Callable[[], Scheduler]
    columns: Callable[[Workload], Workload] | None = None


def with_limits() -> Scheduler:
    """Return the agent that predicts by limits."""
    return make_scheduler(f"{AGENT},predictor=limit")


BOUNDS: Final = {
    TRUTH: Bound(known_order),
    "true run times as limits": Bound(with_limits, true_limits),
    "shuffled within user and gang": Bound(with_limits, shuffled_limits),
    "true distribution": Bound(true_distribution),
}
