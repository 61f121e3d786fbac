"""The study of known users: its windows, what jobs tell, and its bounds."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import unit_instance
from published import TRACES

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError
from gpusched_env.traces.transform import offered_load
from studies.known_users.bounds import shuffled_limits, true_limits
from studies.known_users.rivals import ESTIMATORS, specs
from studies.known_users.windows import GPUS, LOGS, NUMBERS, REPORTED, Window, list_windows, log_jobs
from studies.unseen_logs.scores import score
from studies.unseen_logs.windows import TEST, TRAINING

USERS = TRACES.parent / "users"
needs_users = pytest.mark.skipif(not USERS.is_dir(), reason="needs the logs with users")


def test_training_ends_before_the_test_begins() -> None:
    for log in LOGS:
        training, test = ([one.first for one in list_windows(use) if one.log == log] for use in (TRAINING, TEST))
        assert (len(training), len(test)) == (NUMBERS[TRAINING], NUMBERS[TEST])
        assert max(training) + REPORTED <= min(test)


@needs_users
@pytest.mark.parametrize("window", list_windows(TEST)[::20], ids=lambda one: one.name)
def test_the_scored_jobs_are_the_same_after_every_warm_up(window: Window) -> None:
    alone, played = window.workload(USERS, warm_up=0), window.workload(USERS)
    assert (len(alone), len(played)) == (REPORTED, 2 * REPORTED)
    for column in ("id", "gpus", "profile", "duration_s", "estimate_s"):
        np.testing.assert_array_equal(played.jobs[column][-REPORTED:], alone.jobs[column])
    spans = (np.diff(one.jobs["arrival_s"][-REPORTED:]) for one in (alone, played))
    np.testing.assert_allclose(*spans, rtol=1e-6, atol=1e-6)
    assert offered_load(alone, GPUS) == pytest.approx(window.load)
    assert alone.jobs["gpus"].max() <= GPUS // 2


@needs_users
def test_jobs_tell_what_the_version_says() -> None:
    window = list_windows(TRAINING)[0]
    told = {version: window.workload(USERS, version, 0) for version in ("limits", "users", "nothing")}
    assert [np.isnan(one.jobs["estimate_s"]).all() for one in told.values()] == [False, True, True]
    assert ["user" in one.attributes for one in told.values()] == [True, True, False]
    with pytest.raises(ScenarioError, match="users"):
        window.workload(USERS, "user")


@needs_users
def test_a_gang_is_the_same_part_of_the_cluster_rounded_up() -> None:
    gpus = log_jobs(USERS, "kth").jobs["gpus"]
    assert {int(one) for one in np.unique(gpus)} <= {-(-processors * 128 // 100) for processors in range(1, 101)}


@needs_users
def test_shuffled_limits_are_run_times_of_the_same_user_and_gang() -> None:
    workload = list_windows(TRAINING)[0].workload(USERS, warm_up=0)
    true, shuffled = true_limits(workload).jobs, shuffled_limits(workload).jobs
    assert (true["estimate_s"] == workload.jobs["duration_s"]).all()
    assert (shuffled["estimate_s"] != true["estimate_s"]).any()
    keys = [(user, gang) for user, gang in zip(workload.attributes["user"], true["gpus"], strict=True)]
    for columns in (true, shuffled):
        assert sorted(zip(keys, columns["estimate_s"], strict=True)) == sorted(
            zip(keys, true["duration_s"], strict=True)
        )


def test_only_the_last_jobs_are_scored() -> None:
    instance = unit_instance([0.0, 0.0], [4, 4], [100.0, 10.0])
    assert score(make_scheduler("fifo"), instance, 1).mean_jct_s == pytest.approx(110.0)
    assert score(make_scheduler("fifo"), instance).mean_jct_s == pytest.approx(105.0)


def test_rivals_that_read_predictions_have_a_form_without_history() -> None:
    none = {name.partition(" ")[0] for name in specs("nothing") if name.endswith(" none")}
    assert all(name.partition(" ")[0] in none for told in ESTIMATORS if told != "nothing" for name in specs(told))
