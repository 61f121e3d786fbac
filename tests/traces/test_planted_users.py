"""Generators with users: marginals stay, jobs recur as in the logs, and names tell what was planted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpusched_env.errors import WorkloadError
from gpusched_env.traces.generators.synthetic import generate_workload
from gpusched_env.traces.generators.users import RECURRENCE, plant_users, recurrence

JOBS = 20_000
# recurrence.md, "Measured here": within 10 %, x2, x10 of the last job of (virtual cluster, gang) or of the gang; and
# "What is known": share of the jobs of the most active 5 % of users
LOGS = {
    "philly": (300, (0.44, 0.81, 0.94), (0.45, 0.60)),
    "helios-venus": (300, (0.24, 0.44, 0.68), (0.45, 0.60)),
    "pai": (1300, (0.12, 0.37, 0.68), (0.72, 0.82)),
}


def within(key: np.ndarray, run_time_s: np.ndarray, bound: float) -> float:
    """Share of jobs within a factor of the last job of their key that has three earlier ones, job by job."""
    past: dict[int, list[float]] = {}
    found = []
    for one, seconds in zip(key.tolist(), run_time_s.tolist(), strict=True):
        known = past.setdefault(one, [])
        if len(known) >= 3:
            found.append(max(known[-1], seconds) / min(known[-1], seconds) <= bound)
        known.append(seconds)
    return sum(found) / len(found)


@pytest.mark.parametrize("name", LOGS)
def test_jobs_recur_as_in_the_log(name: str) -> None:
    users, shares, top = LOGS[name]
    plain = generate_workload(name, 1, JOBS).jobs
    planted = generate_workload(name, 1, JOBS, users=users)
    jobs, told = planted.jobs, planted.attributes
    np.testing.assert_array_equal(jobs["arrival_s"], plain["arrival_s"])
    np.testing.assert_array_equal(jobs["gpus"], plain["gpus"])
    for gang in np.unique(plain["gpus"]):  # the same run times, given to other jobs of the class
        if gang in (1, 2, 8):  # these gang sizes are classes of their own
            mine, theirs = (np.sort(one["duration_s"][one["gpus"] == gang]) for one in (jobs, plain))
            np.testing.assert_array_equal(mine, theirs)
    key = jobs["gpus"].astype(int)
    if name == "philly":
        key = key + 1_000 * np.unique(told["virtual_cluster"], return_inverse=True)[1]
    found = recurrence(key, jobs["duration_s"])
    assert found == pytest.approx([within(key, jobs["duration_s"], bound) for bound in (1.1, 2.0, 10.0)])
    assert found == pytest.approx(shares, abs=0.05)
    counts = np.sort(np.unique(told["user"], return_counts=True)[1])[::-1]
    assert top[0] <= counts[: users // 20].sum() / JOBS <= top[1]
    assert all(len(set(told["virtual_cluster"][told["user"] == user])) == 1 for user in ("u0", "u7"))


def test_names_tell_more_than_users_and_gangs_do_and_nothing_without_repetition() -> None:
    for theta, beats in ((10.0, True), (1e9, False)):
        planted = generate_workload("pai", 1, JOBS, users=1300, theta=theta)
        user, name = (np.unique(planted.attributes[one], return_inverse=True)[1] for one in ("user", "name"))
        gang, seconds = planted.jobs["gpus"].astype(int), planted.jobs["duration_s"]
        of_gang, of_user, of_name = (recurrence(key, seconds)[1] for key in (gang, 1_000 * user + gang, name))
        repeated = np.unique(name, return_counts=True)[1]
        share = repeated[repeated >= 5].sum() / JOBS
        if beats:  # within a template: siblings, or ln 2 / (sqrt(2) sigma) standard deviations, here as a lower bound
            assert of_gang + 0.05 < of_user < of_name - 0.1
            assert of_name > 0.9 * math.erf(math.log(2.0) / 2.0 / 0.4)
            assert 0.6 <= share <= 0.9  # recurrence.md: .65 of the tasks of PAI
        else:
            assert of_user == pytest.approx(of_gang, abs=0.03)
            assert share < 0.03


def test_the_same_seed_plants_the_same_users() -> None:
    one, other = (generate_workload("philly", 4, 500, users=40) for _ in range(2))
    assert one.fingerprint() == other.fingerprint()
    assert not generate_workload("philly", 4, 500).attributes


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"users": -1}, "users is -1"),
        ({"users": 2.5}, "users is 2.5"),
        ({"users": math.nan}, "users is nan"),
        ({"users": 5, "theta": 0}, "theta"),
    ],
)
def test_impossible_users(parameters: dict[str, float], complaint: str) -> None:
    with pytest.raises(WorkloadError, match=complaint):
        generate_workload("philly", 0, 10, **parameters)


def test_templates_may_be_older_than_any_weight_can_tell() -> None:
    """After a century, the weight of each template is 0."""
    drawn = 4e9 * np.arange(60.0), np.ones(60, np.int64), np.arange(1.0, 61.0)
    planted = plant_users(np.random.default_rng(0), drawn, RECURRENCE["pai"], 2, 1e-9)
    assert sorted(planted.duration_s.tolist()) == drawn[2].tolist()
    assert len(np.unique(planted.template)) == 2
