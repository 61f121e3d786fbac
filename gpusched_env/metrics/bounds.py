"""Lower bounds on mean JCT and makespan of a problem, which no scheduler can beat."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from gpusched_env.metrics.series import StepFunction
from gpusched_env.metrics.summary import Window, tracked
from gpusched_env.portable.arrays import total
from gpusched_env.problem.dependencies import AFTER, Holds
from gpusched_env.problem.instance import Instance

ROUNDING: Final = 1e-8  # tolerance for rounding, as a share of a GPU's memory


def lower_bounds(instance: Instance, window: Window | None = None) -> dict[str, float]:
    """Return lower bounds on ``mean_jct_s``, over the jobs of the window, and ``makespan_s``, over all jobs [s].

    They hold for schedules in which every job finishes. If jobs are refused or cancelled, the mean JCT is that of fewer
    jobs, and may be smaller.

    Parameters
    ----------
    instance : the problem. Rounds, preemption costs and slow placements are ignored, because they only make schedules
        worse
    window : arrival ranks of the tracked jobs, as in :func:`~gpusched_env.metrics.summarise`. The bound leaves out the
        other jobs; without them the JCTs of the tracked jobs can only be shorter, so the bound is valid
    """
    jobs = instance.workload.jobs
    rows = tracked(instance, window)
    arrival, gang = jobs["arrival_s"], jobs["gpus"]
    ideal = instance.shortest_s
    if instance.sizes.elastic:
        ideal, gang = best_sizes(instance)
    # A job with c copies is at most c times as fast as with one. A job of several sizes runs in one copy.
    copies = np.where(instance.sizes.count == 1, instance.semantics.max_copies, 1)
    ideal = ideal / copies
    gang = gang * copies
    gpus = float(instance.cluster.gpus)
    if instance.sharing is not None:
        ideal = ideal * shortest_by_sub_steps(instance)[instance.job_class]
        gpus *= work_of_shared_gpu(instance)
    if instance.holds is not None:
        return _bounds_with_holds(instance, instance.holds, gang, ideal, gpus, rows)
    return {
        "mean_jct_s": mean_jct_bound(arrival[rows], gang[rows], ideal[rows], gpus),
        "makespan_s": makespan_bound(arrival, gang, ideal, gpus),
    }


def _bounds_with_holds(
    instance: Instance, holds: Holds, gang: np.ndarray, ideal_s: np.ndarray, gpus: float, rows: slice
) -> dict[str, float]:
    """Return the bounds of :func:`lower_bounds` if jobs may be held.

    JCTs count from the entry into the queue. Of a job that depends on others, the schedule decides when that is, so the
    bound on the mean JCT leaves it out, and adds its ideal run time. For the makespan, which is defined only if every
    job finishes, a job enters no earlier than the ideal run times of the jobs before it allow (critical path).
    """
    free = ~holds.depends
    arrival_s = np.maximum(holds.eligible_s, holds.eligible_s[free].min())
    jobs = instance.workload.jobs
    rank = np.empty(len(jobs), np.int64)
    rank[np.lexsort([jobs["id"], jobs["arrival_s"]])] = np.arange(len(jobs))
    for before, after, kind, delay_s in holds.edges[np.argsort(rank[holds.edges["before"]], kind="stable")].tolist():
        end_s = arrival_s[before] + (0.0 if kind == AFTER else ideal_s[before]) + delay_s
        arrival_s[after] = max(arrival_s[after], end_s)
    tracked_free = np.flatnonzero(free[rows]) + rows.start
    order = tracked_free[np.argsort(arrival_s[tracked_free], kind="stable")]
    jct_s = total(ideal_s[rows][~free[rows]])
    if len(order):
        jct_s += len(order) * mean_jct_bound(arrival_s[order], gang[order], ideal_s[order], gpus)
    return {
        "mean_jct_s": jct_s / (rows.stop - rows.start),
        "makespan_s": makespan_bound(arrival_s, gang, ideal_s, gpus),
    }


def best_sizes(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Return the shortest run time of each job over its sizes [s], and its least GPU time / this time [GPU].

    Both are float64 [J]. A rigid gang of the second number of GPUs with the first run time has the least work, and does
    it at the highest rate, that the elastic job can have at any of its sizes. The bounds use no more than that.
    """
    table = instance.sizes
    seconds = instance.ideal_iteration_s[table.job_class]
    starts = np.flatnonzero(table.group == np.arange(len(table.group)))
    of_job = np.searchsorted(starts, table.first)
    fastest_s = np.minimum.reduceat(seconds, starts)[of_job]
    least_gpu_s = np.minimum.reduceat(seconds * table.gpus, starts)[of_job]
    return instance.iterations * fastest_s, least_gpu_s / fastest_s


def work_of_shared_gpu(instance: Instance) -> float:
    """Return an upper bound on the work that the gangs on one GPU do per second; at least 1.

    The unit of work is a second of an unshared GPU. With xi = 1, a GPU does the work of ``limit`` unshared GPUs, so a
    bound for unshared GPUs does not hold for shared GPUs.

    Notes
    -----
    A gang that is alone on the GPU does at most 1 unit of work per second. Among n gangs, each is slowed down by its
    worst neighbour, and the worst neighbour is no better than the mean: ``1 / max_j xi_ij <= sum_j (1 / xi_ij) / (n -
    1)``. In the sum over all gangs, each pair counts once, with ``1 / xi_ij + 1 / xi_ji <= P``. P is the largest such
    sum of all pairs that may share a GPU of some type and fit into its memory. So n gangs together do at most ``n (n -
    1) / 2 x P / (n - 1) = n P / 2``, and n is at most ``limit``. A gang on several GPUs is as slow as on its slowest
    GPU, so it does no more than this on each of its GPUs.
    """
    tables, limit = instance.sharing_tables, instance.gpu_jobs
    assert tables is not None
    if limit == 1:
        return 1.0
    speed = 1.0 / tables.interference  # 0 = the pair must not share a GPU
    both = speed + speed.swapaxes(0, 1)
    least = np.where(tables.sub_steps[:, :, None] > 0, tables.memory, np.inf).min(axis=1)  # [C, T]
    least = np.where(np.isfinite(instance.iteration_s).all(axis=1), least, np.inf)
    together = (speed > 0) & (speed.swapaxes(0, 1) > 0) & (least[:, None] + least[None] <= 1.0 + ROUNDING)
    return max(1.0, limit / 2 * float(np.where(together, both, 0.0).max()))


def shortest_by_sub_steps(instance: Instance) -> np.ndarray:
    """Return a lower bound on iteration time with any option of sub-steps / iteration time with option 0; float64 [C].

    Option 0 is the one that a job uses alone, and has the fewest sub-steps.

    Notes
    -----
    Let ``f(T, s) = T - T / s + |T / s, M|_p`` be the time of s equal sub-steps with T seconds of compute in all, where
    the last sub-step also communicates for M seconds. f rises with T and with s, because the slope of the norm is at
    most 1, and ``f(r T, s) >= r f(T, s)`` for r <= 1. If each of s sub-steps has c times the compute time C of the
    whole batch, the iteration takes ``f(s c C, s) >= min(1, s c) f(C, s)``. Splitting a batch rarely reduces its total
    compute time (s c < 1), so the bound is mostly 1.
    """
    tables = instance.sharing_tables
    assert tables is not None
    compute = np.where(tables.sub_steps > 0, tables.sub_steps * tables.compute_share, 1.0)
    least: np.ndarray = np.minimum(compute.min(axis=1), 1.0)
    return least


def mean_jct_bound(arrival_s: np.ndarray, gang: np.ndarray, ideal_s: np.ndarray, gpus: float) -> float:
    """Return a lower bound on the mean JCT of all schedules of rigid gangs [s].

    It holds for preemptive and clairvoyant schedules, too.

    Parameters
    ----------
    arrival_s : [J], arrivals in ascending order [s]
    gang : [J], gang sizes [GPU]
    ideal_s : [J], run times on the ideal placement [s]
    gpus : number of GPUs of the cluster; if gangs share GPUs, the number of unshared GPUs that could do as much work

    Notes
    -----
    A job of g GPUs and run time d has ``w = g d`` GPU-seconds of work. All GPUs together do at most ``gpus``
    GPU-seconds of work per second, so one *fluid* machine that does ``gpus`` GPU-seconds of work per second can copy
    every schedule. The bound is the larger of two bounds:

    a. **Number in system.** At every instant, preemptive SRPT on the fluid machine has the fewest unfinished jobs of
       all schedules on it (Schrage 1968). Also, no job leaves before ``arrival + d``. So at every instant, the number
       of jobs in the system is at least the larger of two numbers: the unfinished jobs of SRPT on the fluid machine,
       and the jobs that have arrived and whose ``arrival + d`` is not yet reached. The integral of the number of jobs
       in the system is the sum of JCTs (Little's law).
    b. **Mean busy time.** ``M``, the mean time at which the work of a job is done, is at most ``finish - d / 2``,
       because the job does at most g GPU-seconds of work per second. The sum of all M is smallest if the fluid machine
       always serves the job with the smallest *total* work, preemptively (Goemans et al. 2002).

    Greedy SRPT that serves each job at most at its own rate g (SRPT on parallel machines) is *not* a bound. For
    example, take two GPUs and jobs of one GPU each: jobs of 1, 1 and 2 s arrive at time 0, and two jobs of 1 s arrive 2
    s later. The sum of the JCTs is 8 s under greedy SRPT, but only 7 s if the job of 2 s starts at time 0.

    References
    ----------
    Schrage, "A proof of the optimality of the shortest remaining processing time discipline", Operations Research
    1968. Goemans, Queyranne, Schulz, Skutella, Wang, "Single machine scheduling with release dates", SIAM Journal on
    Discrete Mathematics 2002.
    """
    seconds = gang * ideal_s / gpus
    in_system = srpt_finish_s(arrival_s, seconds)
    counts = (_population(arrival_s, in_system), _population(arrival_s, arrival_s + ideal_s))
    steps = np.union1d(counts[0].times_s, counts[1].times_s)
    most = np.maximum(counts[0].at(steps), counts[1].at(steps))
    by_number = total(most[:-1] * np.diff(steps))
    busy = smallest_work_mean_busy_s(arrival_s, seconds)
    by_busy_time = total(busy + ideal_s / 2 - arrival_s)
    return max(by_number, by_busy_time) / len(arrival_s)


def makespan_bound(arrival_s: np.ndarray, gang: np.ndarray, ideal_s: np.ndarray, gpus: float) -> float:
    """Return a lower bound on the makespan, the time from the first arrival to the last finish [s].

    It is the larger of two times, minus the first arrival. The first time is the largest ``arrival + d``, where d is
    the run time of a job. The second time is when the fluid machine of :func:`mean_jct_bound` has done all work: the
    maximum over all jobs k of ``arrival_k`` plus the machine's time for job k and all jobs that arrive later. The
    parameters are those of :func:`mean_jct_bound`.
    """
    order = np.argsort(arrival_s, kind="stable")
    arrival, seconds = arrival_s[order], (gang * ideal_s / gpus)[order]
    work_from_here = np.cumsum(seconds[::-1])[::-1]
    return float(max((arrival + work_from_here).max(), (arrival_s + ideal_s).max()) - arrival[0])


def srpt_finish_s(arrival_s: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return finish times under preemptive SRPT on one machine; float64 [J] [s]; arrivals ascend. O(J log J)."""
    arrivals, needs = arrival_s.tolist(), seconds.tolist()
    finish = [0.0] * len(needs)
    queue: list[tuple[float, int]] = []  # heap of (remaining seconds, job)
    clock, job = 0.0, 0
    while queue or job < len(arrivals):
        if not queue:
            clock = max(clock, arrivals[job])
        while job < len(arrivals) and arrivals[job] <= clock:
            heapq.heappush(queue, (needs[job], job))
            job += 1
        until = arrivals[job] if job < len(arrivals) else float("inf")
        remaining, best = queue[0]
        if clock + remaining <= until:
            heapq.heappop(queue)
            clock += remaining
            finish[best] = clock
        else:
            heapq.heapreplace(queue, (remaining - (until - clock), best))
            clock = until
    return np.array(finish)


def smallest_work_mean_busy_s(arrival_s: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return mean busy times on a preemptive machine that serves the least total work; arrivals ascend; [J] [s]."""
    arrivals, needs = arrival_s.tolist(), seconds.tolist()
    left = list(needs)
    moment = [0.0] * len(needs)  # of each job, the integral of time over its seconds of service
    queue: list[tuple[float, int]] = []  # heap of (total seconds, job)
    clock, job = 0.0, 0
    while queue or job < len(arrivals):
        if not queue:
            clock = max(clock, arrivals[job])
        while job < len(arrivals) and arrivals[job] <= clock:
            heapq.heappush(queue, (needs[job], job))
            job += 1
        until = arrivals[job] if job < len(arrivals) else float("inf")
        best = queue[0][1]
        served = min(left[best], until - clock)
        moment[best] += served * (clock + served / 2)
        if served == left[best]:
            heapq.heappop(queue)
            clock += served
        else:
            left[best] -= served
            clock = until
    mean: np.ndarray = np.array(moment) / seconds
    return mean


def _population(arrival_s: np.ndarray, leave_s: np.ndarray) -> StepFunction:
    """Return the number of jobs in the system over time: +1 at each ``arrival_s``, -1 at each ``leave_s``."""
    return StepFunction.of_changes(np.concatenate([arrival_s, leave_s]), np.repeat([1.0, -1.0], len(arrival_s)))
