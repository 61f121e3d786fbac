"""Gavel's packed programs for many jobs: the time of each job beside each kind of partner, not beside each job."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from gpusched_env.baselines.gavel.problem import Problem
from gpusched_env.baselines.gavel.program import TINY, Program


class KindProgram(Program):
    """The constraints of packed policies over (job, alone or beside a kind of job, type): O(M kinds R) variables.

    ``useful`` : Boolean [P, R], on which types each pair may share GPUs.

    Notes
    -----
    While a job runs beside a partner, half of its gang size counts as used GPUs, as the partner counts for the other
    half. In addition to the limits of time and GPUs, there are two constraints:

    - For two kinds a and b, all jobs of kind a together spend as much time beside kind b as all jobs of kind b together
      spend beside kind a.
    - No job spends more time beside its own kind than all other jobs of that kind together do.

    The constraints are sufficient, because every solution can be turned into pairs. For two kinds, lay the times of
    their jobs along two lines side by side; jobs at the same position are a pair. For one kind, lay the times on a
    circle; each job is paired with the job half a turn ahead. So the optimum equals that of the program over pairs.

    References
    ----------
    stanford-futuredata/gavel, scheduler/policies/max_min_fairness.py. The published program has one more constraint:
    all jobs of a kind spend the same time beside their own kind.
    """

    def __init__(self, problem: Problem, useful: np.ndarray) -> None:
        assert problem.pairs is not None
        assert problem.pair_rates is not None
        assert problem.kinds is not None
        self._problem = problem
        jobs, types = problem.rates.shape
        names, kind = np.unique(problem.kinds, return_inverse=True)
        kinds, self._kind = len(names), kind.reshape(-1)
        beside = np.zeros((kinds, kinds, types))  # rate of a job of the first kind beside one of the second
        first, second = self._kind[problem.pairs].T
        beside[first, second] = problem.pair_rates[:, 0] * useful
        beside[second, first] = problem.pair_rates[:, 1] * useful

        alone_job, alone_type = np.nonzero(problem.rates > 0)
        job, partner, gpu_type = np.nonzero(beside[self._kind] > 0)
        self._alone = alone_job, alone_type
        self._paired = job, partner, gpu_type
        singles, paired = len(alone_job), len(job)
        own = partner == self._kind[job]
        halves = kinds * types  # one variable per kind and type: half of the kind's time beside itself
        count = singles + paired + halves
        at = singles + np.arange(paired)
        half_at = singles + paired + self._kind[job] * types + gpu_type

        column = np.concatenate([np.arange(singles), at])
        owner = np.concatenate([alone_job, job])
        rate = np.concatenate([problem.rates[alone_job, alone_type], beside[self._kind[job], partner, gpu_type]])
        throughput = sparse.csr_array((rate, (owner, column)), (jobs, count))
        time = sparse.csr_array((np.ones(len(owner)), (owner, column)), (jobs, count))
        gpus = problem.gangs[owner] * np.where(np.arange(len(owner)) < singles, 1.0, 0.5)
        demand = sparse.csr_array((gpus, (np.concatenate([alone_type, gpu_type]), column)), (types, count))

        lower, upper = np.minimum(self._kind[job], partner), np.maximum(self._kind[job], partner)
        sign = np.where(self._kind[job] == lower, 1.0, -1.0)[~own]
        couple = ((lower * kinds + upper) * types + gpu_type)[~own]
        _, row = np.unique(couple, return_inverse=True)
        equal = sparse.csr_array((sign, (row.reshape(-1), at[~own])), (int(row.max(initial=-1)) + 1, count))
        # y - h <= 0 for each job, and 2 h - sum y <= 0 for each kind
        rows = np.arange(int(own.sum()))
        most = sparse.csr_array(
            (np.repeat([1.0, -1.0], len(rows)), (np.tile(rows, 2), np.concatenate([at[own], half_at[own]]))),
            (len(rows), count),
        )
        half_of = np.arange(halves)
        first_half = singles + paired
        entries = np.concatenate([np.full(len(rows), -1.0), np.full(halves, 2.0)])
        at_half = np.concatenate([half_at[own] - first_half, half_of])
        entry_at = np.concatenate([at[own], half_of + first_half])
        total = sparse.csr_array((entries, (at_half, entry_at)), (halves, count))
        self._entry, self._type = np.arange(count), np.zeros(count, np.int64)
        self.shape = (count, 1)
        base = sparse.vstack([time, demand, equal, -equal, most, total]).tocsr()
        limits = np.concatenate([np.ones(jobs), problem.gpus, np.zeros(base.shape[0] - jobs - types)])
        self._assemble(problem, throughput, base, limits)

    def _shares_of(self, solution: np.ndarray) -> np.ndarray:
        """float64 [M + P, R]: shares of single jobs, then of the problem's pairs."""
        problem = self._problem
        assert problem.pairs is not None
        jobs, types = problem.rates.shape
        shares = np.zeros((jobs + len(problem.pairs), types))
        singles = len(self._alone[0])
        shares[self._alone] = solution[:singles]
        job, partner, gpu_type = self._paired
        time = solution[singles : singles + len(job)]
        number = problem.pairs[:, 1] * jobs + problem.pairs[:, 0]  # ascending
        used = time > TINY
        groups: dict[tuple[int, int, int], np.ndarray] = {}
        keys = np.stack([self._kind[job], partner, gpu_type])[:, used]
        for key in np.unique(keys, axis=1).T.tolist():
            at = np.flatnonzero(used)[(keys == np.array(key)[:, None]).all(axis=0)]
            groups[key[0], key[1], key[2]] = at
        for (kind, other, column), at in groups.items():
            if kind > other or (other, kind, column) not in groups:
                continue
            facing = groups[other, kind, column]
            meet = (job[at], time[at], job[facing], time[facing])
            first, second, lasts = _half_turn(*meet[:2]) if kind == other else _side_by_side(*meet)
            low, high = np.minimum(first, second), np.maximum(first, second)
            np.add.at(shares[:, column], jobs + np.searchsorted(number, high * jobs + low), lasts)
        return shares


def _side_by_side(
    jobs: np.ndarray, times: np.ndarray, others: np.ndarray, beside: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of jobs, and their time together, when the times of two lists of jobs are laid out side by side."""
    mine, theirs = np.cumsum(times), np.cumsum(beside)
    ends = np.unique(np.concatenate([mine, theirs]))
    ends = ends[ends <= min(mine[-1], theirs[-1])]
    lasts = np.diff(ends, prepend=0.0)
    middle = ends - lasts / 2
    return jobs[np.searchsorted(mine, middle)], others[np.searchsorted(theirs, middle)], lasts


def _half_turn(jobs: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of jobs, and their time together, when times lie on a circle and partners are half a turn apart."""
    ends = np.cumsum(times)
    half = ends[-1] / 2
    cuts = np.unique(np.concatenate([ends[ends <= half], ends[ends > half] - half, [half]]))
    lasts = np.diff(cuts, prepend=0.0)
    middle = cuts - lasts / 2
    first, second = np.searchsorted(ends, middle), np.searchsorted(ends, middle + half)
    apart = (first != second) & (second < len(jobs))
    return jobs[first[apart]], jobs[second[apart]], lasts[apart]
