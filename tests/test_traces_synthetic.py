"""Generators: the calibrated ones look like their logs, the simple ones follow their laws, all repeat by seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpusched_env.errors import WorkloadError
from gpusched_env.traces import GENERATORS, describe_workload, generate_workload, generator_parameters
from gpusched_env.traces.bursty import bursty_jobs
from gpusched_env.traces.calibration import CLASS_NAMES, Calibration, demand_class
from gpusched_env.traces.philly_calibration import PHILLY
from gpusched_env.traces.synthetic import random_stream
from gpusched_env.traces.venus_calibration import VENUS

JOBS, DRAWS = 50_000, 40

# Statistics of the logs themselves: Philly, October and November 2017; Venus, April to September 2020.
QUANTILE = (0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999)
LOGS = {
    "philly": {
        "rate_per_hour": 46.8,
        "gap_cv": 2.27,
        "gaps_to_10s": 0.583,
        "dispersion": 168.0,
        "same_demand": 0.98,
        "gpus_demanded": 472.0,
        "run_time": (17, 51, 62, 87, 182.2, 355, 821, 1415, 1986, 2632, 3389, 4689, 11130, 36790, 218100, 879900),
        "class_share": {"1": 0.9353, "2": 0.02057, "3-4": 0.02239, "8": 0.01902, "9-16": 0.002131, "17-32": 0.0005839},
        "class_mean_s": {"1": 7184, "2": 37330, "3-4": 72540, "8": 110100},
    },
    "helios-venus": {
        "rate_per_hour": 28.99,
        "gap_cv": 4.26,
        "gaps_to_10s": 0.239,
        "dispersion": 39.1,
        "same_demand": 0.701,
        "gpus_demanded": 554.9,
        "run_time": (1, 6, 18, 50, 72, 94, 140, 203, 344, 760.1, 1275, 2272, 17930, 57400, 172800, 172800),
        "class_share": {"1": 0.5186, "2": 0.05545, "3-4": 0.07415, "5-7": 0.004384, "8": 0.2473, "9-16": 0.04154,
                        "17-32": 0.03614, "33-64": 0.00948, ">64": 0.01292},
        "class_mean_s": {"1": 6244, "2": 17870, "3-4": 11790, "5-7": 14750, "8": 9774, "9-16": 17770, "17-32": 15400,
                         "33-64": 9520, ">64": 3847},
    },
}  # fmt: skip
Measured = dict[str, np.ndarray]


def measure(calibration: Calibration, run_time: tuple[float, ...]) -> Measured:
    rows: dict[str, list[object]] = {}
    for seed in range(DRAWS):
        rng = random_stream(seed, 0)
        begin = rng.uniform(0, 168)
        arrival, gpus, duration = bursty_jobs(rng, JOBS, calibration, start_hour=begin)
        gap, span, kind = np.diff(arrival), arrival[-1], demand_class(gpus)
        hourly = np.bincount((arrival // 3600).astype(int))[:-1]
        near = gap <= 10
        clock = ((arrival / 3600 + begin) % 24).astype(int)
        below = np.searchsorted(np.sort(duration), run_time, side="right") / JOBS
        known = np.asarray(run_time) < duration.max()  # nothing lies between the cut of a log and itself
        values: dict[str, object] = {
            "rate_per_hour": JOBS / span * 3600,
            "gap_cv": gap.std() / gap.mean(),
            "gaps_to_10s": near.mean(),
            "dispersion": hourly.var() / hourly.mean(),
            "same_demand": (gpus[1:] == gpus[:-1])[near].mean(),
            "gpus_demanded": (gpus * duration).sum() / span,
            "quantiles": np.quantile(duration, [0.5, 0.9, 0.99]),
            "ks": np.abs(below - QUANTILE)[known].max(),
            "class_share": np.bincount(kind, minlength=len(CLASS_NAMES)) / JOBS,
            "class_mean_s": [duration[kind == k].mean() if (kind == k).any() else 0 for k in range(len(CLASS_NAMES))],
            "clock": np.bincount(clock, minlength=24) / span,
        }
        for key, value in values.items():
            rows.setdefault(key, []).append(value)
    measured = {key: np.median(np.array(values), axis=0) for key, values in rows.items()}
    measured["clock"] = np.mean(np.array(rows["clock"]), axis=0)  # of one draw it is mostly noise
    return measured


@pytest.fixture(scope="module", params=[("philly", PHILLY), ("helios-venus", VENUS)], ids=["philly", "helios-venus"])
def drawn(request: pytest.FixtureRequest) -> tuple[dict[str, object], Measured, Calibration]:
    name, calibration = request.param
    return LOGS[name], measure(calibration, LOGS[name]["run_time"]), calibration  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "close"),
    [
        ("rate_per_hour", lambda x, log: abs(x / log - 1) <= 0.05),
        ("gap_cv", lambda x, log: 0.5 <= x / log <= 2),
        ("dispersion", lambda x, log: 0.5 <= x / log <= 2),
        ("gaps_to_10s", lambda x, log: abs(x - log) <= 0.08),
        ("same_demand", lambda x, log: abs(x - log) <= 0.05),
        ("gpus_demanded", lambda x, log: abs(x / log - 1) <= 0.10),
    ],
)
def test_arrivals_and_demand_are_those_of_the_log(
    drawn: tuple[dict[str, float], Measured, Calibration], key: str, close: Callable[[float, float], bool]
) -> None:
    log, measured, _ = drawn
    assert close(float(measured[key]), log[key]), f"{key}: drawn {measured[key]:.4g}, log {log[key]:.4g}"


def test_run_times_are_those_of_the_log(drawn: tuple[dict[str, tuple[float, ...]], Measured, Calibration]) -> None:
    log, measured, _ = drawn
    p50, p90, p99 = measured["quantiles"] / np.array(log["run_time"])[[QUANTILE.index(p) for p in (0.5, 0.9, 0.99)]]
    assert abs(p50 - 1) <= 0.10
    assert abs(p90 - 1) <= 0.20
    assert abs(p99 - 1) <= 0.35
    assert measured["ks"] <= 0.03


def test_classes_are_those_of_the_log(drawn: tuple[dict[str, dict[str, float]], Measured, Calibration]) -> None:
    log, measured, _ = drawn
    for name, share in log["class_share"].items():
        assert measured["class_share"][CLASS_NAMES.index(name)] == pytest.approx(share, abs=0.01)
    for name, mean in log["class_mean_s"].items():
        assert measured["class_mean_s"][CLASS_NAMES.index(name)] == pytest.approx(mean, rel=0.25), name


def test_hours_of_the_day_are_those_of_the_log(drawn: tuple[object, Measured, Calibration]) -> None:
    _, measured, calibration = drawn
    assert np.corrcoef(measured["clock"], calibration.hour_of_day)[0, 1] >= 0.95


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_the_seed_decides(name: str) -> None:
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


def test_draws_do_not_depend_on_the_number_of_jobs_wanted_elsewhere() -> None:
    before = generate_workload("philly", 3, 100).fingerprint()
    generate_workload("helios-venus", 3, 777)
    assert generate_workload("philly", 3, 100).fingerprint() == before


def test_a_day_without_weekly_rhythm_would_be_noticed() -> None:
    hours = PHILLY.hourly_rate.reshape(7, 24)
    assert hours.mean() == pytest.approx(PHILLY.bursts_per_hour)
    assert hours[:, 7].mean() / hours[:, 14].mean() == pytest.approx(2.18 / 0.493)


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
        ("poisson", {"demand": {"64": 1.0}}, "max_gpus"),
    ],
)
def test_wrong_parameters_are_refused(name: str, parameters: dict[str, object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        generate_workload(name, 0, 10, max_gpus=8, **parameters)
    assert "rate_scale" in generator_parameters("philly")
