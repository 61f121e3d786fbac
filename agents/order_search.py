"""A scheduler that rehearses orders of jobs in a copy of the run, and plays the one with the shortest makespan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from gpusched_env.agents.searched import SearchedRule
from gpusched_env.errors import SchedulerError
from gpusched_env.portable import arrays, draws
from gpusched_env.simulator import ClairvoyantView, ClusterView, Decision, Outcome, Simulation

FORMAT: Final = "gpusched-order-search-1"
# Of a fresh order: mean and standard deviation of the weight of ln(gang size), standard deviation of the noise of each
# job, probabilities of the rule "pack" (otherwise "consolidate") and of skipping jobs that do not fit. Of a changed
# order: standard deviation of the change of a job.
NAMES: Final = ("gang", "spread", "noise", "pack", "skip", "jump")
DEFAULTS: Final = (0.04, 0.08, 0.05, 0.5, 0.25, 0.3)
FRESH: Final = 4  # one in so many orders is fresh, and all of the first ones; the others change the best one so far
LAST: Final = 8  # jobs whose mean finish ranks orders of equal makespan
ROUNDING: Final = 1e-9  # relative difference below which times are equal


class Plan(Protocol):
    """What can be rehearsed."""

    def starts(self, view: ClusterView) -> Iterable[Decision]:
        """Return the decisions of now."""


class Order(NamedTuple):
    """An order of the arrived jobs, small keys first, and how they start; strict: a job that does not fit blocks."""

    keys: np.ndarray
    rule: str
    strict: bool

    def starts(self, view: ClusterView) -> Iterable[Decision]:
        """Return the jobs that start now."""
        rows = view.waiting
        if not len(rows) or not view.free_gpus:
            return []
        return view.list_schedule(rows[np.argsort(self.keys[rows], kind="stable")], self.rule, self.strict)


class Rehearsed(NamedTuple):
    """An order, when the last job of its rehearsal ends, the mean end of the LAST jobs, and that of each job [s].

    If the job that finishes last does not wait (``waits``), no order is better, apart from the placement.
    """

    order: Plan
    end_s: float
    late_s: float
    finish_s: np.ndarray
    waits: bool


@dataclass
class OrderSearch(SearchedRule):
    """Rehearse orders of the jobs that are there, and play the best: small makespan first.

    The first order is the longest job first, consolidated, where the first job that does not fit blocks the queue (the
    baseline ``lpt:placement=consolidate,strict=true``). The others are random: fresh ones, by ln(run time) + weight x
    ln(gang size) + noise, or changes of the best one so far, which move late jobs forward. The search ends early at an
    order whose last job does not wait. It begins anew when jobs arrive. It never preempts.

    Parameters
    ----------
    agent, path : as in :class:`SearchedRule`
    rehearsals : number of orders to try, at least 1, default 100
    seed : seed of the orders, default 0
    """

    kind: ClassVar = "order search"
    format: ClassVar = FORMAT
    names: ClassVar[tuple[str, ...]] = NAMES
    rehearsals: int = 100
    seed: int = 0
    clairvoyant: bool = field(init=False, default=True)
    _copy: Simulation | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        """Read the weights."""
        if self.rehearsals < 1:
            raise SchedulerError(f"order search: rehearsals is {self.rehearsals}: it must be at least 1")
        super().__post_init__()

    def reset(self, view: ClusterView) -> None:
        """Forget the order of an earlier run."""
        self._planned, self._copy = 0, None
        self._generator = np.random.default_rng(self.seed)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """Start jobs in the best order that was found when the last job arrived."""
        assert isinstance(view, ClairvoyantView)
        if view.arrived > self._planned:
            self._planned = view.arrived
            self._best = self.search(view)
        return self._best.order.starts(view)

    def search(self, view: ClairvoyantView) -> Rehearsed:
        """Return the best of the rehearsed orders."""
        best = self._rehearse_whole(view, self._first(view))
        for number in range(1, self.rehearsals):
            if not best.waits:
                break
            fresh = number < self.rehearsals // FRESH or self._generator.random() < 1.0 / FRESH
            order = self._fresh(best) if fresh else self._changed(best)
            tried = self._rehearse(view, order, best.end_s)
            if tried is not None and (tried.end_s, tried.late_s) <= (best.end_s, best.late_s):
                best = tried
        return best

    def _first(self, view: ClairvoyantView) -> Plan:
        rows = np.arange(view.arrived)
        self._logs = arrays.log(np.maximum(view.remaining_s(rows), 1.0))
        self._sizes = arrays.log(view.gpus[rows].astype(float))
        return Order(-self._logs, "consolidate", True)

    def _fresh(self, best: Rehearsed) -> Plan:
        gang, spread, noise, pack, skip, _ = self.rule
        weight = gang + spread * float(draws.normal(self._generator, 1)[0])
        keys = -(self._logs + weight * self._sizes + noise * draws.normal(self._generator, len(self._logs)))
        rule = "pack" if self._generator.random() < pack else "consolidate"
        return Order(keys, rule, bool(self._generator.random() >= skip))

    def _changed(self, best: Rehearsed) -> Plan:
        assert isinstance(best.order, Order)
        return best.order._replace(keys=self._moved(best.order.keys, best, self.rule[-1]))

    def _moved(self, keys: np.ndarray, best: Rehearsed, jump: float) -> np.ndarray:
        """Move one of the jobs that finish last forward, or three jobs anywhere."""
        keys = keys.copy()
        if self._generator.random() < 0.5:
            late = np.argsort(-best.finish_s, kind="stable")[:LAST]
            keys[late[self._generator.integers(len(late))]] -= jump * abs(float(draws.normal(self._generator, 1)[0]))
        else:
            keys[self._generator.integers(len(keys), size=3)] += jump * draws.normal(self._generator, 3)
        return keys

    def _rehearse_whole(self, view: ClairvoyantView, order: Plan) -> Rehearsed:
        """Play an order to the end; if the time limit of the scenario ends it, no other order is tried."""
        nobody = np.empty(0)
        return self._rehearse(view, order, np.inf) or Rehearsed(order, np.inf, np.inf, nobody, waits=False)

    def _rehearse(self, view: ClairvoyantView, order: Plan, limit_s: float) -> Rehearsed | None:
        """Play an order in a copy of the run; None = some job finishes after ``limit_s``."""
        self._copy = view.simulation.rehearsal(limit_s * (1.0 + ROUNDING), self._copy)
        ahead = self._copy.view_for(self)
        while True:
            for start in order.starts(ahead):
                self._copy.apply(start)
            if (outcome := self._copy.advance()) is not Outcome.DECIDE:
                break
        if outcome is not Outcome.DONE:
            return None
        jobs = self._copy.arrays.jobs[: view.arrived]
        finish_s = jobs["finish_s"].copy()
        last = int(np.argmax(finish_s))
        late_s = arrays.mean(np.sort(finish_s)[-LAST:])
        return Rehearsed(order, float(finish_s[last]), late_s, finish_s, self._waits(view, last))

    def _waits(self, view: ClairvoyantView, last: int) -> bool:
        """Return whether the job that finished last in the rehearsal waited there."""
        assert self._copy is not None
        return bool(self._copy.arrays.jobs["first_start_s"][last] > view.now_s)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the copy of a run."""
        return self.__dict__ | {"_copy": None}
