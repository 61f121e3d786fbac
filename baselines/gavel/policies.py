"""The policies of Gavel by name: what each needs, and how it turns a problem into shares of time X."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from gpusched_env.baselines.gavel import objectives
from gpusched_env.baselines.gavel.packing import Gandiva, fifo_packed, padded
from gpusched_env.baselines.gavel.pairs import solve_packed
from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import INTERIOR, Entries, Optimum, Program
from gpusched_env.baselines.gavel.queues import AlloX, FifoAsCoded, alphabetical, fifo_perf

EQUAL_SHARES: Final = ("steps", "age")

View: TypeAlias = Callable[[Problem], Problem]
"""What a policy knows of a problem."""
Allocate: TypeAlias = Callable[[Problem], np.ndarray | None]
"""float64 [M, R] X of a problem, [M + P, R] if packed; None if the solver finds none. It may remember problems."""


@dataclass(frozen=True)
class Settings:
    """What a policy is built from.

    Parameters
    ----------
    gpu_types : names, in the order of the problem's columns
    seed : of random draws
    tie_break : see :meth:`Program.max_min`
    bisect : min_total_duration by the published search
    equal_share : see :class:`FinishTime`
    alpha : see :class:`AlloX`
    everywhere : policies that are agnostic of types plan time for a job also on types where it cannot run, and interior
        solutions count shares of such types as variables
    """

    gpu_types: tuple[str, ...]
    seed: int = 0
    tie_break: str = "vertex"
    bisect: bool = False
    equal_share: str = "steps"
    alpha: float = 1.0
    everywhere: bool = False


@dataclass(frozen=True)
class Policy:
    """A policy and how the rounds treat it.

    Parameters
    ----------
    build : makes the function for one run
    summary : one phrase
    aware : it knows that GPU types differ: rounds then serve them in a fixed order, else in a random one
    queue : jobs without a share of a type never run there; else they fill what is left
    reads_work : it reads how many steps jobs have left
    packed : jobs may share GPUs in pairs; its X has a row for each job, then one for each of the problem's pairs
    """

    build: Callable[[Settings], Allocate]
    summary: str
    aware: bool = False
    queue: bool = False
    reads_work: bool = False
    packed: bool = False


class FinishTime:
    """Finish-time fairness from one solution to the next: it remembers what an equal share would have done.

    Parameters
    ----------
    aware : knows that types differ
    settings : with equal_share "age" a job's age stands for what an equal share would have taken for the steps done,
        and types that do not differ give a step a second, as in an earlier version of the published code

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
        """Give X; an equal share where the solver finds no solution."""
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
        """float64 [M], I_m: seconds that an equal share would have taken for the steps done [s]."""
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


def _solved(
    objective: Callable[..., Optimum | None], view: Callable[[Settings, Problem], Problem], settings: Settings
) -> Allocate:
    def allocate(problem: Problem) -> np.ndarray | None:
        seen = view(settings, problem)
        found = objective(seen, _everything(settings, seen), tie_break=settings.tie_break)
        return None if found is None else found.shares

    return allocate


def _everything(settings: Settings, problem: Problem) -> Program | None:
    """Give the program that the published solver gets; None = any that has the same optimum."""
    return Program(problem, everywhere=True) if settings.everywhere and settings.tie_break == INTERIOR else None


def _packed(objective: Callable[..., Optimum | None], settings: Settings) -> Allocate:
    def allocate(problem: Problem) -> np.ndarray | None:
        chosen = partial(objective, tie_break=settings.tie_break)
        return solve_packed(problem, chosen, as_published=settings.tie_break == INTERIOR)

    return allocate


def _aware(_: Settings, problem: Problem) -> Problem:
    return problem


def _agnostic(settings: Settings, problem: Problem) -> Problem:
    return problem.agnostic(settings.everywhere)


def _at_reference(settings: Settings, problem: Problem) -> Problem:
    return problem.at_reference(settings.everywhere)


def _duration(settings: Settings) -> Callable[..., Optimum | None]:
    return objectives.bisected_total_duration if settings.bisect else objectives.min_total_duration


def _plain(objective: Callable[[Problem], Optimum | None], _: Settings) -> Allocate:
    def allocate(problem: Problem) -> np.ndarray | None:
        found = objective(problem)
        return None if found is None else found.shares

    return allocate


def _fastest_first(settings: Settings) -> Allocate:
    return partial(fifo_perf, order=alphabetical(settings.gpu_types))


_las, _filled = objectives.max_min_fairness, objectives.water_filling
_cheap, _timely = objectives.max_throughput_by_cost, partial(objectives.max_throughput_by_cost, deadlines=True)
POLICIES: Final[Mapping[str, Policy]] = {
    "max_min_fairness": Policy(partial(_solved, _las, _agnostic), "LAS: least attained service, types alike"),
    "max_min_fairness_perf": Policy(partial(_solved, _las, _aware), "LAS that knows the types", aware=True),
    "max_min_fairness_water_filling": Policy(
        partial(_solved, _filled, _agnostic), "LAS beyond the first bottleneck, types alike"
    ),
    "max_min_fairness_water_filling_perf": Policy(
        partial(_solved, _filled, _aware), "LAS beyond the first bottleneck", aware=True
    ),
    "max_min_fairness_packed": Policy(
        partial(_packed, _las), "LAS that knows the types, pairs of jobs share GPUs", aware=True, packed=True
    ),
    "max_min_fairness_water_filling_packed": Policy(
        partial(_packed, _filled), "LAS beyond the first bottleneck, pairs share GPUs", aware=True, packed=True
    ),
    "finish_time_fairness": Policy(
        partial(FinishTime, False), "least largest rho (Themis), types alike", reads_work=True
    ),
    "finish_time_fairness_perf": Policy(
        partial(FinishTime, True), "least largest rho (Themis)", aware=True, reads_work=True
    ),
    "finish_time_fairness_packed": Policy(
        partial(FinishTime, True, packed=True),
        "least largest rho (Themis), pairs share GPUs",
        aware=True,
        reads_work=True,
        packed=True,
    ),
    "min_total_duration": Policy(
        lambda settings: _solved(_duration(settings), _at_reference, settings),
        "least makespan, types alike",
        reads_work=True,
    ),
    "min_total_duration_perf": Policy(
        lambda settings: _solved(_duration(settings), _aware, settings), "least makespan", aware=True, reads_work=True
    ),
    "min_total_duration_packed": Policy(
        lambda settings: _packed(_duration(settings), settings),
        "least makespan, pairs share GPUs",
        aware=True,
        reads_work=True,
        packed=True,
    ),
    "max_sum_throughput_perf": Policy(
        partial(_plain, objectives.max_sum_throughput), "most steps a second", aware=True
    ),
    "max_sum_throughput_normalized_by_cost_perf": Policy(
        partial(_plain, _cheap), "most steps for the money", aware=True
    ),
    "max_sum_throughput_normalized_by_cost_perf_SLOs": Policy(
        partial(_plain, _timely), "most steps for the money, deadlines kept", aware=True, reads_work=True
    ),
    "isolated": Policy(lambda _: lambda problem: problem.isolated, "an equal share of each type for every job"),
    "fifo": Policy(
        lambda settings: FifoAsCoded(settings.gpu_types, settings.seed),
        "first in, first out, as Gavel's code plays it",
        queue=True,
    ),
    "fifo_stored": Policy(
        lambda settings: FifoAsCoded(settings.gpu_types, settings.seed, as_stored=True),
        "the reading of fifo that the published notebook's stored row follows",
        queue=True,
    ),
    "fifo_perf": Policy(_fastest_first, "first in, first out, each on its fastest type", aware=True, queue=True),
    "fifo_packed": Policy(
        lambda settings: partial(fifo_packed, order=alphabetical(settings.gpu_types)),
        "first in, first out on the fastest type; the next in the queue join running jobs",
        aware=True,
        queue=True,
        packed=True,
    ),
    "gandiva": Policy(
        lambda settings: Gandiva(settings.seed),
        "random pairs, dissolved where they lose, share time equally",
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
