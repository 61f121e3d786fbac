"""Gavel's policies without a program: FIFO as coded, FIFO on the fastest type, and AlloX for one-GPU jobs."""

from __future__ import annotations

import random

import numpy as np
from scipy.optimize import linear_sum_assignment

from gpusched_env.baselines.gavel_problem import Problem
from gpusched_env.errors import SchedulerError


def alphabetical(gpu_types: tuple[str, ...]) -> list[int]:
    """Columns of the GPU types by name, as Gavel's code sorts them."""
    return sorted(range(len(gpu_types)), key=lambda column: gpu_types[column].lower())


class FifoAsCoded:
    """Non-preemptive first in, first out, as Gavel's code plays it: this is not the FIFO of other papers.

    A job that holds a type keeps it. When a job ends, the head of the queue inherits its type if it fits. Then the
    queue is served in order: the code draws a random type among those listed with room, but gives the job the last
    type by name that has any free GPU, without a look at whether the gang fits; when the given type is exactly full,
    the drawn one leaves the list. It stops when the list or the queue is empty.

    Parameters
    ----------
    gpu_types : names, for their order
    seed : of the draws

    References
    ----------
    stanford-futuredata/gavel, scheduler/policies/fifo.py; its effect: at low load every job runs on V100.
    """

    def __init__(self, gpu_types: tuple[str, ...], seed: int = 0) -> None:
        self._order = alphabetical(gpu_types)
        self._random = random.Random(seed)
        self._type_of: dict[int, int] = {}

    def __call__(self, problem: Problem) -> np.ndarray:
        """Give X, 0 or 1."""
        free = problem.gpus.tolist()
        gang_of = dict(zip(problem.rows.tolist(), problem.gangs.tolist(), strict=True))
        queue = [row for row in sorted(gang_of) if row not in self._type_of]
        ended = [row for row in sorted(self._type_of) if row not in gang_of]
        for row in sorted(self._type_of):
            if row in gang_of:
                free[self._type_of[row]] -= gang_of[row]
        for row in ended:
            column = self._type_of.pop(row)
            if queue and gang_of[queue[0]] <= free[column]:
                self._take(queue.pop(0), column, gang_of, free)
        listed = [column for column in self._order if free[column] > 0]
        while queue and listed:
            drawn = self._random.randrange(len(listed))
            with_room = [column for column in self._order if free[column] > 0]
            if not with_room:
                break
            self._take(queue.pop(0), with_room[-1], gang_of, free)
            if free[with_room[-1]] == 0:
                listed.pop(drawn)
        return _one_type_each(problem, self._type_of)

    def _take(self, row: int, column: int, gang_of: dict[int, int], free: list[int]) -> None:
        self._type_of[row] = column
        free[column] -= gang_of[row]


def fifo_perf(problem: Problem, order: list[int]) -> np.ndarray:
    """Decide anew in order of arrival: each job on its fastest type with room; stop at the first that fits nowhere.

    Parameters
    ----------
    order : columns of the GPU types; of equally fast types the first counts
    """
    free = problem.gpus.copy()
    type_of: dict[int, int] = {}
    for job, row in enumerate(problem.rows.tolist()):
        fitting = [c for c in order if problem.rates[job, c] > 0 and problem.gangs[job] <= free[c]]
        if not fitting:
            break
        type_of[row] = max(fitting, key=lambda column: problem.rates[job, column])
        free[type_of[row]] -= problem.gangs[job]
    return _one_type_each(problem, type_of)


class AlloX:
    """Least mean completion time of one-GPU jobs by assignment (Le et al., EuroSys 2020), as Gavel plays it.

    Unplaced jobs are assigned to places in the queues of the free GPUs: the k-th place from the end costs k run times
    there. Only the first of each queue gets its GPU, and keeps it to its end. The time a job has waited would be added
    to all its costs alike, so it never changes the assignment, and is left out.

    Parameters
    ----------
    alpha : share of the unplaced jobs that is considered, the oldest first; at least as many as there are free GPUs
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self._alpha = alpha
        self._type_of: dict[int, int] = {}

    def __call__(self, problem: Problem) -> np.ndarray:
        """Give X, 0 or 1."""
        if (problem.gangs > 1).any():
            raise SchedulerError("gavel, policy allox: it assigns single GPUs; leave out gangs, or take another policy")
        present = set(problem.rows.tolist())
        self._type_of = {row: column for row, column in self._type_of.items() if row in present}
        free = problem.gpus - np.bincount(list(self._type_of.values()), minlength=len(problem.gpus)).astype(np.int64)
        workers = np.repeat(np.arange(len(free)), free)
        unplaced = np.array(
            [job for job, row in enumerate(problem.rows.tolist()) if row not in self._type_of], np.int64
        )
        unplaced = unplaced[: max(int(self._alpha * len(unplaced)), len(workers))]
        if len(workers) and len(unplaced):
            for job, column in assign(problem, unplaced, workers):
                self._type_of[int(problem.rows[job])] = column
        return _one_type_each(problem, self._type_of)


def assign(problem: Problem, jobs: np.ndarray, workers: np.ndarray) -> list[tuple[int, int]]:
    """Assign jobs to places in the workers' queues at least total flow time; name those that come first.

    Parameters
    ----------
    jobs : int [n], positions in the problem
    workers : int [W], GPU type of each free GPU

    Returns
    -------
    list : (job, GPU type) of the first of each queue
    """
    with np.errstate(divide="ignore"):
        run_s = problem.steps_left[jobs, None] / problem.rates[jobs][:, workers]
    places = np.arange(1, len(jobs) + 1)
    never = 1e6 * float(run_s[np.isfinite(run_s)].max(initial=1.0))
    cost = np.where(np.isfinite(run_s), run_s, never)[:, :, None] * places
    row, column = linear_sum_assignment(cost.reshape(len(jobs), -1))
    worker, place = np.divmod(column, len(places))
    first: dict[int, tuple[int, int]] = {}
    for job, at, k in zip(jobs[row].tolist(), worker.tolist(), place.tolist(), strict=True):
        if np.isfinite(run_s[jobs == job, at]).all() and k >= first.get(at, (-1, -1))[0]:
            first[at] = (k, job)
    return [(job, int(workers[at])) for at, (_, job) in first.items()]


def _one_type_each(problem: Problem, type_of: dict[int, int]) -> np.ndarray:
    shares = np.zeros(problem.rates.shape)
    for job, row in enumerate(problem.rows.tolist()):
        if row in type_of:
            shares[job, type_of[row]] = 1.0
    return shares
