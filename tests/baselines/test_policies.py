"""Properties of the policies: preemption, EASY's reservations, estimators, quanta, ties, determinism."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers import finish, instance_i, play, preemptions, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import PREEMPT, RESUME
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import JOB_DTYPE, Profiles, Workload
from gpusched_env.simulator import ClairvoyantView, ClusterView, Simulation, simulate

NON_PREEMPTIVE = (
    "fifo", "fifo-skip", "fifo-easy", "sjf", "ssf", "random", "sjf-bco", "bco-rand", "ada-srsf", "yarn-cs",
    "delay-zaharia",
)  # fmt: skip
CLAIRVOYANT = (
    "fifo-easy", "sjf", "ssf", "lpt", "srtf", "srsf", "sjf-bco", "bco-ff", "bco-ls", "ada-srsf", "themis-lite", "hadar",
    "themis", "themis-lease", "hadare", "hadare-single", "hadare-sticky",
)  # fmt: skip


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(NON_PREEMPTIVE), st.sampled_from([0.0, 60.0]))
def test_non_preemptive_policies_never_preempt(seed: int, name: str, round_s: float) -> None:
    assert preemptions(play(random_instance(seed, 25, round_s=round_s), name)) == 0


def first_reservation(ends: list[tuple[float, int]], free: int, gang: int) -> float:
    """Earliest time at which enough GPUs are free, given the running jobs (end, GPUs)."""
    for end, gpus in sorted(ends):
        free += gpus
        if free >= gang:
            return end
    raise AssertionError("the gang is larger than the cluster")


def assert_no_head_is_delayed(instance: Instance, log, claims: np.ndarray) -> None:
    """Replay the log: each head starts by the reservation that it got when it became head."""
    jobs, times = instance.workload.jobs, job_times(instance, log)
    start, end = times["first_start_s"], times["finish_s"]
    moments = np.unique(log.events["time_s"])
    promised: dict[int, float] = {}
    for now in moments:
        waiting = [j for j in range(len(jobs)) if jobs["arrival_s"][j] <= now < start[j]]
        if not waiting or waiting[0] in promised:
            continue
        # the running jobs when the head became head, before any later job was backfilled
        older = [j for j in range(len(jobs)) if start[j] < now < end[j] or (start[j] == now and j < waiting[0])]
        free = instance.cluster.gpus - int(jobs["gpus"][older].sum())
        ends = [(start[j] + claims[j], int(jobs["gpus"][j])) for j in older]
        promised[waiting[0]] = first_reservation(ends, free, int(jobs["gpus"][waiting[0]]))
    for job, latest in promised.items():
        assert start[job] <= latest + 1e-6, f"job {job} was promised {latest} and started at {start[job]}"


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.booleans())
def test_easy_never_delays_the_head_beyond_its_first_reservation(seed: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 30
    duration = rng.lognormal(3.0, 1.0, n)
    jobs = unit_instance(np.cumsum(rng.exponential(8, n)), rng.integers(1, 9, n), duration, "2x4").workload.jobs.copy()
    claims = duration * (1.0 if exact else rng.uniform(1.0, 4.0, n))  # upper bounds
    jobs["estimate_s"] = claims
    instance = Instance(Cluster.parse("2x4"), Workload(jobs, Profiles.unit()), Network("none"))
    log = play(instance, "fifo-easy" if exact else "fifo-easy:estimator=user")
    assert_no_head_is_delayed(instance, log, claims)


def test_easy_backfills_a_short_job_and_not_a_long_one() -> None:
    """4 GPUs: job 0 holds 3 until 10; the head needs 4; at 1 s a 1-GPU job of 9 s is backfilled, one of 10 s is not."""
    assert finish(unit_instance([0, 0, 1], [3, 4, 1], [10, 5, 9], "1x4"), "fifo-easy") == [10, 15, 10]
    assert finish(unit_instance([0, 0, 1], [3, 4, 1], [10, 5, 10], "1x4"), "fifo-easy") == [10, 15, 25]


def test_easy_backfills_gpus_that_the_reservation_leaves_over() -> None:
    """The head needs 3 of 4 GPUs at 10: one long 1-GPU job is backfilled, a second one is not."""
    instance = unit_instance([0, 0, 1, 1], [2, 3, 1, 1], [10, 5, 100, 100], "1x4")
    assert finish(instance, "fifo-easy") == [10, 15, 101, 115]


def test_user_estimates_order_the_jobs_and_a_missing_one_is_an_error() -> None:
    jobs = unit_instance([0, 0, 0], [1, 1, 1], [5, 4, 3], "1x1").workload.jobs.copy()
    jobs["estimate_s"] = [1, 2, 3]
    instance = Instance(Cluster.parse("1x1"), Workload(jobs, Profiles.unit()), Network("none"))
    assert finish(instance, "sjf:estimator=user") == [5, 9, 12]
    jobs = jobs.copy()
    jobs["id"], jobs["estimate_s"][1] = [70, 71, 72], np.nan
    instance = Instance(Cluster.parse("1x1"), Workload(jobs, Profiles.unit()), Network("none"))
    for spec in ("sjf:estimator=user", "srtf:estimator=user"):
        with pytest.raises(SchedulerError, match=r"job 71 has no estimate_s"):
            simulate(instance, make_scheduler(spec))


def test_noise_is_seeded_and_vanishes_with_sigma() -> None:
    instance = random_instance(2, 40)
    runs = {s: play(instance, f"sjf:estimator=noisy,sigma=2,estimator_seed={s}").digest() for s in (1, 2)}
    assert runs[1] != runs[2]
    assert play(instance, "sjf:estimator=noisy,sigma=2,estimator_seed=1").digest() == runs[1]
    assert play(instance, "srtf:estimator=noisy,sigma=0").digest() == play(instance, "srtf").digest()


def test_only_clairvoyant_schedulers_see_run_times() -> None:
    simulation = Simulation(instance_i())
    for name in list_baselines({"links"}):
        scheduler = make_scheduler(name)
        assert scheduler.clairvoyant == (name in CLAIRVOYANT), name
        view = simulation.view_for(scheduler)
        assert isinstance(view, ClusterView)
        assert isinstance(view, ClairvoyantView) == scheduler.clairvoyant
    assert not make_scheduler("sjf:estimator=user").clairvoyant
    assert make_scheduler("srtf:estimator=noisy").clairvoyant
    assert not hasattr(ClusterView(simulation), "ideal_s")
    assert "duration_s" in JOB_DTYPE.names
    assert not any("duration" in name or "iterations" in name for name in dir(ClusterView))


@pytest.mark.parametrize("quantum", [1.0, 60.0, 0.25])
def test_las_shares_one_gpu_in_turns_of_a_quantum(quantum: float) -> None:
    """Two equal jobs on one GPU alternate at every multiple of the quantum, and at no other time."""
    instance = unit_instance([0, 0], [1, 1], [50 * quantum, 50 * quantum], "1x1")
    log = play(instance, f"las:round_s={quantum}")
    changes = log.events["time_s"][log.events["kind"] == PREEMPT]
    assert changes.tolist() == [k * quantum for k in range(1, 99)]


@pytest.mark.parametrize("quantum", [60.0, 0.7, 0.3, 61.7])
def test_las_preempts_at_every_multiple_of_its_quantum(quantum: float) -> None:
    """A job that arrives in the middle of quantum k gets the GPU at its end, for any rounding of k x quantum."""
    missed = []
    for k in range(1, 40):
        instance = unit_instance([0, (k - 0.5) * quantum], [1, 1], [99 * quantum, quantum], "1x1")
        log = play(instance, f"las:round_s={quantum}")
        if log.events["time_s"][log.events["kind"] == PREEMPT][:1].tolist() != [k * quantum]:
            missed.append(k)
    assert missed == []


def test_srtf_incumbents_win_ties() -> None:
    """Job 1 arrives when job 0 has exactly as much left: no preemption."""
    log = play(unit_instance([0, 5], [1, 1], [10, 5], "1x1"), "srtf")
    assert preemptions(log) == 0


def test_srtf_on_preemption_resumes_where_it_stopped() -> None:
    log = play(unit_instance([0, 4], [1, 1], [10, 2], "1x1", checkpoint_s=3, restore_s=2), "srtf")
    # 4: preempted with 6 left; 7: released, job 1 starts; 9: job 0 resumes, works from 11 to 17
    resumed = log.events[log.events["kind"] == RESUME]
    assert resumed["time_s"].tolist() == [9.0]
    assert resumed["value"].tolist() == [11.0]
    assert log.events["time_s"][-1] == 17.0


@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_same_seed_same_digest_and_no_state_between_runs(name: str) -> None:
    """Between its runs, the scheduler is pickled, as for another process."""
    instance, scheduler = random_instance(8, 40), make_scheduler(name)
    digest = simulate(instance, scheduler).digest()
    assert simulate(instance, pickle.loads(pickle.dumps(scheduler))).digest() == digest
    assert simulate(instance, make_scheduler(name)).digest() == digest


def test_random_choice_is_seeded() -> None:
    instance = random_instance(8, 40)
    assert play(instance, "random:seed=1").digest() != play(instance, "random:seed=2").digest()


def test_easy_does_not_delay_the_head_by_a_slow_placement() -> None:
    row = dict(batch=1, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=1.0)
    profiles = Profiles.from_rows(
        [row | {"name": "quiet", "gradient_bytes": 0.0}, row | {"name": "loud", "gradient_bytes": 6e9}]
    )
    workload = Workload.from_columns(
        [0, 0, 1, 2], [3, 3, 8, 2], [100, 100, 50, 90], profiles=profiles, profile=[0, 0, 0, 1]
    )
    instance = Instance(Cluster.parse("2x4/1"), workload, Network(), Semantics(checkpoint_s=0, restore_s=0))
    assert finish(instance, "fifo-easy")[2] == 150.0


def test_equal_run_times_of_different_models_tie() -> None:
    """Ties: the earlier job. Rounding of iterations x seconds of an iteration must not decide."""
    row = dict(batch=1, memory_bytes=0.0, skew=0.0, overlap=1.0, gradient_bytes=0.0)
    profiles = Profiles.from_rows([row | {"name": f"m{i}", "compute_s": 0.1 + i / 7} for i in range(40)])
    workload = Workload.from_columns(
        [0.0] * 41, [1] * 41, [1.0, *[43_200.3] * 40], profiles=profiles, profile=[0, *range(40)]
    )
    log = play(Instance(Cluster.parse("1x1"), workload), make_scheduler("sjf"))
    assert log.events["job"][log.events["kind"] == 1].tolist() == list(range(41))


def test_the_name_of_a_fifo_says_its_queue_discipline() -> None:
    scheduler = make_scheduler("fifo")
    play(unit_instance([0], [1], [10], queue="skip"), scheduler)
    assert scheduler.name == "fifo-skip"
