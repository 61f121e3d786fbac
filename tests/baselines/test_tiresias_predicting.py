"""Tiresias with estimates: the queue of a job follows from the GPU time that it is predicted to need in all."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import asked, finish, first_starts, plain_python_digests, play, random_workload, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st
from list_policies_decide import reference

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.leaderboard.verifying import registered_clairvoyance
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from tests.baselines.test_predicting import known_users

LISTED = (
    "tiresias:estimator=quantile,thresholds=300/5000", "tiresias:estimator=limit,policy=entry,thresholds=1000",
    "tiresias:estimator=recency,demote_on=held,thresholds=100/1000",
    "tiresias-g:estimator=quantile,thresholds=100/1000", "tiresias:estimator=noisy,thresholds=300",
    "tiresias:estimator=oracle,thresholds=100/1000,packlimit=inf",  # along lines
    "tiresias:estimator=none,incumbents_first=true,thresholds=50/200", "tiresias-g:estimator=oracle",
)  # fmt: skip
# Digests of ``known_users(5, 60, restore_s=5.0)`` before there was a parameter ``estimator``.
BEFORE = {
    "tiresias": "f8087dd6b737c3a0", "tiresias:thresholds=300/5000,knob=8": "5a4f0c3dfce371c0",
    "tiresias-g:thresholds=1000,incumbents_first=true": "17eb7d6f8bcdd33d",
}  # fmt: skip


def claiming(arrival: list[float], duration: list[float], claims: list[float]) -> Instance:
    """Jobs on one GPU whose users claim run times."""
    case = unit_instance(arrival, [1] * len(arrival), duration, "1x1")
    workload = case.workload.unchecked_columns(estimate_s=np.array(claims))
    return Instance(case.cluster, workload, case.network, case.semantics)


# --- by hand


@pytest.mark.parametrize(("estimator", "expected"), [("", [200, 300]), ("user", [300, 100]), ("oracle", [200, 300])])
def test_a_job_that_seems_long_waits_behind_one_that_seems_short(estimator: str, expected: list[float]) -> None:
    """By its claim of 10,000 s, job 0 begins in the second queue; in truth both jobs are of the first one."""
    case = claiming([0.0, 0.0], [200.0, 100.0], [1e4, 100.0])
    assert finish(case, "tiresias", estimator=estimator) == expected


@pytest.mark.parametrize(("estimator", "demoted_s"), [("", 3600.0), ("user", 3000.0)])
def test_a_job_is_demoted_when_a_claim_is_revised_or_its_service_is_attained(estimator: str, demoted_s: float) -> None:
    """At 3,000 s, job 0 passes its claim, which doubles beyond the limit of 3,600 GPU s."""
    case = claiming([0.0, 100.0], [5000.0, 1000.0], [3000.0, 3500.0])
    assert finish(case, "tiresias", estimator=estimator) == pytest.approx([6000.0, demoted_s + 1000.0])


@pytest.mark.parametrize(("estimator", "of_a_first"), [("quantile", True), ("none", False)])
def test_the_queue_is_that_of_jobs_with_similar_predictions(estimator: str, of_a_first: bool) -> None:
    """Jobs of a took 10 s, those of b 1,000 s. Then one job of b and one of a come while another one runs.

    With predictions, the job of b begins in the second queue. Without, it is in the first queue, as more than a quarter
    of all jobs end early, and it has come before that of a.
    """
    pairs = 40
    arrival = np.append(np.arange(2 * pairs) * 2000.0, 4000.0 * pairs + np.arange(3.0))
    case = unit_instance(arrival, [1] * len(arrival), [10.0, 1000.0] * pairs + [500.0, 1000.0, 10.0], "1x1")
    workload = case.workload.unchecked_replace(attributes={"user": np.array(["a", "b"] * pairs + ["a", "b", "a"])})
    known = Instance(case.cluster, workload, case.network, case.semantics)
    starts = first_starts(known, f"tiresias:estimator={estimator},thresholds=100")
    assert (starts[-1] < starts[-2]) == of_a_first


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_jobs_that_all_seem_long_are_served_first_in_first_out(seed: int) -> None:
    workload = random_workload(np.random.default_rng(seed), 25, 16)
    workload.profiles.rows["skew"] = 0.0
    case = Instance(Cluster.parse("4x4/2"), workload, None, Semantics())
    limit = float(workload.jobs["gpus"] @ case.ideal_s) / 1e9
    assert play(case, f"tiresias:estimator=oracle,thresholds={limit}").digest() == play(case, "fifo-skip").digest()


# --- everybody plays alike


@pytest.mark.parametrize("spec", BEFORE)
def test_without_an_estimator_nothing_has_changed(spec: str) -> None:
    case = known_users(5, 60, restore_s=5.0)
    assert play(case, spec).digest()[:16] == BEFORE[spec]
    assert play(case, spec, estimator="").digest()[:16] == BEFORE[spec]


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), restart_s=st.sampled_from([0.0, 5.0]))
@pytest.mark.parametrize("spec", LISTED)
def test_queues_are_predicted_in_kernels_as_in_python(spec: str, seed: int, restart_s: float) -> None:
    case = known_users(seed, checkpoint_s=restart_s, restore_s=restart_s)
    digest = play(case, spec).digest()
    assert digest == play(case, reference(spec)).digest()
    assert digest == play(case, asked(make_scheduler(spec))).digest()


def digests() -> list[str]:
    """Digest of each scheduler, for a process without compilation."""
    case = known_users(5, 60, restore_s=5.0)
    return [simulate(case, make_scheduler(spec)).digest() for spec in LISTED]


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.baselines.test_tiresias_predicting") == digests()


# --- parameters


@pytest.mark.parametrize("wrong", ["estimator=zzz", "estimator=quantile,knob=8", "estimator=user,demoted=tail"])
def test_an_unknown_estimator_and_other_rules_of_queues_are_refused(wrong: str) -> None:
    with pytest.raises(SchedulerError, match="estimator"):
        make_scheduler(f"tiresias:{wrong}")


def test_a_missing_claim_is_refused() -> None:
    with pytest.raises(SchedulerError, match="no estimate_s"):
        play(Instance(Cluster.parse("1x1"), Workload.from_columns([0.0], [1], [9.0])), "tiresias:estimator=user")


def test_only_true_run_times_make_it_clairvoyant() -> None:
    told = {one: registered_clairvoyance("tiresias", {"estimator": one}) for one in ("oracle", "noisy", "recency", "")}
    assert [name for name, reads in told.items() if reads] == ["oracle", "noisy"]
