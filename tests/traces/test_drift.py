"""The drifting generator: its rate oscillates and its mix shifts at the right times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from gpusched_env.traces import generate_workload

DAY = 86_400.0  # [s]
RATE = 0.05  # [1/s]
SMALL, LARGE = {"1": 0.75, "2": 0.25}, {"8": 0.5, "16": 0.5}


def arrivals(seed: int, jobs: int = 20_000, **parameters: float) -> np.ndarray:
    return generate_workload("drift", seed, jobs, rate_per_s=RATE, **parameters).jobs["arrival_s"]


def expected(time_s: np.ndarray, swing: float, period_s: float) -> np.ndarray:
    """Expected arrivals up to each time divided by the mean rate [s]: the integral of the oscillating rate, by hand."""
    periods, within = np.divmod(time_s, period_s)
    half = period_s / 2
    return periods * period_s + (1 - swing) * np.minimum(within, half) + (1 + swing) * np.maximum(within - half, 0)


@pytest.mark.parametrize(("swing", "period_s"), [(0.0, DAY), (0.5, DAY), (0.9, 3_600.0), (1.0, 7_200.0)])
def test_time_rescaled_by_the_rate_gives_the_poisson_process_of_the_seed(swing: float, period_s: float) -> None:
    for seed in range(5):
        steady = generate_workload("poisson", seed, 5_000, rate_per_s=RATE).jobs["arrival_s"]
        swinging = arrivals(seed, 5_000, swing=swing, period_s=period_s)
        np.testing.assert_allclose(expected(swinging, swing, period_s), steady, rtol=1e-9, atol=1e-6)


def p_value(arrival_s: np.ndarray, swing: float) -> float:
    """Chi-square of the counts in each half day, given their sum, against rates 1 - swing and 1 + swing in turn."""
    halves = int(arrival_s[-1] // (DAY / 2))
    counts = np.bincount((arrival_s[1:] // (DAY / 2)).astype(int), minlength=halves)[:halves]
    rates = np.where(np.arange(halves) % 2 == 0, 1 - swing, 1 + swing)
    means = counts.sum() * rates / rates.sum()
    return float(chi2.sf(((counts - means) ** 2 / means).sum(), halves - 1))


def test_counts_of_half_days_fit_the_swing_and_no_other() -> None:
    for seed in range(10):
        drawn = arrivals(seed, swing=0.5)
        assert p_value(drawn, 0.5) > 1e-3
        assert p_value(drawn, 0.4) < 1e-6
    values = [p_value(arrivals(seed, swing=0.5), 0.5) for seed in range(100, 140)]
    assert 0.3 < np.mean(values) < 0.7  # uniform: mean 1/2, standard deviation of it 0.046


def test_nothing_arrives_in_the_quiet_halves_of_a_full_swing() -> None:
    drawn = arrivals(0, swing=1.0)
    assert drawn[0] == 0.0
    assert (drawn[1:] % DAY >= DAY / 2).all()
    assert len(np.unique(drawn // DAY)) > 3


def test_the_mix_shifts_at_its_time() -> None:
    for seed in range(5):
        parameters = {"rate_per_s": RATE, "demand": SMALL, "late_demand": LARGE, "shift_s": 2 * DAY}
        jobs = generate_workload("drift", seed, 20_000, **parameters).jobs
        early = jobs["arrival_s"] < 2 * DAY
        assert set(jobs["gpus"][early]) == {1, 2}
        assert set(jobs["gpus"][~early]) == {8, 16}
        for sizes, mix in ((jobs["gpus"][early], SMALL), (jobs["gpus"][~early], LARGE)):
            assert len(sizes) > 5_000
            for size, share in mix.items():
                deviation = math.sqrt(share * (1 - share) / len(sizes))
                assert abs((sizes == int(size)).mean() - share) < 4 * deviation
        limited = generate_workload("drift", seed, 20_000, max_gpus=8, **parameters).jobs["gpus"]
        assert set(limited[~early]) == {8}


def test_without_a_shift_the_mix_stays() -> None:
    plain = generate_workload("drift", 3, 1_000, rate_per_s=RATE, demand=SMALL)
    late = generate_workload("drift", 3, 1_000, rate_per_s=RATE, demand=SMALL, late_demand=LARGE)
    assert plain.fingerprint() == late.fingerprint()
