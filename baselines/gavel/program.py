"""Gavel's policies as linear programs over time shares X of jobs, or pairs of jobs, on GPU types, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.portable.keys import rounded_keys
from gpusched_env.support.plugins import from_clone

TINY: Final = 1e-9  # smaller shares count as 0
# Relative amounts by which a held job may miss its level, tried in this order. Where levels differ much in size, the
# rounding errors of the solver may make smaller amounts infeasible. Larger ones may raise another job far too much.
SLACKS: Final = (TINY, 1e-8, 1e-7, 1e-6)
TOLERANCES: Final = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
INTERIOR: Final = "interior"
TIE_BREAKS: Final = ("vertex", "two_stage", INTERIOR)


def interior() -> Any:
    """Return the programs of the published solver, which only reproduces stored outputs: it is in a clone."""
    return from_clone("studies.reproduce.gavel_interior", "gavel:tie_break=interior")


@dataclass(frozen=True)
class Entries:
    """The entries that may get GPUs: single jobs (second member -1), and pairs of jobs of equal gang size.

    ``rates`` : float64 [K, 2, R], steps/s of each member on each type; 0 = the entry cannot run there.
    """

    members: np.ndarray
    rates: np.ndarray

    @classmethod
    def alone(cls, problem: Problem) -> Entries:
        """Every job as a single entry."""
        jobs = np.arange(len(problem.gangs))
        members = np.stack([jobs, np.full(len(jobs), -1)], axis=1)
        return cls(members, np.stack([problem.rates, np.zeros_like(problem.rates)], axis=1))


class Optimum(NamedTuple):
    """An optimal solution."""

    shares: np.ndarray  # float64 [K, R], X
    throughput: np.ndarray  # float64 [M] steps/s, thr
    value: float
    binding: np.ndarray  # Boolean [M]: no optimal solution gives the job more than its level


class Program:
    """The constraints of all policies.

    The shares X are not negative, the shares of a job add up to at most 1, and no type has more GPUs in use than exist.

    Without ``entries`` no job shares GPUs. ``everywhere`` : variables also where a rate is 0, as published.
    """

    def __init__(self, problem: Problem, entries: Entries | None = None, everywhere: bool = False) -> None:
        entries = entries or Entries.alone(problem)
        single = entries.members[:, 1] < 0
        usable = (entries.rates[:, 0] > 0) & ((entries.rates[:, 1] > 0) | single[:, None])
        usable |= everywhere & single[:, None]
        self._entry, self._type = np.nonzero(usable)
        self.shape = usable.shape
        count, jobs = len(self._entry), len(problem.gangs)
        variables = np.arange(count)
        paired = ~single[self._entry]
        first, second = entries.members[self._entry].T
        job = np.concatenate([first, second[paired]])
        column = np.concatenate([variables, variables[paired]])
        rate = entries.rates[self._entry, :, self._type]
        rates = np.concatenate([rate[:, 0], rate[paired, 1]])
        throughput = sparse.csr_array((rates, (job, column)), (jobs, count))
        time = sparse.csr_array((np.ones(len(job)), (job, column)), (jobs, count))
        demand = sparse.csr_array((problem.gangs[first], (self._type, variables)), (len(problem.gpus), count))
        limits = np.concatenate([np.ones(jobs), problem.gpus])
        self._assemble(problem, throughput, sparse.vstack([time, demand]).tocsr(), limits)

    def _assemble(
        self, problem: Problem, throughput: sparse.csr_array, base: sparse.csr_array, limits: np.ndarray
    ) -> None:
        """Store the constraints: base X <= limits, and thr = throughput X."""
        self.throughput, self._base, self._limits = throughput, base, limits
        self.fastest = problem.rates.max(axis=1)
        # Below the base constraints, one row per job: level <= scaled throughput. The level is the last column.
        level = sparse.csr_array(np.ones((len(self.fastest), 1)))
        rows = sparse.block_array([[self._base, None], [-self.throughput, level]], format="csc")
        rows.sort_indices()
        self._leveled: sparse.csc_array = rows

    def gain_of(self, scale: np.ndarray) -> np.ndarray:
        """float64 [K, R]: contribution of a share to the sum of scale_m thr(m)."""
        gain = np.zeros(self.shape)
        gain[self._entry, self._type] = scale @ self.throughput
        return gain

    def most(self, gain: np.ndarray, least: np.ndarray | None = None) -> Optimum | None:
        """Maximise gain . X, with at least ``least`` float64 [M] steps/s for each job; None = no solution."""
        rows, limits = self._base, self._limits
        if least is not None:
            # Divided by the fastest rate, so that the solver's tolerance is relative for every model.
            must = sparse.diags_array(-1.0 / self.fastest) @ self.throughput
            rows, limits = sparse.vstack([rows, must]), np.concatenate([limits, -least / self.fastest])
        objective = gain[self._entry, self._type]
        unit = objective.max(initial=0.0) or 1.0
        found = linprog(-objective / unit, rows, limits, method="highs", options=TOLERANCES)
        if found.status != 0:
            return None
        return self._optimum(found.x, -float(found.fun) * unit, np.zeros(len(self.fastest), bool))

    def any_with(self, least: np.ndarray, tie_break: str = "vertex") -> Optimum | None:
        """Find shares that give each job at least ``least``, float64 [M] steps/s; None if there are none."""
        if tie_break != INTERIOR:
            return self.most(np.zeros(self.shape), least)
        rows = sparse.vstack([self._base, -self.throughput])
        inside = interior().inside(rows, np.concatenate([self._limits, -least]))
        return None if inside is None else self._optimum(inside, 0.0, np.zeros(len(self.fastest), bool))

    def max_min(
        self,
        scale: np.ndarray,
        tie_break: str = "vertex",
        level: np.ndarray | None = None,
        unit: float = 0.0,
        slack: float = TINY,
    ) -> Optimum | None:
        """Maximise the smallest scale_m thr(m); None if the solver finds no solution.

        Parameters
        ----------
        scale : float64 [M], factor of the throughput of each job
        tie_break : choice among optimal solutions. "vertex" = the one that HiGHS finds; "two_stage" = one with the
            largest sum of scale_m thr(m); "interior" = the one at which ECOS ends, as in the published code
        level : float64 [M], level of scale_m thr(m) that a job must keep; NaN = raise the job. None = raise all
        unit : unit of the values that the solver sees; 0 = the best possible value of the slowest job, with which the
            optimum is about 1
        slack : relative amount by which a held job may miss its level
        """
        rises = np.ones(len(scale), bool) if level is None else ~np.isfinite(level)
        unit = unit or float((scale * self.fastest)[rises].min())
        held = np.zeros(len(scale)) if level is None else np.nan_to_num(level / unit * (1.0 - slack))
        rows = self._scaled(scale / unit, rises)
        limits = np.concatenate([self._limits, -held])
        if tie_break == INTERIOR:
            inside = interior().highest_level(rows, limits)
            if inside is None:
                return None
            return self._optimum(inside[:-1], float(inside[-1]) * unit, ~rises)
        found = _highest(rows, limits)
        if found.status != 0:
            return None
        value, solution = float(found.x[-1]), found.x[:-1]
        binding = self._binding(found)
        if tie_break == "two_stage":
            held = np.where(rises, value * (1.0 - TINY), held)
            objective = np.append(-(scale / unit) @ self.throughput, 0.0)
            rows, limits = self._scaled(scale / unit, np.zeros(len(scale), bool)), np.concatenate([self._limits, -held])
            again = linprog(objective, rows, limits, method="highs", options=TOLERANCES)
            solution = again.x[:-1] if again.status == 0 else solution
        return self._optimum(solution, value * unit, binding & rises)

    def least_finish_time_ratio(self, problem: Problem, alone_s: np.ndarray) -> Optimum | None:
        """Finish-time fairness as one cone program, see ``studies/reproduce/gavel_interior.py``."""
        found = interior().least_finish_time_ratio(problem, alone_s, self.throughput, self._base, self._limits)
        if found is None:
            return None
        count = self.throughput.shape[1]
        return self._optimum(found[:count], float(found[-1]), np.zeros(len(alone_s), bool))

    def raise_levels(self, scale: np.ndarray, level: np.ndarray, weights: np.ndarray, slack: float) -> Optimum | None:
        """Maximise t such that scale_m thr(m) >= level_m + weight_m t, up to a relative slack; None = no solution."""
        unit = float((scale * self.fastest)[weights > 0].min())
        rows = self._scaled(scale / unit, weights)
        held = level / unit * (1.0 - slack)
        found = _highest(rows, np.concatenate([self._limits, -held]))
        if found.status != 0:
            return None
        return self._optimum(found.x[:-1], float(found.x[-1]) * unit, self._binding(found) & (weights > 0))

    def _binding(self, found: Any) -> np.ndarray:
        """Boolean [M]: whether the row of each job has a positive multiplier in a solution of HiGHS."""
        binding: np.ndarray = found.ineqlin.marginals[len(self._limits) :] < -TINY
        return binding

    def _scaled(self, scale: np.ndarray, rises: np.ndarray) -> sparse.csc_array:
        """Rows of a max-min program: the structure of :attr:`_leveled` with other values."""
        last = self._leveled.indptr[-2]
        factor = np.concatenate([np.ones(len(self._limits)), scale])
        data = self._leveled.data * factor[self._leveled.indices]
        data[last:] = rises
        return sparse.csc_array((data, self._leveled.indices, self._leveled.indptr), self._leveled.shape)

    def _optimum(self, solution: np.ndarray, value: float, binding: np.ndarray) -> Optimum:
        solution = np.clip(solution, 0.0, 1.0)
        solution[solution < TINY] = 0.0
        # Shares are rounded, because their last bits depend on machine and solver version and must not break ties.
        # Throughputs are not rounded, because searches that compare them would need twice as many programs to converge.
        return Optimum(self._shares_of(rounded_keys(solution)), self.throughput @ solution, value, binding)

    def _shares_of(self, solution: np.ndarray) -> np.ndarray:
        """float64 [K, R]: share of each entry on each type."""
        shares = np.zeros(self.shape)
        shares[self._entry, self._type] = solution
        return shares


def _highest(rows: sparse.sparray, limits: np.ndarray) -> Any:
    """Maximise the last variable under rows x <= limits by HiGHS."""
    objective = np.zeros(rows.shape[1])
    objective[-1] = -1.0
    return linprog(objective, rows, limits, method="highs", options=TOLERANCES)


def program_of(problem: Problem, entries: Entries | Program | None) -> Program:
    """Constraints over entries; a program is returned unchanged."""
    return entries if isinstance(entries, Program) else Program(problem, entries)
