"""Gavel's policies by name: what each policy reads, and how it turns a problem into time shares X."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

import numpy as np

from gpusched_env.baselines.gavel import objectives
from gpusched_env.baselines.gavel.entities import Entity, fill_by_entity
from gpusched_env.baselines.gavel.packing import Gandiva, fifo_packed, padded
from gpusched_env.baselines.gavel.pairs import solve_packed
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import INTERIOR, Entries, Optimum, Program
from gpusched_env.baselines.gavel.queues import AlloX, FifoAsCoded, alphabetical, fifo_perf

EQUAL_SHARES: Final = ("steps", "age")

View: TypeAlias = Callable[[Problem], Problem]
"""A function that returns the problem as a policy sees it."""
Allocate: TypeAlias = Callable[[Problem], np.ndarray | None]
"""A function from a problem to X, float64 [M, R], or [M + P, R] if packed; it may have state.

The result is None if the solver finds no solution.
"""


@dataclass(frozen=True)
class Settings:
    """Parameters from which a policy is built: those of the scheduler, and of the problem.

    ``leaf`` : int [J], row of each job's tenant; None = one tenant. ``everywhere`` : policies that ignore types plan
    time also on types where a job cannot run.
    """

    gpu_types: tuple[str, ...]
    seed: int = 0
    tie_break: str = "vertex"
    bisect: bool = False
    equal_share: str = "steps"
    alpha: float = 1.0
    everywhere: bool = False
    leaf: np.ndarray | None = None
    tenant_weights: np.ndarray | None = None


@dataclass(frozen=True)
class Policy:
    """A policy, and how the rounds treat it.

    ``aware`` : it knows that GPU types differ, and rounds serve the types in a fixed order, else in a random one.
    ``queue`` : a job without a share of a type never runs there, else it gets GPUs that are left. ``packed`` : jobs may
    share GPUs in pairs; X has a row for each job, then for each pair.
    """

    build: Callable[[Settings], Allocate]
    summary: str
    aware: bool = False
    queue: bool = False
    reads_work: bool = False
    packed: bool = False


class FinishTime:
    """Finish-time fairness over successive problems, with the time that each job's steps would take on an equal share.

    ``equal_share`` "age" is an earlier version of the published code: the age of a job replaces the stored time, and a
    policy that is not aware assumes 1 step/s on every type.

    References
    ----------
    stanford-futuredata/gavel, scheduler/policies/finish_time_fairness.py; commit 076074c for "age".
    """

    def __init__(self, aware: bool, settings: Settings, packed: bool = False) -> None:
        self._by_age = settings.equal_share == "age"
        alike = _agnostic if self._by_age else _at_reference
        self._view: View = partial(_aware if aware else alike, settings)
        self._settings, self._tie_break, self._packed = settings, settings.tie_break, packed
        self._last: dict[int, tuple[float, float, float]] = {}  # job -> I_m, steps left, thr_iso at the last problem

    def __call__(self, problem: Problem) -> np.ndarray | None:
        """Compute X; an equal share if the solver finds no solution."""
        seen = self._view(problem)
        rate = (seen.isolated * seen.rates).sum(axis=1)
        isolated_s = problem.age_s if self._by_age else self._equal_share_s(problem, rate)
        if self._packed:
            objective = partial(self._fair, isolated_s, rate)
            shares = solve_packed(seen, objective, as_published=self._tie_break == INTERIOR)
            return padded(seen, seen.isolated) if shares is None else shares
        found = self._fair(isolated_s, rate, seen, _everything(self._settings, seen))
        return seen.isolated if found is None else found.shares

    def _equal_share_s(self, problem: Problem, rate: np.ndarray) -> np.ndarray:
        """float64 [M], I_m: time that the steps done so far would have taken on an equal share [s]."""
        isolated_s = np.zeros(len(rate))
        for job, row in enumerate(problem.rows.tolist()):
            if row in self._last:
                before_s, left, rate_then = self._last[row]
                isolated_s[job] = before_s + (left - problem.steps_left[job]) / rate_then
        columns = zip(isolated_s.tolist(), problem.steps_left.tolist(), rate.tolist(), strict=True)
        self._last = dict(zip(problem.rows.tolist(), columns, strict=True))
        return isolated_s

    def _fair(
        self, isolated_s: np.ndarray, rate: np.ndarray, problem: Problem, entries: Entries | Program | None = None
    ) -> Optimum | None:
        return objectives.finish_time_fairness(problem, isolated_s, rate, entries, self._tie_break)


# Policies are partial calls of these functions, not functions inside functions: a scheduler can then be pickled.
def _solve(
    objective: Callable[..., Optimum | None],
    view: Callable[[Settings, Problem], Problem],
    settings: Settings,
    problem: Problem,
) -> np.ndarray | None:
    seen = view(settings, problem)
    found = objective(seen, _everything(settings, seen), tie_break=settings.tie_break)
    return None if found is None else found.shares


def _fill(rule: str, settings: Settings, problem: Problem) -> np.ndarray | None:
    leaf = np.zeros(len(problem.gangs), np.int64) if settings.leaf is None else settings.leaf[problem.rows]
    weights = np.ones(1) if settings.tenant_weights is None else settings.tenant_weights
    entities = [
        Entity(np.flatnonzero(leaf == row).tolist(), float(weights[row]), rule) for row in np.unique(leaf).tolist()
    ]
    found = fill_by_entity(problem, entities)
    return None if found is None else found.shares


def _everything(settings: Settings, problem: Problem) -> Program | None:
    """Return the program of the published solver; None = any program with the same optimum."""
    return Program(problem, everywhere=True) if settings.everywhere and settings.tie_break == INTERIOR else None


def _solve_packed(objective: Callable[..., Optimum | None], settings: Settings, problem: Problem) -> np.ndarray | None:
    chosen = partial(objective, tie_break=settings.tie_break)
    return solve_packed(problem, chosen, as_published=settings.tie_break == INTERIOR)


def _aware(_: Settings, problem: Problem) -> Problem:
    return problem


def _agnostic(settings: Settings, problem: Problem) -> Problem:
    return problem.agnostic(settings.everywhere)


def _at_reference(settings: Settings, problem: Problem) -> Problem:
    return problem.at_reference(settings.everywhere)


def _duration(settings: Settings) -> Callable[..., Optimum | None]:
    return objectives.bisected_total_duration if settings.bisect else objectives.min_total_duration


def _shares(objective: Callable[[Problem], Optimum | None], _: Settings, problem: Problem) -> np.ndarray | None:
    found = objective(problem)
    return None if found is None else found.shares


def _allocating(function: Callable[..., np.ndarray | None], *given: object) -> Callable[[Settings], Allocate]:
    """Return the builder of a policy without state: it binds the settings to a function, which then takes problems."""
    return partial(partial, function, *given)


_las, _filled = objectives.max_min_fairness, objectives.water_filling
_cheap, _timely = objectives.max_throughput_by_cost, partial(objectives.max_throughput_by_cost, deadlines=True)
POLICIES: Final[Mapping[str, Policy]] = {
    "max_min_fairness": Policy(_allocating(_solve, _las, _agnostic), "LAS: least attained service, ignores GPU types"),
    "max_min_fairness_perf": Policy(_allocating(_solve, _las, _aware), "LAS, aware of GPU types", aware=True),
    "max_min_fairness_water_filling": Policy(
        _allocating(_solve, _filled, _agnostic), "LAS beyond the first bottleneck, ignores GPU types"
    ),
    "max_min_fairness_water_filling_perf": Policy(
        _allocating(_solve, _filled, _aware), "LAS beyond the first bottleneck", aware=True
    ),
    "max_min_fairness_water_filling_tenants_perf": Policy(
        _allocating(_fill, "fairness"), "by weights of tenants, among the jobs of each by their weights", aware=True
    ),
    "max_min_fairness_water_filling_tenants_fifo_perf": Policy(
        _allocating(_fill, "fifo"), "by weights of tenants, to the first job of each", aware=True
    ),
    "max_min_fairness_packed": Policy(
        _allocating(_solve_packed, _las), "LAS, aware of GPU types, pairs of jobs share GPUs", aware=True, packed=True
    ),
    "max_min_fairness_water_filling_packed": Policy(
        _allocating(_solve_packed, _filled),
        "LAS beyond the first bottleneck, pairs share GPUs",
        aware=True,
        packed=True,
    ),
    "finish_time_fairness": Policy(
        partial(FinishTime, False), "smallest maximum rho (Themis), ignores GPU types", reads_work=True
    ),
    "finish_time_fairness_perf": Policy(
        partial(FinishTime, True), "smallest maximum rho (Themis)", aware=True, reads_work=True
    ),
    "finish_time_fairness_packed": Policy(
        partial(FinishTime, True, packed=True),
        "smallest maximum rho (Themis), pairs share GPUs",
        aware=True,
        reads_work=True,
        packed=True,
    ),
    "min_total_duration": Policy(
        lambda settings: partial(_solve, _duration(settings), _at_reference, settings),
        "least makespan, ignores GPU types",
        reads_work=True,
    ),
    "min_total_duration_perf": Policy(
        lambda settings: partial(_solve, _duration(settings), _aware, settings),
        "least makespan",
        aware=True,
        reads_work=True,
    ),
    "min_total_duration_packed": Policy(
        lambda settings: partial(_solve_packed, _duration(settings), settings),
        "least makespan, pairs share GPUs",
        aware=True,
        reads_work=True,
        packed=True,
    ),
    "max_sum_throughput_perf": Policy(
        _allocating(_shares, objectives.max_sum_throughput), "most steps a second", aware=True
    ),
    "max_sum_throughput_normalized_by_cost_perf": Policy(
        _allocating(_shares, _cheap), "most steps for the money", aware=True
    ),
    "max_sum_throughput_normalized_by_cost_perf_SLOs": Policy(
        _allocating(_shares, _timely), "most steps for the money, deadlines kept", aware=True, reads_work=True
    ),
    "isolated": Policy(lambda _: attrgetter("isolated"), "an equal share of each type for every job"),
    "fifo": Policy(
        lambda settings: FifoAsCoded(settings.gpu_types, settings.seed),
        "first in, first out, as in Gavel's code",
        queue=True,
    ),
    "fifo_stored": Policy(
        lambda settings: FifoAsCoded(settings.gpu_types, settings.seed, as_stored=True),
        "the reading of fifo that the published notebook's stored row follows",
        queue=True,
    ),
    "fifo_perf": Policy(
        lambda settings: partial(fifo_perf, order=alphabetical(settings.gpu_types)),
        "first in, first out, each on its fastest type",
        aware=True,
        queue=True,
    ),
    "fifo_packed": Policy(
        lambda settings: partial(fifo_packed, order=alphabetical(settings.gpu_types)),
        "first in, first out on the fastest type; then queued jobs join running ones",
        aware=True,
        queue=True,
        packed=True,
    ),
    "gandiva": Policy(
        lambda settings: Gandiva(settings.seed),
        "equal time shares; random pairs, dissolved if they lose",
        aware=True,
        packed=True,
    ),
    "allox": Policy(
        lambda settings: AlloX(settings.alpha),
        "least mean completion time of one-GPU jobs",
        aware=True,
        reads_work=True,
    ),
}
