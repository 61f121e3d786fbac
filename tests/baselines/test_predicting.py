"""Schedulers that read predictions: the claim of a job follows from its class and from how long it has run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import FREE_PREEMPTION, asked, begin, plain_python_digests, play
from hypothesis import given, settings
from hypothesis import strategies as st
from list_policies_decide import SrtfReference, reference
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.estimates import EstimatingScheduler
from gpusched_env.cli.playing import ignored
from gpusched_env.errors import SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.leaderboard.verifying import registered_clairvoyance
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.prediction import PREDICTORS, STARTS_S, Predictor, predictor
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Start, simulate

LISTED = ("srtf:estimator=quantile", "srsf:estimator=none", "srsf:estimator=limit", "sjf:estimator=recency",
    "lpt:estimator=quantile", "ssf:estimator=limit", "fifo-easy:estimator=quantile")  # fmt: skip
THEMIS = ("themis-lite:estimator=quantile,lease_s=60", "themis:estimator=recency,lease_s=60")


def known_users(seed: int, jobs: int = 90, **rules: float) -> Instance:
    """Jobs of four users, whose run times differ, on eight GPUs."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 4, jobs)
    duration = rng.lognormal(3.0 + 1.2 * user, 0.7)
    arrival, gpus = np.cumsum(rng.exponential(250, jobs)), rng.choice([1, 2, 4, 8], jobs, p=(0.5, 0.2, 0.2, 0.1))
    limits = np.where(rng.random(jobs) < 0.8, duration * rng.choice([1.5, 4.0], jobs), np.nan)
    workload = Workload.from_columns(arrival, gpus, duration, estimate_s=limits)
    workload = workload.unchecked_replace(attributes={"user": np.array([f"u{one}" for one in user])})
    return Instance(Cluster.parse("2x4"), workload, Network("none"), Semantics(**(FREE_PREEMPTION | rules)))  # type: ignore[arg-type]


# --- the rule


@pytest.mark.parametrize("restart_s", [0.0, 30.0])
@pytest.mark.parametrize("name", ["sjf", "srsf", "fifo-easy"])
def test_the_claim_is_what_the_class_has_left_at_the_level_that_a_job_has_reached(name: str, restart_s: float) -> None:
    """Half of the jobs end in level 20, half in level 40: by hand, with the middles and ends of these levels."""
    workload = Workload.from_columns([0.0], [1], [1e6])
    semantics = Semantics(checkpoint_s=restart_s, restore_s=restart_s)
    scheduler = make_scheduler(f"{name}:estimator=none")
    assert isinstance(scheduler, EstimatingScheduler)
    simulation = begin(Instance(Cluster.parse("1x1"), workload, Network("none"), semantics))
    view = simulation.view_for(scheduler)
    EstimatingScheduler.reset(scheduler, view)
    history = scheduler._history
    assert history is not None
    history.shares[:] = 1e-300
    history.shares[0, [20, 40]] = 0.5
    assert simulation.apply(Start(0, "pack")) == ""
    early, late = ((STARTS_S[level] + STARTS_S[level + 1]) / 2 for level in (20, 40))
    for had_s in (1.0, 5.0, 100.0, 250.0, 599.0, 601.0, 5e3, 2e4):
        simulation.wake_at(had_s)
        simulation.advance()
        level = np.flatnonzero(had_s > STARTS_S)[-1]
        if STARTS_S[level] < 10 * 2 * restart_s:
            level = 0
        mean, index = (early + late) / 2, early + STARTS_S[21] - STARTS_S[level]  # to the end of level 20, for one end
        if level > 20:
            mean = index = late
        claim = {"sjf": mean, "srsf": index, "fifo-easy": STARTS_S[41]}[name]
        assert scheduler.remaining_s(view, np.array([0])) == pytest.approx([max(claim - had_s, 0.0)])


def test_jobs_of_short_users_go_first_once_they_are_known() -> None:
    """Users a and b take turns with jobs of 10 and 1,000 s; then both submit while another job runs."""
    pairs = 40
    duration = np.array([10.0, 1000.0] * pairs + [500.0, 1000.0, 10.0])
    arrival = np.append(np.arange(2 * pairs) * 2000.0, 2 * pairs * 2000.0 + np.arange(3.0))
    workload = Workload.from_columns(arrival, np.ones(len(arrival), int), duration)
    users = np.array(["a", "b"] * pairs + ["a", "b", "a"])
    workload = workload.unchecked_replace(attributes={"user": users})
    case = Instance(Cluster.parse("1x1"), workload, Network("none"), Semantics())
    starts = {
        name: job_times(case, play(case, f"sjf:estimator={name}"))["first_start_s"] for name in ("quantile", "none")
    }
    assert starts["quantile"][-1] < starts["quantile"][-2]
    assert starts["none"][-1] > starts["none"][-2]


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_without_history_the_shortest_job_first_is_first_in_first_out(seed: int) -> None:
    case = known_users(seed)
    assert play(case, "sjf:estimator=none").digest() == play(case, "fifo-skip").digest()
    bare = case.workload.unchecked_columns(estimate_s=np.full(len(case.workload), math.nan))
    bare_case = Instance(case.cluster, bare, case.network, case.semantics)
    assert play(bare_case, "srsf:estimator=limit").digest() == play(bare_case, "srsf:estimator=none").digest()


# --- everybody plays alike


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), restart_s=st.sampled_from([0.0, 5.0]))
@pytest.mark.parametrize("spec", LISTED)
def test_list_schedulers_predict_in_kernels_as_in_python(spec: str, seed: int, restart_s: float) -> None:
    case = known_users(seed, checkpoint_s=restart_s, restore_s=restart_s)
    digest = play(case, spec).digest()
    assert digest == play(case, reference(spec)).digest()
    assert digest == play(case, asked(make_scheduler(spec))).digest()


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_themis_predicts_in_kernels_as_in_decide(seed: int) -> None:
    case = known_users(seed)
    assert play(case, THEMIS[0]).digest() == play(case, asked(make_scheduler(THEMIS[0]))).digest()


class Doubting(SrtfReference):
    """Compares its estimates at each decision with those of a scheduler that begins now."""

    def decide(self, view):  # type: ignore[no-untyped-def]
        newcomer = SrtfReference(estimator=self.estimator)
        newcomer.reset(view)
        rows = np.concatenate([view.running, view.waiting])
        assert newcomer.remaining_s(view, rows).tolist() == self.remaining_s(view, rows).tolist()
        yield from super().decide(view)


def test_a_scheduler_that_takes_over_has_learned_the_same() -> None:
    play(known_users(3), Doubting(estimator="quantile"))


@pytest.mark.parametrize("spec", [LISTED[0], LISTED[-1], *THEMIS])
def test_predictions_are_played_alike_through_the_environment(spec: str) -> None:
    scenario = get_scenario("tiny-v1")
    through = play_scheduler(wide_open(scenario, 0), make_scheduler(spec), 0)
    assert through.digest() == simulate(scenario.instance(0), make_scheduler(spec), seed=0).digest()


def digests() -> list[str]:
    """Digest of each scheduler, for a process without compilation."""
    case = known_users(5, 60, restore_s=5.0)
    return [simulate(case, make_scheduler(spec)).digest() for spec in (*LISTED, THEMIS[0])]


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.baselines.test_predicting") == digests()


# --- names, and what is told


def test_an_unknown_estimator_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(SchedulerError) as refusal:
        make_scheduler("sjf:estimator=zzz")
    assert all(name in str(refusal.value) for name in ("oracle", "noisy", "user", *PREDICTORS))


def test_who_predicts_reads_no_true_run_times() -> None:
    assert not make_scheduler("srsf:estimator=recency").clairvoyant
    assert not registered_clairvoyance("srsf", {"estimator": "recency"})
    assert registered_clairvoyance("srsf", {"estimator": "noisy"})
    assert registered_clairvoyance("srsf", {})


def test_predictions_that_are_worse_than_none_are_given_up_and_that_is_told() -> None:
    @predictor("by-lot")
    class ByLot(Predictor):
        def predict(self, row: int) -> float:
            return float(7919 * row % 101 + 1)

        def end(self, row: int, run_time_s: float, killed: bool) -> None:
            pass

    try:
        (result,) = evaluate("common-96-v1", ["sjf:estimator=by-lot"], [0])
        told = "given up: predictions of by-lot in sjf, worse than none, of jobs"
        assert result.caveats[told] > 0
        assert any(line.startswith(told) for line in ignored([result]))
        assert not evaluate("common-96-v1", ["sjf:estimator=none"], [0])[0].caveats.keys() & {told}
        assert not registered_clairvoyance("sjf", {"estimator": "by-lot"})
    finally:
        del PREDICTORS["by-lot"]
