"""Generators: calibrated ones resemble their logs, simple ones follow their laws, and all are repeatable by seed."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import WorkloadError
from gpusched_env.problem.workload import Workload
from gpusched_env.traces import GENERATORS, describe_workload, generate_workload, generator_parameters, read_trace
from gpusched_env.traces.generators.acceptance import Bound, Check, acceptance, measure, measure_generator
from gpusched_env.traces.generators.calibration import CLASS_NAMES, Calibration
from gpusched_env.traces.generators.synthetic import CALIBRATIONS

PAI, PHILLY = CALIBRATIONS["pai"], CALIBRATIONS["philly"]


@pytest.fixture(scope="module", params=sorted(CALIBRATIONS))
def checks(request: pytest.FixtureRequest) -> list[Check]:
    return acceptance(measure_generator(request.param), CALIBRATIONS[request.param])


def test_generators_look_like_their_logs(checks: list[Check]) -> None:
    """Medians over 40 draws of 50,000 jobs."""
    far = [f"{check.name}: drawn {check.measured:.4g}, log {check.log:.4g}" for check in checks if not check.passed]
    assert not far
    assert len(checks) >= 21  # 11 of all jobs, the rest by demand class


def test_poisson_arrivals_fail_the_acceptance_checks() -> None:
    """Independent arrivals at the log's rate, with its demands: bursts, run times and daily hours are missing."""
    for calibration in CALIBRATIONS.values():
        rate = calibration.statistics.jobs_per_hour / 3600
        parameters = {"rate_per_s": rate, "mean_duration_s": 5_000.0, "demand": calibration.demand}
        drawn = generate_workload("poisson", 0, 50_000, **parameters)
        failed = {check.name for check in acceptance(measure(drawn, calibration, 0.0), calibration) if not check.passed}
        expected = {"cv of gaps", "dispersion of hourly counts", "same demand within 10 s", "run time p50 [s]"}
        assert expected | {"KS to the log's run times", "correlation of hours of the day"} <= failed
        assert "jobs per hour" not in failed
        assert not [name for name in failed if name.startswith("share of")]


def test_a_workload_is_measured_by_its_definitions() -> None:
    """Six jobs: gaps of 5, 5, 10, 3580 and 1800 s; the first of one and a half hours has four jobs."""
    log = dataclasses.replace(PHILLY, statistics=dataclasses.replace(PHILLY.statistics, run_time=[100.0] * 16))
    workload = Workload.from_columns(
        [0, 5, 10, 20, 3600, 5400], [1, 1, 2, 2, 1, 1], [50.0, 100.0, 150.0, 200.0, 250.0, 300.0]
    )
    measured = measure(workload, log, start_hour=23.0)
    assert measured["jobs_per_hour"] == pytest.approx(6 / 1.5)
    assert measured["gaps_to_10s"] == 3 / 5
    assert measured["same_demand"] == 2 / 3
    gaps = np.array([5, 5, 10, 3580, 1800])
    assert measured["gap_cv"] == pytest.approx(gaps.std() / gaps.mean())
    assert measured["gpus_demanded"] == pytest.approx((50 + 100 + 300 + 400 + 250 + 300) / 5400)
    assert measured["class_share"].tolist() == [4 / 6, 2 / 6, 0, 0, 0, 0, 0, 0, 0]
    assert measured["class_mean"][:2].tolist() == [175, 175]
    assert np.isnan(measured["class_mean"][2:]).all()
    assert measured["quantiles"].tolist() == pytest.approx([175, 275, 297.5])
    assert measured["ks"] == pytest.approx(0.999 - 2 / 6)  # two of six run times are 100 s or less
    assert measured["hour_of_day"][[23, 0]].tolist() == [16, 8]
    assert measured["dispersion"] == 0  # one full hour


def test_unmeasurable_statistics_neither_pass_nor_fail() -> None:
    alone = measure(Workload.from_columns([0.0], [1], iterations=[5.0]), PHILLY)
    checks = {check.name: check for check in acceptance(alone, PHILLY)}
    for name in ("jobs per hour", "cv of gaps", "KS to the log's run times", "correlation of hours of the day"):
        assert checks[name].passed is None
    assert checks["share of 1 GPU"].passed is False
    hourly = Workload.from_columns(3600.0 * np.arange(24), [1] * 24, [1.0] * 24)
    even = {check.name: check for check in acceptance(measure(hourly, PHILLY, 0.0), PHILLY)}
    assert even["correlation of hours of the day"].passed is None


@pytest.mark.parametrize(
    ("bound", "inside", "outside", "text"),
    [
        (Bound("relative", 0.05), (95.0, 105.0), (94.9, 105.1), "± 5%"),
        (Bound("absolute", 0.08), (99.92, 100.08), (99.9, 100.1), "± 0.08"),
        (Bound("factor", 2), (50.0, 200.0), (49.9, 200.1), "factor 2"),
        (Bound("at most", 0.03), (0.0, 0.03), (0.031,), "at most 0.03"),
        (Bound("at least", 0.95), (0.95, 1.0), (0.949, -1.0), "at least 0.95"),
    ],
)
def test_distances_in_units_of_the_bound(
    bound: Bound, inside: tuple[float, ...], outside: tuple[float, ...], text: str
) -> None:
    assert all(abs(bound.distance(x, 100.0)) <= 1 for x in inside)
    assert not any(abs(bound.distance(x, 100.0)) <= 1 for x in outside)
    assert str(bound) == text


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_draws_depend_on_the_seed_only(name: str) -> None:
    first, again, other = (generate_workload(name, seed, 300).fingerprint() for seed in (5, 5, 6))
    assert first == again != other


@pytest.mark.parametrize("name", sorted(GENERATORS))
@pytest.mark.parametrize("jobs", [1, 2, 300])
def test_every_generator_gives_sorted_jobs_from_time_zero(name: str, jobs: int) -> None:
    for seed in range(20):
        drawn = generate_workload(name, seed, jobs, max_gpus=8).jobs
        assert len(drawn) == jobs
        assert drawn["arrival_s"][0] == 0
        assert (np.diff(drawn["arrival_s"]) >= 0).all()
        assert drawn["gpus"].max() <= 8


def test_arrivals_without_a_weekly_rhythm_fail_the_acceptance_checks() -> None:
    hours = PHILLY.hourly_rate.reshape(7, 24)
    assert hours.mean() == pytest.approx(PHILLY.bursts_per_hour)
    assert hours[:, 7].mean() / hours[:, 14].mean() == pytest.approx(2.18 / 0.493)


def test_rate_scale_brings_the_pai_sample_to_the_whole_cluster() -> None:
    """The sample holds 8.2 % of the tasks, and 1 / 0.082 = 12.2."""
    sample, whole = (measure_generator("pai", jobs=20_000, draws=5, rate_scale=x) for x in (1.0, 12.2))
    assert whole["jobs_per_hour"] / sample["jobs_per_hour"] == pytest.approx(12.2, rel=0.1)
    assert max(PAI.demand) == 400


def test_parameters_bound_what_is_drawn() -> None:
    bounded = generate_workload(
        "philly", 1, 2_000, min_duration_s=60.0, max_duration_s=3600.0, demand={"1": 1, "64": 1}
    )
    assert bounded.jobs["duration_s"].min() == 60
    assert bounded.jobs["duration_s"].max() == 3600
    assert set(bounded.jobs["gpus"].tolist()) == {1, 64}
    slow, fast = (describe_workload(generate_workload("philly", 1, 2_000, rate_scale=x))["span_s"] for x in (0.1, 1.0))
    assert slow > 3 * fast


def test_poisson_follows_its_laws() -> None:
    parameters = {"rate_per_s": 0.5, "mean_duration_s": 40.0, "demand": {1: 0.75, 4: 0.25}}
    jobs = generate_workload("poisson", 1, 200_000, **parameters).jobs
    gaps = np.diff(jobs["arrival_s"])
    for sample, mean in ((gaps, 2.0), (jobs["duration_s"], 40.0)):
        assert sample.mean() == pytest.approx(mean, rel=0.02)
        assert sample.std() == pytest.approx(mean, rel=0.02)
        assert np.median(sample) == pytest.approx(mean * np.log(2), rel=0.02)
    assert (jobs["gpus"] == 4).mean() == pytest.approx(0.25, abs=0.01)
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(0, abs=0.01)
    constant = generate_workload("poisson", 1, 10, durations="constant", mean_duration_s=3.0)
    assert (constant.jobs["duration_s"] == 3).all()


def test_lognormal_run_times_follow_their_law() -> None:
    """ln of a run time is normal; its mean is that which makes the mean run time ``mean_duration_s``."""
    law = {"durations": "lognormal", "log_sigma": 1.5, "mean_duration_s": 400.0}
    drawn = generate_workload("poisson", 1, 200_000, **law).jobs["duration_s"]
    logs = np.log(drawn)
    assert logs.mean() == pytest.approx(np.log(400) - 1.5**2 / 2, abs=0.01)
    assert logs.std() == pytest.approx(1.5, rel=0.01)
    assert ((logs - logs.mean()) ** 3).mean() == pytest.approx(0, abs=0.05)
    assert drawn.mean() == pytest.approx(400, rel=0.05)
    clipped = generate_workload("poisson", 1, 200_000, **law, min_duration_s=30.0, max_duration_s=900.0)
    assert clipped.jobs["duration_s"].tolist() == np.clip(drawn, 30, 900).tolist()


def test_batch_arrives_at_once() -> None:
    assert (generate_workload("batch", 1, 50).jobs["arrival_s"] == 0).all()


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("phily", {}, "did you mean 'philly'"),
        ("philly", {"max_durations": 1}, "did you mean 'max_duration_s'"),
        ("philly", {"max_duration_s": -1.0}, "run times"),
        ("philly", {"rate_scale": 0}, "rate_scale"),
        ("philly", {"rate_scale": "fast"}, "finite number"),
        ("philly", {"start_hour": 168}, "start_hour"),
        ("philly", {"demand": {}}, "demand"),
        ("philly", {"demand": {"1": -1}}, "demand"),
        ("philly", {"demand": {"1.5": 1}}, "demand"),
        ("poisson", {"durations": "constnt"}, "did you mean 'constant'"),
        ("poisson", {"mean_duration_s": float("nan")}, "finite"),
        ("poisson", {"durations": "lognormal", "log_sigma": -1.0}, "log_sigma is -1.0: give 0 to 5"),
        ("drift", {"min_duration_s": 9.0, "max_duration_s": 8.0}, "run times 9.0 s to 8.0 s"),
        ("poisson", {"demand": {"64": 1.0}}, "max_gpus"),
        ("drift", {"swing": 1.5}, "swing is 1.5: it must be a share"),
        ("drift", {"swing": -0.1}, "swing is -0.1"),
        ("drift", {"period_s": 0.0}, "period_s is 0.0: it must be a finite number > 0"),
        ("drift", {"rate_per_s": -1.0}, "rate_per_s is -1.0"),
        ("drift", {"shift_s": -1.0}, "shift_s is -1.0: it must be a time >= 0"),
        ("drift", {"late_demand": {"0": 1.0}}, "give gang sizes from 1"),
        ("drift", {"late_demand": "large"}, "demand is large"),
        ("gavel", {"mean_gap_s": -1.0}, "mean_gap_s is -1.0"),
        ("gavel", {"mean_gap_s": True}, "mean_gap_s is True"),
        ("gavel", {"multi_gpu": 1}, "multi_gpu is 1: give true or false"),
        ("gavel", {"rate": 1.0}, "unknown parameter 'rate'"),
        ("hadar", {"mean_gap_s": -1.0}, "mean_gap_s is -1.0"),
        ("hadar", {"bursty": True}, "bursty is true but mean_gap_s is 0"),
        ("hadar", {"demand": {"3": 1.0}}, "was measured on 3 GPUs"),
        ("pollux", {"relative_load": 0.0}, "relative_load is 0.0"),
        ("ring-all-reduce", {"extra": 1.0}, "extra is 1.0"),
        ("dally", {"mean_gap_s": -1.0}, "mean_gap_s is -1.0"),
    ],
)
def test_wrong_parameters_are_refused(name: str, parameters: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        generate_workload(name, 0, 10, max_gpus=8, **parameters)
    assert "rate_scale" in generator_parameters("philly")


@here
@pytest.mark.parametrize(
    ("source", "key", "calibration", "gpus"),
    [
        ("philly:philly/philly_jobs.csv.gz", "philly_shared_vcs", PHILLY, "offered_gpus"),
        ("pai:alibaba/pai2020_gpu_tasks_days00-31.csv.gz", "pai2020_shared", PAI, "offered_gpus_of_sample"),
    ],
)
def test_logs_are_measured_as_they_were_published(source: str, key: str, calibration: Calibration, gpus: str) -> None:
    """The published statistics of these files were computed independently."""
    published = json.loads((TRACES / "calibration.json").read_text(encoding="utf-8"))[key]
    name, _, path = source.partition(":")
    measured = measure(read_trace(f"{name}:{TRACES / path}")[0], calibration)
    arrivals = published["arrivals"]
    expected = {
        "jobs_per_hour": arrivals["rate_per_hour"],
        "gap_cv": arrivals["interarrival"]["cv"],
        "gaps_to_10s": arrivals["interarrival"]["share_le_10s"],
        "dispersion": arrivals["hourly_counts"]["index_of_dispersion"],  # its hours begin at full hours
        "gpus_demanded": published[gpus],
    }
    assert {field: float(measured[field]) for field in expected} == pytest.approx(expected, rel=5e-3)
    assert measured["quantiles"] == pytest.approx([published["duration_s"][p] for p in ("p50", "p90", "p99")], rel=1e-3)
    for number, size in enumerate(CLASS_NAMES):
        assert measured["class_share"][number] == pytest.approx(
            published["demand"]["class_share"].get(size, 0), rel=1e-3
        )
