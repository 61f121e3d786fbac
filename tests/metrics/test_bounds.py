"""Lower bounds: never above a real schedule, and tight where the optimum is known."""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np
import pytest
from cost import lines_run
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_reference import Player, fifo, play, random_instance, shortest_remaining, unit_instance

from gpusched_env.metrics import job_times, lower_bounds, makespan_bound, mean_jct_bound, summarise, validate
from gpusched_env.metrics.bounds import smallest_work_mean_busy_s, srpt_finish_s
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Profiles, Workload


def best_preemptive(arrival: tuple, gang: tuple, duration: tuple, gpus: int) -> tuple[float, float]:
    """Smallest total JCT and smallest makespan over all schedules that change at whole seconds, by enumeration."""

    @lru_cache(None)
    def best(now: int, left: tuple) -> tuple[float, float]:
        if not any(left):
            return 0.0, now
        here = [j for j, rest in enumerate(left) if rest and arrival[j] <= now]
        later = len([1 for j, rest in enumerate(left) if rest and arrival[j] > now])
        if not here:
            assert later
            return best(now + 1, left)
        found = []
        for size in range(len(here) + 1):
            for run in itertools.combinations(here, size):
                if sum(gang[j] for j in run) <= gpus and (run or later):
                    after = tuple(rest - (j in run) for j, rest in enumerate(left))
                    cost, end = best(now + 1, after)
                    found.append((cost + len(here), end))
        return min(c for c, _ in found), min(e for _, e in found)

    total, end = best(0, duration)
    return total, end - min(arrival)


def best_non_preemptive(instance: Instance) -> tuple[float, float]:
    """Best mean JCT and makespan over the list schedules of all orders of the jobs."""
    best_mean = best_makespan = np.inf
    for order in itertools.permutations(range(len(instance.workload))):
        for strict in (False, True):
            log = play(instance, lambda player, job, order=order: order[job], strict=strict)
            numbers = summarise(instance, log)
            best_mean = min(best_mean, numbers["mean_jct_s"])
            best_makespan = min(best_makespan, numbers["makespan_s"])
    return best_mean, best_makespan


tiny = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4)


@settings(max_examples=60)
@given(jobs=tiny)
def test_no_enumerated_schedule_beats_the_bounds(jobs: list) -> None:
    arrival, gang, duration = zip(*sorted(jobs), strict=True)
    instance = unit_instance(list(arrival), list(gang), list(duration), "1x3")
    bounds = lower_bounds(instance)
    total, makespan = best_preemptive(arrival, gang, duration, 3)
    assert bounds["mean_jct_s"] <= total / len(jobs) * (1 + 1e-12)
    assert bounds["makespan_s"] <= makespan * (1 + 1e-12)
    mean, makespan = best_non_preemptive(instance)
    assert bounds["mean_jct_s"] <= mean * (1 + 1e-12)
    assert bounds["makespan_s"] <= makespan * (1 + 1e-12)
    assert bounds["mean_jct_s"] >= instance.ideal_s.mean() * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_no_random_run_beats_the_bounds(seed: int) -> None:
    """Clusters of several machines, models that communicate, windows: bounds hold for any run."""
    instance = random_instance(seed, jobs=80)
    for key, preemptive in ((fifo, False), (shortest_remaining, False), (shortest_remaining, True)):
        log = play(instance, key, preemptive)
        for window in (None, (20, 50)):
            bounds, numbers = lower_bounds(instance, window), summarise(instance, log, window=window)
            assert bounds["mean_jct_s"] <= numbers["mean_jct_s"]
            assert bounds["makespan_s"] <= numbers["makespan_s"]


@settings(max_examples=50)
@given(jobs=st.lists(st.tuples(st.integers(0, 30), st.just(1), st.integers(1, 9)), min_size=1, max_size=12))
def test_one_gpu_srtf_is_optimal(jobs: list) -> None:
    """On one GPU the bound on mean JCT equals that of SRTF, and the
    bound on makespan that of any work-conserving schedule.
    """
    arrival, gang, duration = (list(column) for column in zip(*sorted(jobs), strict=True))
    instance = unit_instance(arrival, gang, duration, "1x1")
    numbers = summarise(instance, play(instance, shortest_remaining, preemptive=True))
    bounds = lower_bounds(instance)
    assert bounds["mean_jct_s"] == pytest.approx(numbers["mean_jct_s"], rel=1e-12)
    assert bounds["makespan_s"] == pytest.approx(numbers["makespan_s"], rel=1e-12)


def test_bounds_with_known_values() -> None:
    one = np.array([0.0]), np.array([2]), np.array([10.0])
    assert mean_jct_bound(*one, 4) == 10
    assert makespan_bound(*one, 4) == 10
    # Two equal one-GPU jobs on two GPUs: each takes 6 s; the fluid machine alone would give (3 + 6) / 2.
    pair = np.zeros(2), np.array([1, 1]), np.array([6.0, 6.0])
    assert mean_jct_bound(*pair, 2) == 6
    # Ten jobs of 1 s, one GPU each, two GPUs: fluid SRPT finishes at 0.5, 1.0, ...: mean 2.75; M + d/2 adds a quarter.
    many = np.zeros(10), np.ones(10, int), np.ones(10)
    assert mean_jct_bound(*many, 2) == pytest.approx(3.0)  # two jobs at a time have exactly (1 + 2 + 3 + 4 + 5) / 5
    assert makespan_bound(*many, 2) == 5
    # A gap: the fluid machine is idle between the two.
    gap = np.array([0.0, 100.0]), np.array([1, 1]), np.array([4.0, 2.0])
    assert makespan_bound(*gap, 1) == 102


def capped_greedy_srpt_total(arrival: list, gang: list, duration: list, gpus: int) -> float:
    """Total JCT of a fluid machine that serves by remaining work, each job at rate g at most."""
    left = {j: g * d for j, (g, d) in enumerate(zip(gang, duration, strict=True))}
    now, total = 0.0, 0.0
    while left:
        rate, room = {}, float(gpus)
        for job in sorted((j for j in left if arrival[j] <= now), key=lambda j: (left[j], j)):
            rate[job] = min(gang[job], room)
            room -= rate[job]
        steps = [left[j] / r for j, r in rate.items() if r > 0] + [a - now for a in arrival if a > now]
        step = min(steps)
        now += step
        for job, r in rate.items():
            left[job] -= r * step
            if left[job] < 1e-12:
                del left[job]
                total += now - arrival[job]
    return total


def test_greedy_with_rate_caps_is_not_a_bound() -> None:
    """The counterexample of the docstring: a valid schedule is better than capped greedy SRPT."""
    arrival, gang, duration = [0, 0, 0, 2, 2], [1] * 5, [1, 1, 2, 1, 1]
    assert capped_greedy_srpt_total(arrival, gang, duration, 2) == 8
    instance = unit_instance(arrival, gang, duration, "1x2")
    log = play(instance, lambda player, job: [1, 2, 0, 3, 4][job])  # the 2 s job first
    validate(instance, log)
    assert job_times(instance, log)["jct_s"].sum() == 7
    assert lower_bounds(instance)["mean_jct_s"] <= 7 / 5


def test_fluid_machines_by_hand() -> None:
    arrival, seconds = np.array([0.0, 1.0]), np.array([4.0, 1.0])
    assert srpt_finish_s(arrival, seconds).tolist() == [5, 2]
    # job 0 is served 0-1 and 2-5: mean time (0.5 x 1 + 3.5 x 3) / 4
    assert smallest_work_mean_busy_s(arrival, seconds).tolist() == [2.75, 1.5]
    # by original work, not by remaining work: a job of 2 s precedes one of 4 s with 1 s left
    assert smallest_work_mean_busy_s(np.array([0.0, 3.0]), np.array([4.0, 2.0]))[1] == 4.0


def test_the_fastest_gpu_type_counts() -> None:
    row = dict(name="x", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(1.0, 3.0))
    profiles = Profiles.from_rows([row], ("fast", "slow"))
    cluster = Cluster([NodeGroup(1, 2, "fast"), NodeGroup(1, 2, "slow")])
    workload = Workload.from_columns([0, 0, 0, 0], [1, 1, 1, 1], iterations=[9.0] * 4, profiles=profiles)
    instance = Instance(cluster, workload, Network("none"))
    numbers = summarise(instance, play(instance))
    assert numbers["mean_jct_s"] == (9 + 9 + 27 + 27) / 4
    assert lower_bounds(instance)["mean_jct_s"] == 9


@pytest.mark.parametrize("gpus", [500, 5])  # all jobs run at once; a growing queue
def test_the_cost_of_the_bound_is_linear_in_the_jobs(gpus: int) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for jobs in (200, 200, 2_000):  # the first call imports
        arrival = np.cumsum(rng.exponential(1.0, jobs))
        gang, ideal = rng.choice([1, 2, 4, 8], jobs), rng.lognormal(4, 1.5, jobs)
        lines.append(lines_run(mean_jct_bound, arrival, gang, ideal, gpus))
        assert mean_jct_bound(arrival, gang, ideal, gpus) >= ideal.mean() * (1 - 1e-12)
    assert 9 < lines[2] / lines[1] < 11


def test_the_bound_lies_below_the_reference_schedules() -> None:
    """The bound is a relaxation: with gangs that leave GPUs idle it lies strictly below every schedule."""
    instance = unit_instance([0, 0], [3, 3], [10, 10], "1x4")
    assert lower_bounds(instance)["mean_jct_s"] < 15
    assert summarise(instance, Player(instance, fifo, False, False, None).play())["mean_jct_s"] == 15
