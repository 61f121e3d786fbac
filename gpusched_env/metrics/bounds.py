"""What no scheduler can beat: lower bounds on mean JCT and makespan, one instance at a time."""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from gpusched_env.instance import Instance
from gpusched_env.metrics.series import StepFunction
from gpusched_env.metrics.summary import Window, tracked
from gpusched_env.portable.arrays import total

ROUNDING: Final = 1e-8  # of a GPU's memory


def lower_bounds(instance: Instance, window: Window | None = None) -> dict[str, float]:
    """Bound ``mean_jct_s`` (over the jobs of the window) and ``makespan_s`` (over all jobs) from below [s].

    Parameters
    ----------
    instance : the problem; rounds, preemption costs and slow placements only make real schedules worse
    window : tracked arrival ranks as in :func:`~gpusched_env.metrics.summarise`; the other jobs are then left out,
        which can only help the tracked ones, so the bound stays a bound

    Raises
    ------
    GpuschedError : the window is empty or reaches beyond the jobs
    """
    jobs = instance.workload.jobs
    rows = tracked(len(jobs), window)
    arrival, gang = jobs["arrival_s"], jobs["gpus"]
    copies = instance.semantics.max_copies  # no faster than so many of the best
    ideal = instance.ideal_s / copies
    gang = gang * copies
    gpus = float(instance.cluster.gpus)
    if instance.sharing is not None:
        ideal = ideal * shortest_by_sub_steps(instance)[instance.job_class]
        gpus *= work_of_shared_gpu(instance)
    return {
        "mean_jct_s": mean_jct_bound(arrival[rows], gang[rows], ideal[rows], gpus),
        "makespan_s": makespan_bound(arrival, gang, ideal, gpus),
    }


def work_of_shared_gpu(instance: Instance) -> float:
    """Most work that the gangs on one GPU do in a second, in seconds of GPUs that are not shared; at least 1.

    Notes
    -----
    One gang alone does at most 1. Of n of them, each is slowed by its worst neighbour, and the worst is no better than
    the mean: ``1 / max_j xi_ij <= sum_j (1 / xi_ij) / (n - 1)``. Summed over the gangs, each pair counts once, with
    ``1 / xi_ij + 1 / xi_ji <= P``, P being the largest such sum of any pair that may share a GPU of some type and has
    room there. So n gangs do at most ``n (n - 1) / 2 x P / (n - 1) = n P / 2``, and there are at most ``limit`` of
    them. A gang on several GPUs is as slow as its slowest, so its part on each is no more than this counts. With xi = 1
    a GPU does the work of ``limit``, which is why a bound for GPUs that are not shared is none for those that are.
    """
    tables, limit = instance.sharing_tables, instance.gpu_jobs
    assert tables is not None
    if limit == 1:
        return 1.0
    speed = 1.0 / tables.interference  # 0 = must not share
    both = speed + speed.swapaxes(0, 1)
    least = np.where(tables.sub_steps[:, :, None] > 0, tables.memory, np.inf).min(axis=1)  # [C, T]
    least = np.where(np.isfinite(instance.iteration_s).all(axis=1), least, np.inf)
    together = (speed > 0) & (speed.swapaxes(0, 1) > 0) & (least[:, None] + least[None] <= 1.0 + ROUNDING)
    return max(1.0, limit / 2 * float(np.where(together, both, 0.0).max()))


def shortest_by_sub_steps(instance: Instance) -> np.ndarray:
    """float64 [C]: iterations take at least so many times those of the whole batch at once, whatever the sub-steps.

    Let ``f(T, s) = T - T / s + |T / s, M|_p`` be s equal sub-steps of T seconds of compute in all, of which the last
    communicates M seconds. It rises with T and with s (the norm's slope is at most 1), and ``f(r T, s) >= r f(T, s)``
    for r <= 1. An option of s sub-steps of c times the compute C takes ``f(s c C, s) >= min(1, s c) f(C, s)``, and no
    option has fewer sub-steps than the first. Parts of a batch are rarely faster than the whole, so it is mostly 1.
    """
    tables = instance.sharing_tables
    assert tables is not None
    compute = np.where(tables.sub_steps > 0, tables.sub_steps * tables.compute_share, 1.0)
    least: np.ndarray = np.minimum(compute.min(axis=1), 1.0)
    return least


def mean_jct_bound(arrival_s: np.ndarray, gang: np.ndarray, ideal_s: np.ndarray, gpus: float) -> float:
    """Mean JCT [s] that no schedule of rigid gangs can beat, preemptive and clairvoyant ones included.

    Parameters
    ----------
    arrival_s, gang, ideal_s : [J], arrivals in ascending order [s], GPUs, run times on the ideal placement [s]
    gpus : GPUs of the cluster; if gangs share them, those that could do as much work without

    Notes
    -----
    Work is ``w = g d`` GPU-seconds. All GPUs together do at most ``gpus`` of it a second, so whatever a schedule does
    to the jobs, one *fluid* machine of that speed can copy. The larger of two bounds:

    a. **Number in system.** Preemptive SRPT on the fluid machine has the fewest unfinished jobs at every instant of
       all its schedules (Schrage 1968). And no job leaves before ``arrival + d``. So at every instant the number in
       system is at least the larger of the two counts; its integral is the sum of JCTs (Little's law).
    b. **Mean busy time.** ``M``, the mean time at which a job's work is done, is at most ``finish - d / 2``, because
       the job does at most g of its work a second. The sum of M is smallest if the fluid machine always serves the
       job of smallest *total* work, preemptively (Goemans et al. 2002).

    What is *not* a bound: greedy SRPT that serves each job at most at its own rate g (that is SRPT on parallel
    machines). On two GPUs, one-GPU jobs of 1, 1 and 2 s at 0 and of 1 and 1 s at 2 give it a total JCT of 8, but
    starting the 2 s job at once gives 7.

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
    """Makespan [s], first arrival to last finish, that no schedule can beat.

    The larger of the last ``arrival + d`` and the time at which the fluid machine (see :func:`mean_jct_bound`) has
    done the work of all jobs: the largest, over jobs k, of ``arrival_k`` plus the work that arrives from then on.
    """
    order = np.argsort(arrival_s, kind="stable")
    arrival, seconds = arrival_s[order], (gang * ideal_s / gpus)[order]
    work_from_here = np.cumsum(seconds[::-1])[::-1]
    return float(max((arrival + work_from_here).max(), (arrival_s + ideal_s).max()) - arrival[0])


def srpt_finish_s(arrival_s: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """float64 [J]: finish times [s] under preemptive shortest remaining processing time on one machine.

    ``arrival_s`` ascends; ``seconds`` [J] is each job's time on that machine. O(J log J).
    """
    arrivals, needs = arrival_s.tolist(), seconds.tolist()
    finish = [0.0] * len(needs)
    queue: list[tuple[float, int]] = []  # (remaining seconds, job)
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
    """float64 [J]: mean busy times [s] if one machine always serves the job of smallest total work, preemptively.

    ``arrival_s`` ascends; ``seconds`` [J] is each job's time on that machine. O(J log J).
    """
    arrivals, needs = arrival_s.tolist(), seconds.tolist()
    left = list(needs)
    moment = [0.0] * len(needs)  # integral of time over the seconds of service
    queue: list[tuple[float, int]] = []  # (total seconds, job)
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
    """Count the jobs between arrival and leaving."""
    times, step = np.unique(np.concatenate([arrival_s, leave_s]), return_inverse=True)
    change = np.repeat([1.0, -1.0], len(arrival_s))
    return StepFunction(times, np.cumsum(np.bincount(step, change)))
