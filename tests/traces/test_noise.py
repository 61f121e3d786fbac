"""Times drawn for each job: the slowest worker of a synchronous step, noise of run times, latencies of first starts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from helpers import plain_python_digests
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Network, Workload
from gpusched_env.errors import GpuschedError, ScenarioError, WorkloadError
from gpusched_env.problem.workload import START_LATENCY
from gpusched_env.scenarios import WorkloadSpec, get_scenario, scenario_from_dict
from gpusched_env.traces.generators.synthetic import random_stream
from gpusched_env.traces.noise import (
    MOST_SIGMA,
    START_LATENCIES,
    _normal_cdf,
    draw_noise,
    draw_start_latency,
    latency_at,
    slowest,
)


def spec(**fields: Any) -> WorkloadSpec:
    return WorkloadSpec("synthetic:philly", jobs=60, max_gpus=16, **fields)


def drawn(seed: int = 3, **fields: Any) -> Workload:
    return spec(**fields).draw(seed, None, 64, ("V100",))


def one(logs: list[float], step: float) -> float:
    return float(slowest(np.array(logs)[:, None], np.array([step]))[0])


def expected(workers: int, sigma: float) -> float:
    return one([0.0] * workers, sigma)


def exact(workers: int, sigma: float) -> float:
    """E[max] of lognormal numbers of mean 1, by the density of the maximum."""
    with mpmath.workdps(30):
        s = mpmath.mpf(sigma)

        def density(z: Any) -> Any:
            return mpmath.exp(s * z - s * s / 2) * workers * mpmath.ncdf(z) ** (workers - 1) * mpmath.npdf(z)

        return float(mpmath.quad(density, [-12, -6, -3, -1, 0, 1, 2, 3, 4, 5, 6, 7, 9, 14]))


@pytest.mark.parametrize(("workers", "sigma"), [(2, 0.05), (2, 1.0), (10, 0.064), (10, 0.5), (64, 0.1), (1000, 1.0)])
def test_the_slowest_of_equal_workers_is_the_exact_expectation(workers: int, sigma: float) -> None:
    assert expected(workers, sigma) == pytest.approx(exact(workers, sigma), rel=2e-8)


@pytest.mark.parametrize(
    ("workers", "order_statistic"),
    [(1, 0.0), (2, 1 / math.sqrt(math.pi)), (3, 1.5 / math.sqrt(math.pi)), (10, 1.5387527308)],
)
def test_little_noise_costs_the_order_statistic_of_normal_numbers(workers: int, order_statistic: float) -> None:
    """Of 2, 3 and 10 normal numbers (Harter, Biometrika 48, 1961)."""
    sigma = 1e-6
    found = (expected(workers, sigma) - 1.0) / sigma
    assert found == pytest.approx(order_statistic, abs=1e-5)


@pytest.mark.parametrize(("a", "b", "step"), [(0.0, 0.0, 0.3), (0.1, -0.05, 0.05), (0.0, -0.4, 1.0), (0.3, 0.0, 1e-3)])
def test_two_unequal_workers(a: float, b: float, step: float) -> None:
    """E max(X, Y) = E[X] P(Y < X under the measure of X) + the same of Y, of two lognormal numbers."""
    apart, half = (a - b) / (step * math.sqrt(2.0)), step / math.sqrt(2.0)
    exact = math.exp(a) * mpmath.ncdf(apart + half) + math.exp(b) * mpmath.ncdf(half - apart)
    assert one([a, b], step) == pytest.approx(float(exact), rel=1e-10)


def test_without_noise_of_steps_the_slowest_worker_decides_and_a_single_one_has_its_own_factor() -> None:
    assert one([0.1, -0.2, 0.3], 0.0) == pytest.approx(math.exp(0.3), rel=1e-15)
    assert one([0.25], 0.7) == pytest.approx(math.exp(0.25), rel=1e-15)
    assert one([0.2, -30.0], 0.05) == pytest.approx(math.exp(0.2), rel=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-6.0, 6.0), min_size=1, max_size=12), st.floats(0.0, MOST_SIGMA))
def test_a_gang_is_slower_than_each_worker_and_than_a_part_of_it(logs: list[float], step: float) -> None:
    found = one(logs, step)
    most = math.exp(max(logs))
    assert most * (1 - 1e-12) <= found <= sum(map(math.exp, logs)) * (1 + 1e-12)
    assert found >= one(logs[:-1] or logs, step) * (1 - 1e-12)
    assert found == pytest.approx(one(logs[::-1], step), rel=1e-12)


def test_gangs_do_not_depend_on_each_other() -> None:
    logs, step = 0.1 * np.arange(6.0).reshape(3, 2), np.array([0.1, 0.0])
    assert slowest(logs, step).tolist() == [one(logs[:, 0].tolist(), 0.1), one(logs[:, 1].tolist(), 0.0)]


def test_normal_probabilities_are_those_of_the_normal_distribution() -> None:
    for x in np.linspace(-8.0, 8.0, 97):
        assert float(_normal_cdf(x)) == pytest.approx(float(mpmath.ncdf(x)), abs=2e-12)
        assert float(_normal_cdf(x) + _normal_cdf(-x)) == 1.0


def test_noise_has_the_mean_that_the_model_has() -> None:
    """Single GPUs are 1 on average, gangs E[max]; each within 5 standard errors."""
    gangs = np.repeat([1, 2, 8], 20_000)
    workload = Workload.from_columns(np.zeros(len(gangs)), gangs, np.full(len(gangs), 100.0))
    factors = draw_noise(workload, random_stream(1, 3), worker=0.05, step=0.1, jobs=0.0).jobs["duration_s"] / 100.0
    for gpus in (1, 2, 8):
        of = factors[gangs == gpus]
        assert of.mean() == pytest.approx(expected(gpus, math.hypot(0.05, 0.1)), abs=5 * of.std() / math.sqrt(len(of)))


def test_the_noise_of_jobs_differs_as_told() -> None:
    workload = Workload.from_columns(np.zeros(20_000), [1] * 20_000, np.full(20_000, 1.0))
    logs = np.log(draw_noise(workload, random_stream(1, 3), worker=0.05, step=0.0, jobs=0.5).jobs["duration_s"])
    # Logs are nearly normal with sigma 0.05 x level; E[level^2] = exp(0.5^2), E[level^4] = exp(6 x 0.5^2).
    assert math.sqrt((logs**2).mean()) == pytest.approx(0.05 * math.exp(0.5 * 0.25), rel=0.05)
    kurtosis = (logs**4).mean() / (logs**2).mean() ** 2
    assert kurtosis == pytest.approx(3 * math.exp(4 * 0.25), rel=0.2)


def test_iterations_are_multiplied_as_run_times_are() -> None:
    by_time = Workload.from_columns([0.0, 1.0], [4, 1], [100.0, 200.0])
    by_work = Workload.from_columns([0.0, 1.0], [4, 1], iterations=[100.0, 200.0])
    slower = [draw_noise(one, random_stream(5, 3)).jobs for one in (by_time, by_work)]
    assert slower[0]["duration_s"].tolist() == slower[1]["iterations"].tolist() != [100.0, 200.0]
    assert np.isnan(slower[0]["iterations"]).all()
    assert draw_noise(by_time, random_stream(5, 3), worker=0.0, step=0.0).jobs["duration_s"].tolist() == [100.0, 200.0]


@pytest.mark.parametrize("worker", [0.0, MOST_SIGMA])
@pytest.mark.parametrize("step", [0.0, 5e-324, MOST_SIGMA])
def test_extreme_noise_is_finite(worker: float, step: float) -> None:
    workload = Workload.from_columns(np.zeros(40), [300] * 20 + [1] * 20, [1.0] * 40)
    factors = draw_noise(workload, random_stream(0, 3), worker=worker, step=step, jobs=MOST_SIGMA).jobs["duration_s"]
    assert np.isfinite(factors).all()
    assert (factors > 0).all()
    if worker == 0.0:
        assert (factors[:20] >= 1.0).all()
        assert (factors[20:] == 1.0).all()


def test_other_columns_and_random_streams_stay() -> None:
    """Models, deadlines and arrivals are those of the same seed without noise and latency; only work is multiplied."""
    fields: dict[str, Any] = {"load": 0.7, "deadlines": {}}
    plain, noisy = drawn(**fields), drawn(**fields, noise={}, start_latency="process")
    for name in ("id", "arrival_s", "gpus", "profile"):
        assert (plain.jobs[name] == noisy.jobs[name]).all()
    assert (plain.attributes["deadline_s"] == noisy.attributes["deadline_s"]).all()
    assert (noisy.jobs["duration_s"] != plain.jobs["duration_s"]).all()
    assert (drawn(**fields, noise={}).jobs["duration_s"] == noisy.jobs["duration_s"]).all()
    latency_s = noisy.attributes[START_LATENCY]
    assert (latency_s == drawn(start_latency="process").attributes[START_LATENCY]).all()
    assert ((latency_s >= 8.3) & (latency_s <= 61.3)).all()


def test_fields_are_written_only_if_they_are_set_and_round_trip() -> None:
    scenario = get_scenario("tiny-v1")
    assert not {"noise", "start_latency"} & scenario.as_dict()["workload"].keys()
    cases: list[dict[str, Any]] = [{"noise": {}}, {"noise": {"step": 0.1}}, {"start_latency": "warm"}]
    for fields in cases:
        changed = scenario.replace(workload=dataclasses.replace(scenario.workload, **fields))
        assert scenario_from_dict(changed.as_dict()).fingerprint() == changed.fingerprint() != scenario.fingerprint()
    seeds = [
        scenario.replace(
            workload=WorkloadSpec("synthetic:philly", jobs=9, max_gpus=8, noise={}, start_latency="warm")
        ).instance(s)
        for s in (7, 8, 7)
    ]
    prints = [one.fingerprint() for one in seeds]
    assert prints[0] == prints[2] != prints[1]


@pytest.mark.parametrize("kind", START_LATENCIES)
def test_latencies_have_the_quantiles_of_their_kind(kind: str) -> None:
    at, seconds = map(np.array, START_LATENCIES[kind])
    assert latency_at(kind, at) == pytest.approx(seconds, rel=1e-14)
    middle = latency_at(kind, 0.5 * (at[1:] + at[:-1]))
    assert middle == pytest.approx(np.sqrt(seconds[1:] * seconds[:-1]), rel=1e-12)  # linear in the logarithm
    workload = Workload.from_columns(np.zeros(4000), [1] * 4000, [1.0] * 4000)
    told = draw_start_latency(workload, random_stream(0, 4), kind).attributes[START_LATENCY]
    for probability, least in zip(at, seconds, strict=True):
        assert (told <= least * (1 + 1e-12)).mean() == pytest.approx(probability, abs=0.04)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"noise": {"workers": 0.1}}, "noise: no parameter 'workers'; known are worker, step, jobs"),
        ({"noise": {"step": -0.1}}, "noise: step is -0.1: it must be a log-sigma from 0 to 1"),
        ({"noise": {"jobs": 1.5}}, "noise: jobs is 1.5"),
        ({"noise": {"worker": math.nan}}, "noise: worker is nan"),
        ({"noise": "abc"}, "workload.noise is 'abc': it must be a table"),
        ({"noise": False}, "workload.noise is False: it must be a table"),
        ({"deadlines": 5}, "workload.deadlines is 5: it must be a table"),
        ({"elastic": []}, r"workload.elastic is \[\]: it must be a table"),
        ({"profiles": None}, "workload.profiles is None: it must be a text"),
        ({"load": "abc"}, "workload.load is 'abc': it must be a number"),
        ({"start_s": None}, "workload.start_s is None: it must be a number"),
        ({"noise": {"worker": True}}, "noise: worker is True"),
        ({"start_latency": "contain"}, "start_latency: unknown kind 'contain': did you mean 'container'"),
        ({"start_latency": "lukewarm"}, "start_latency: unknown kind 'lukewarm'"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        spec(**fields)
    with pytest.raises(ScenarioError, match=r"mine\.json\.workload"):
        scenario_from_dict({**get_scenario("tiny-v1").as_dict(), "workload": {"source": "synthetic:philly", **fields}},
                           "mine.json")  # fmt: skip


def test_latencies_of_a_workload_are_checked() -> None:
    def instance(seconds: float) -> Instance:
        workload = Workload.from_columns([0.0], [1], [5.0], attributes={START_LATENCY: np.array([seconds])})
        return Instance(Cluster.parse("1x1"), workload, Network("none"))

    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(WorkloadError, match=r"job 0: start_latency_s is .*: expected a finite number"):
            instance(wrong)
    assert instance(1.0).fingerprint() != instance(2.0).fingerprint()


def digests() -> list[str]:
    return [drawn(seed, noise={}, start_latency="container").fingerprint() for seed in range(3)]


def test_plain_python_draws_the_same() -> None:
    assert plain_python_digests("tests.traces.test_noise") == digests()
