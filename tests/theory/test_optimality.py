"""SRTF is optimal on one GPU, list schedules keep Graham's bound,
and the order of equal jobs does not change the mean.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers import finish, mean_jct, play, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.metrics import end_of_run, job_times, jobs_in_system
from gpusched_env.simulator import Simulation

small_jobs = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=4)


def best_total_jct(jobs: list[tuple[int, int]]) -> int:
    """Smallest sum of JCTs over every preemptive schedule that switches at whole seconds."""

    @functools.cache
    def cost(now: int, left: tuple[int, ...]) -> int:
        present = [i for i, (arrival, _) in enumerate(jobs) if arrival <= now and left[i]]
        if not any(left):
            return 0
        choices = [(*left[:i], left[i] - 1, *left[i + 1 :]) for i in present] or [left]
        return len(present) + min(cost(now + 1, after) for after in choices)

    return cost(0, tuple(duration for _, duration in jobs))


@settings(max_examples=80)
@given(small_jobs)
def test_srtf_is_the_best_of_all_preemptive_schedules_on_one_gpu(jobs: list[tuple[int, int]]) -> None:
    instance = unit_instance([a for a, _ in jobs], [1] * len(jobs), [d for _, d in jobs], "1x1")
    assert mean_jct(instance, "srtf") * len(jobs) == pytest.approx(best_total_jct(jobs), abs=1e-9)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 25),
    st.sampled_from(["fifo", "fifo-skip", "fifo-easy", "sjf", "las", "tiresias", "gandiva-lite", "themis-lite"]),
)
def test_srtf_has_the_least_mean_jct_on_one_gpu(seed: int, count: int, other: str) -> None:
    rng = np.random.default_rng(seed)
    instance = unit_instance(
        np.cumsum(rng.exponential(80, count)), [1] * count, rng.exponential(100, count) + 1e-3, "1x1"
    )
    assert mean_jct(instance, "srtf") <= mean_jct(instance, other) * (1 + 1e-9)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.1, 100), min_size=1, max_size=20),
    st.integers(1, 6),
    st.sampled_from(["fifo", "fifo-skip", "sjf", "srtf", "yarn-cs", "delay-zaharia", "themis-lite"]),
)
def test_makespan_of_list_schedules_respects_graham(durations: list[float], gpus: int, name: str) -> None:
    """Graham: at most 2 - 1/m times the optimum, which is at least the longest job and the mean load."""
    instance = unit_instance([0.0] * len(durations), [1] * len(durations), durations, f"1x{gpus}")
    makespan = max(finish(instance, name))
    assert makespan <= sum(durations) / gpus + (1 - 1 / gpus) * max(durations) + 1e-9
    assert makespan >= max(*durations, sum(durations) / gpus) - 1e-9


@pytest.mark.parametrize(("jobs", "gpus"), [(7, 3), (12, 4), (5, 8)])
def test_equal_one_gpu_jobs_have_the_same_mean_under_every_order(jobs: int, gpus: int) -> None:
    instance = unit_instance([0.0] * jobs, [1] * jobs, [13.0] * jobs, f"1x{gpus}")
    expected = [13.0 * (1 + i // gpus) for i in range(jobs)]
    for name in (
        "fifo",
        "fifo-skip",
        "fifo-easy",
        "sjf",
        "ssf",
        "srtf",
        "srsf",
        "tiresias",
        "yarn-cs",
        "delay-zaharia",
    ):
        assert sorted(finish(instance, name)) == expected, name


@pytest.mark.parametrize(
    "rules", [{}, {"checkpoint_s": 0.0, "restore_s": 0.0}, {"round_s": 60.0}], ids=["exact", "free", "rounds"]
)
@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_littles_law_holds_on_every_run(name: str, rules: dict) -> None:
    instance = random_instance(3, jobs=50, **rules)
    simulation = Simulation(instance)
    simulation.run(make_scheduler(name))
    log = simulation.log()
    total = job_times(instance, log)["jct_s"].sum()
    assert jobs_in_system(log).integral(end_of_run(instance, log)) == pytest.approx(total, rel=1e-9)
    assert simulation.arrays.world["job_seconds"] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_no_job_beats_its_ideal(name: str) -> None:
    instance = random_instance(4, jobs=50)
    assert (job_times(instance, play(instance, name))["jct_s"] >= instance.ideal_s * (1 - 1e-9)).all()
