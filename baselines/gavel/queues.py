"""Gavel's policies without a program: FIFO as coded, FIFO on the fastest type, and AlloX."""

from __future__ import annotations

import random

import numpy as np
from scipy.optimize import linear_sum_assignment

from gpusched_env.baselines.gavel.problem import Problem


def alphabetical(gpu_types: tuple[str, ...]) -> list[int]:
    """Columns of the GPU types by name, as Gavel's code sorts them."""
    return sorted(range(len(gpu_types)), key=lambda column: gpu_types[column].lower())


class FifoAsCoded:
    """Non-preemptive first in, first out, as in Gavel's code; it differs from the FIFO of other papers.

    A job keeps its type until it ends. When a job ends, the first job of the queue gets the type of the ended job,
    provided that enough GPUs of this type are free and the first job has a rate above 0 there. Then the queue is served
    in order. Types with a free GPU are listed by name. The code draws a random type among the listed types on which the
    gang fits. However, it then gives the job the last type of the list, which may become overcommitted. If that last
    type is then exactly full, the drawn type is removed from the list. A job with rate 0 on the last type of the list
    is skipped. No more jobs are served in this call once the list is empty, or once a gang has more GPUs than are free
    of each listed type.

    ``as_stored`` : as in the stored values of the published notebook, the job gets the last type by name that has a
    free GPU now, listed or not, and the draw is among all listed types.

    References
    ----------
    stanford-futuredata/gavel, scheduler/policies/fifo.py. Its effect: at low load every job runs on V100.
    """

    def __init__(self, gpu_types: tuple[str, ...], seed: int = 0, as_stored: bool = False) -> None:
        self._order = alphabetical(gpu_types)
        self._random = random.Random(seed)
        self._as_stored = as_stored
        self._type_of: dict[int, int] = {}

    def __call__(self, problem: Problem) -> np.ndarray:
        """Compute X, 0 or 1."""
        free = problem.gpus.tolist()
        gang_of = dict(zip(problem.rows.tolist(), problem.gangs.tolist(), strict=True))
        runs_on = dict(zip(problem.rows.tolist(), (problem.rates > 0).tolist(), strict=True))
        queue = [row for row in sorted(gang_of) if row not in self._type_of]
        # The code counts running jobs one by one in between; the stored variant counts all of them first.
        for row in sorted(self._type_of, key=lambda row: (self._as_stored and row not in gang_of, row)):
            column = self._type_of[row]
            if row in gang_of:
                free[column] -= gang_of[row]
                continue
            del self._type_of[row]
            if queue and gang_of[queue[0]] <= free[column] and runs_on[queue[0]][column]:
                self._take(queue.pop(0), column, gang_of, free)
        listed = [column for column in self._order if free[column] > 0]
        while queue and listed:
            row = queue.pop(0)
            open_to = listed if self._as_stored else [column for column in listed if free[column] >= gang_of[row]]
            if not open_to:
                break
            drawn = open_to[self._random.randrange(len(open_to))]
            named = [column for column in self._order if free[column] > 0] if self._as_stored else listed
            if not named:
                break
            if runs_on[row][named[-1]]:
                used = named[-1]
                self._take(row, used, gang_of, free)
                if free[used] == 0:
                    listed.remove(drawn)
        return one_type_each(problem, self._type_of)

    def _take(self, row: int, column: int, gang_of: dict[int, int], free: list[int]) -> None:
        self._type_of[row] = column
        free[column] -= gang_of[row]


def fifo_perf(problem: Problem, order: list[int]) -> np.ndarray:
    """First in, first out, decided again at each call: each job on its fastest type with room, while one has room."""
    type_of, _ = serve_fastest(problem, order)
    return one_type_each(problem, type_of)


def serve_fastest(problem: Problem, order: list[int]) -> tuple[dict[int, int], int]:
    """Serve a queue as :func:`fifo_perf` does; return row -> column of its type, and the first position not reached."""
    free = problem.gpus.copy()
    type_of: dict[int, int] = {}
    for job, row in enumerate(problem.rows.tolist()):
        fitting = [column for column in order if problem.gangs[job] <= free[column]]
        if not fitting:
            return type_of, job
        fastest = max(fitting, key=lambda column: problem.rates[job, column])
        if problem.rates[job, fastest] > 0:
            type_of[row] = fastest
            free[fastest] -= problem.gangs[job]
    return type_of, len(problem.gangs)


class AlloX:
    """Least mean completion time by assignment (Le et al., EuroSys 2020), in Gavel's form.

    Each free GPU has a queue, and jobs without a GPU are assigned to positions in these queues. The k-th position from
    the end of a queue costs k x the run time of the job on this GPU. Only the first job of each queue gets the GPU, and
    keeps it until the job ends. To all costs of a job, the published code adds the time that the job has waited. This
    is omitted here, because it never changes the cost of one assignment against another. Equal jobs are served in their
    order; SciPy's solver breaks other ties.

    AlloX is defined for one-GPU jobs. A gang takes one position, as in uw-mad-dash/shockwave,
    scheduler/policies/allox.py. If it is first, its share of time becomes 1 / its size; it keeps this share, takes no
    queue away, and is assigned again each time.

    Parameters
    ----------
    alpha : fraction of the jobs without a GPU that is considered, the oldest first; at least as many jobs are
        considered as there are free GPUs
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self._alpha = alpha
        self._type_of: dict[int, int] = {}

    def __call__(self, problem: Problem) -> np.ndarray:
        """Compute X: 0, or 1 / gang size."""
        present = set(problem.rows.tolist())
        self._type_of = {row: column for row, column in self._type_of.items() if row in present}
        single = problem.gangs == 1
        kept = [row for row in problem.rows[single].tolist() if row in self._type_of]
        taken = np.bincount([self._type_of[row] for row in kept], minlength=len(problem.gpus)).astype(np.int64)
        workers = np.repeat(np.arange(len(taken)), np.maximum(problem.gpus - taken, 0))
        unplaced = np.flatnonzero(~np.isin(problem.rows, kept))
        unplaced = unplaced[: max(int(self._alpha * len(unplaced)), len(workers))]
        if len(workers) and len(unplaced):
            for job, column in assign(problem, unplaced, workers):
                self._type_of[int(problem.rows[job])] = column
        return one_type_each(problem, self._type_of) / problem.gangs[:, None]


def assign(problem: Problem, jobs: np.ndarray, workers: np.ndarray) -> list[tuple[int, int]]:
    """Assign jobs to queues of workers (each a GPU type) with the least total flow time; return the first of each.

    Jobs with equal run times on all types are served in the order of ``jobs``.
    """
    with np.errstate(divide="ignore"):
        run_s = problem.steps_left[jobs, None] / problem.rates[jobs][:, workers]
    places = np.arange(1, len(jobs) + 1)
    never = 1e6 * float(run_s[np.isfinite(run_s)].max(initial=1.0))
    cost = np.where(np.isfinite(run_s), run_s, never)[:, :, None] * places
    row, column = linear_sum_assignment(cost.reshape(len(jobs), -1))
    worker, place = np.divmod(column, len(places))
    possible = np.isfinite(run_s[row, worker])
    front = np.full(len(workers), -1)
    np.maximum.at(front, worker[possible], place[possible])
    like = np.unique(run_s, axis=0, return_inverse=True)[1].reshape(-1)
    row[np.lexsort((worker, front[worker] - place, like))] = np.argsort(like, kind="stable")
    first = possible & (place == front[worker])
    return list(zip(jobs[row[first]].tolist(), workers[worker[first]].tolist(), strict=True))


def one_type_each(problem: Problem, type_of: dict[int, int]) -> np.ndarray:
    """float64 [M, R], X: all the time of one type for each row in ``type_of``, 0 for the others."""
    shares = np.zeros(problem.rates.shape)
    for job, row in enumerate(problem.rows.tolist()):
        if row in type_of:
            shares[job, type_of[row]] = 1.0
    return shares
