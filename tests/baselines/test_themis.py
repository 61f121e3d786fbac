"""Themis and Themis-lite: leases; when Themis-lite ranks the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from helpers import (
    finish,
    linked_scenario,
    play,
    play_both,
    random_instance,
    random_workload,
    tied_instance,
    two_types,
    unit_instance,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from themis_reference import FullThemis

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.themis.scheduler import Themis
from gpusched_env.event_log import LEASE_END, PREEMPT, RESUME, START
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import ClusterView, Decision, simulate


def test_as_the_policy_sees_it() -> None:
    """Job 0 holds all GPUs; jobs 1 and 2 arrive at 100 and 150 s.
    At 150 s two jobs have been in the system since job 1 arrived.
    """
    instance = unit_instance([0, 100, 150], [8, 4, 8], [200, 200, 100], "1x8")
    # at 200 s: 2.5 jobs on average, so 3.2 GPUs for job 1, whose fair time is 200 x 4 / 3.2 = 250 s
    assert finish(instance, Themis()) == [200, 400, 500]  # (100 + 200) / 250 is more than (50 + 100) / 300


# --- leases


@pytest.mark.parametrize("name", ["themis-lite", "themis"])
def test_two_equal_gangs_take_leases_in_turn(name: str) -> None:
    """0-1200 job 0, 1200-2400 job 1, ...: the waiting job has the larger rho."""
    instance = unit_instance([0, 0], [4, 4], [2400, 2400], "1x4")
    assert finish(instance, name) == [3600, 4800]
    assert finish(instance, f"{name}:lease_s=600") == [4200, 4800]


@pytest.mark.parametrize("name", ["themis-lite", "themis"])
def test_a_renewed_lease_costs_nothing(name: str) -> None:
    instance = unit_instance([0, 50], [4, 2], [5000, 100], "1x8", checkpoint_s=30, restore_s=30)
    log = play(instance, name)
    assert finish(instance, name) == [5000, 150]
    assert log.events["time_s"][log.events["kind"] == LEASE_END].tolist() == [1200, 2400, 3600, 4800]


@pytest.mark.parametrize("name", ["themis-lite", "themis"])
def test_a_lease_is_kept_until_its_end(name: str) -> None:
    """Job 1 has the larger rho from 100 s on and waits for the end of the lease;
    then there is a checkpoint and no restore.
    """
    instance = unit_instance([0, 10], [4, 4], [3000, 60], "1x4", checkpoint_s=30, restore_s=30)
    assert finish(instance, name) == [1200 + 30 + 60 + 30 + 1800, 1200 + 30 + 60]


LEASING = (
    "themis-lite:lease_s=120", "themis-lite:lease_s=120,estimator=noisy", "themis:lease_s=120",
    "themis:lease_s=120,payment=lease", "themis:lease_s=120,payment=none", "themis:lease_s=120,fairness_knob=0.3",
    "themis:lease_s=120,app=tenant", "themis:lease_s=120,estimator=noisy",
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 30.0]), st.sampled_from(LEASING), st.sampled_from([0.0, 60.0]))
def test_no_job_loses_gpus_before_the_end_of_its_lease(seed: int, cost: float, spec: str, round_s: float) -> None:
    log = play(random_instance(seed, 30, checkpoint_s=cost, restore_s=cost, round_s=round_s), spec)
    leased: dict[int, float] = {}
    ends = {(int(e["job"]), e["time_s"]) for e in log.events if e["kind"] == LEASE_END}
    for event in log.events:
        if event["kind"] in (START, RESUME):
            leased[int(event["job"])] = event["time_s"]
        elif event["kind"] == PREEMPT:
            held = event["time_s"] - leased[int(event["job"])]
            assert held / 120 == pytest.approx(round(held / 120)) or "payment=lease" in spec
            assert (int(event["job"]), event["time_s"]) in ends


@pytest.mark.parametrize("name", ["themis-lite", "themis"])
def test_estimates_of_users_may_be_too_short_or_zero(name: str) -> None:
    jobs = unit_instance([0, 0, 0], [4, 4, 4], [3000, 3000, 3000], "1x4").workload.jobs.copy()
    jobs["estimate_s"] = [0, 100, 9000]
    rules = Semantics(checkpoint_s=0, restore_s=0)
    instance = Instance(Cluster.parse("1x4"), Workload(jobs, Profiles.unit()), Network("none"), rules)
    ends = finish(instance, f"{name}:estimator=user")
    assert max(ends) == 9000
    assert not make_scheduler(f"{name}:estimator=user").clairvoyant


# --- cost of decisions


@settings(max_examples=80)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 30.0]),
    st.sampled_from([0.0, 60.0]),
    st.sampled_from([120.0, 1200.0, np.inf]),
    st.sampled_from([{}, {"estimator": "noisy"}]),
    st.sampled_from(["pack", "consolidate", "random", "fork"]),
    st.sampled_from([0, 7]),
    st.booleans(),
)
def test_skipping_the_ranking_changes_no_log(
    seed: int,
    cost: float,
    round_s: float,
    lease_s: float,
    options: dict[str, Any],
    placement: str,
    step: int,
    mixed: bool,
) -> None:
    machines = two_types() if mixed else Cluster.parse("4x4/2")
    copies = 2 if placement == "fork" else 1
    largest = machines.gpus if copies == 1 else 2  # a copied gang must fit into each machine
    workload = random_workload(np.random.default_rng(seed), 40, largest, machines.gpu_types)
    rules = Semantics(
        checkpoint_s=cost,
        restore_s=cost,
        round_s=round_s,
        max_copies=copies,
        step_iterations=step if copies == 1 else 0,
    )
    instance = Instance(machines, workload, None, rules)
    parameters = {"lease_s": lease_s, "placement": placement, **options}
    ours, full = (simulate(instance, policy(**parameters)).digest() for policy in (Themis, FullThemis))
    assert ours == full


def test_jobs_that_tie_in_theory_keep_their_order() -> None:
    """Few lengths, and jobs that arrive together: of equal rho the earlier row goes first, whatever the last bits."""
    for seed in range(12):
        instance = tied_instance(seed)
        ours, full = (simulate(instance, policy(lease_s=60)).digest() for policy in (Themis, FullThemis))
        assert ours == full


def test_skipping_the_ranking_changes_no_log_under_contention() -> None:
    instance = linked_scenario(jobs=60).instance(3)
    assert simulate(instance, Themis(lease_s=120)).digest() == simulate(instance, FullThemis(lease_s=120)).digest()


class Ranked(Themis):
    """Count the decision points at which the GPUs are offered."""

    offers = 0

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        yield from super().decide(view)
        self.offers += int(self._table.memory["count"] > 0)


def test_leases_are_renewed_without_an_offer_if_no_waiting_job_fits() -> None:
    """Two gangs of 4 have 100 leases each.
    The third, of 8, waits all the time, since half of the GPUs are too few for it.
    """
    scheduler = Ranked(lease_s=100)
    instance = unit_instance([0, 50, 60], [4, 4, 8], [10_000, 10_000, 50], "1x8")
    assert finish(instance, scheduler) == [10_000, 10_050, 10_100]
    assert scheduler.offers == 3  # the starts


def test_leases_are_renewed_without_an_offer_jobs_that_are_clearly_better_off() -> None:
    """Job 0 has done most of its 10,000 s when job 1 arrives with 50,000 s; ten leases of 100 s end meanwhile."""
    scheduler = Ranked(lease_s=100)
    instance = unit_instance([0, 9050], [8, 8], [10_000, 50_000], "1x8")
    assert finish(instance, scheduler) == [10_000, 60_000]
    assert scheduler.offers == 2  # the starts


@pytest.mark.parametrize(
    "spec",
    ["themis-lite:lease_s=60", "themis-lite:estimator=noisy,lease_s=100", "themis-lite:placement=random,lease_s=50"],
)
@pytest.mark.parametrize("rules", [{}, {"checkpoint_s": 0.0, "restore_s": 0.0}, {"round_s": 60.0}])
def test_the_player_gives_the_log_of_decide(spec: str, rules: dict[str, float]) -> None:
    instance = random_instance(4, 30, **rules)
    play_both(instance, spec)
