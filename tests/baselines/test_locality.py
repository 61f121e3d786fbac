"""YARN-CS and classic delay scheduling: which jobs wait for a local placement, and for how long."""

from __future__ import annotations

import numpy as np
from helpers import finish, first_starts, play, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.yarn_cs import fits_one_switch
from gpusched_env.event_log import START
from gpusched_env.problem.cluster import MACHINE, NETWORK, Cluster, NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import Simulation, Start


def tiers(instance: Instance, spec: str) -> dict[int, int]:
    """Tier of each job's start."""
    events = play(instance, spec).events
    return {int(e["job"]): int(e["tier"]) for e in events if e["kind"] == START}


def half_of_each_switch(**rules: object) -> Instance:
    """From 1 s on four GPUs are free below each of two switches; a gang of eight arrives at 2 s, a small one at 3 s."""
    return unit_instance([0, 0, 0, 2, 3], [4, 4, 4, 8, 1], [100, 1, 100, 10, 5], "4x4/2", **rules)


# --- YARN-CS


def test_yarn_cs_waits_for_one_switch_where_best_fit_crosses() -> None:
    assert first_starts(half_of_each_switch(), "yarn-cs")[3] == 100
    assert first_starts(half_of_each_switch(), "fifo")[3] == 2
    assert tiers(half_of_each_switch(), "fifo")[3] == NETWORK


def test_yarn_cs_is_strict_unless_the_scenario_says_otherwise() -> None:
    assert first_starts(half_of_each_switch(), "yarn-cs")[4] == 100
    assert first_starts(half_of_each_switch(queue="skip"), "yarn-cs")[4] == 3


def test_the_other_modes_of_the_repository_never_wait_for_a_switch() -> None:
    for mode in ("random", "count"):
        assert first_starts(half_of_each_switch(), f"yarn-cs:placement={mode}")[3] == 2


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=3), st.data())
def test_a_gang_fits_under_one_switch_exactly_if_yarn_places_it_on_the_empty_cluster(groups: list, data) -> None:
    cluster = Cluster([NodeGroup(count, gpus, "V100", per_rack) for count, gpus, per_rack in groups])
    gang = data.draw(st.integers(1, cluster.gpus))
    simulation = Simulation(unit_instance([0], [gang], [1], cluster))
    simulation.advance()
    assert fits_one_switch(cluster, gang) == (simulation.apply(Start(0, "yarn")) == "")


def test_a_gang_that_no_switch_can_hold_does_not_wait_for_ever() -> None:
    assert finish(unit_instance([0, 0], [12, 4], [10, 10], "4x4/2"), "yarn-cs") == [10, 10]


# --- delay scheduling


SKIPS = 3


def scattered_offers(rng: np.random.Generator) -> tuple[Instance, bool]:
    """Four one-GPU jobs on two machines; at 1, 2, ... s two random ones end, and two new ones arrive 0.1 s later.

    Returns the instance, whose last job is a gang of two that arrives at 0.5 s, and whether one of its first SKIPS
    offers has two GPUs on one machine.
    """
    machine_of = [0, 0, 1, 1]
    jobs: list[tuple[float, int, float]] = [(0.0, 1, 100.0)] * 4
    alive = [0, 1, 2, 3]
    local = False
    for k in range(1, SKIPS + 1):
        pair = rng.choice(4, 2, replace=False)
        for slot in pair.tolist():
            arrival, gpus, _ = jobs[alive[slot]]
            jobs[alive[slot]] = (arrival, gpus, k - arrival)
        if machine_of[pair[0]] == machine_of[pair[1]]:
            local = True
            break
        for slot in sorted(pair.tolist(), key=lambda slot: machine_of[slot]):
            alive[slot] = len(jobs)
            jobs.append((k + 0.1, 1, 100.0))
    jobs.append((0.5, 2, 1.0))
    arrival, gpus, duration = zip(*jobs, strict=True)
    return unit_instance(arrival, gpus, duration, "2x2"), local


def test_the_simulated_chance_of_a_non_local_job_is_the_closed_form() -> None:
    """Two of six pairs of GPUs are on one machine:
    P(not local) = (1 - 1/3)^3 = 0.2963. The outcome of each trial is known.
    """
    rng = np.random.default_rng(5)
    trials = 1_000
    not_local = 0
    for _ in range(trials):
        instance, local = scattered_offers(rng)
        gang = int(np.flatnonzero(instance.workload.jobs["gpus"] == 2)[0])
        assert (tiers(instance, f"delay-zaharia:clock=offers,waits={SKIPS}/0")[gang] == MACHINE) == local
        not_local += not local
    expected = (1 - 1 / 3) ** SKIPS  # no offer is local
    error = np.sqrt(expected * (1 - expected) / trials)
    assert abs(not_local / trials - expected) < 4 * error


def test_the_waits_are_stacked_and_expire_exactly() -> None:
    """Two racks of one machine with four GPUs each: one GPU is free on each, and the gang of two arrives at 10 s."""
    instance = unit_instance([0, 0, 10], [3, 3, 2], [1000, 1000, 100], "2x4/1")
    assert first_starts(instance, "delay-zaharia:waits=200/150")[2] == 360
    assert first_starts(instance, "delay-zaharia:waits=0/0")[2] == 10
    assert first_starts(instance, "delay-zaharia:waits=inf/0")[2] == 1000
    assert tiers(instance, "delay-zaharia:waits=200/150")[2] == NETWORK


def test_a_gang_larger_than_a_machine_waits_for_a_rack_only() -> None:
    """It waits W2, whatever W1 is."""
    instance = unit_instance([0, 0, 10], [6, 6, 4], [1000, 1000, 100], "4x4/2")
    assert first_starts(instance, "delay-zaharia:waits=inf/50")[2] == 1000  # the machine has four GPUs
    instance = unit_instance([0, 0, 10], [5, 5, 6], [1000, 1000, 100], "4x4/2")
    assert first_starts(instance, "delay-zaharia:waits=inf/50")[2] == 60


def test_zaharia_counts_declined_time_only_and_spark_all_waiting() -> None:
    """No GPU is free until 100 s, then one on each machine; the gang of two arrived at 10 s."""
    instance = unit_instance([0, 0, 0, 0, 10], [3, 3, 1, 1, 2], [1000, 1000, 100, 100, 50], "2x4")
    assert first_starts(instance, "delay-zaharia:waits=200/0")[4] == 300
    assert first_starts(instance, "delay-zaharia:waits=200/0,clock=waiting")[4] == 210


def test_a_declining_job_is_skipped_and_its_wait_stops_without_an_offer() -> None:
    """A one-GPU job takes one of the two free GPUs from 50 to 150 s: the gang declines 10-50 and 150-310 s."""
    instance = unit_instance([0, 0, 10, 50], [3, 3, 2, 1], [1000, 1000, 100, 100], "2x4")
    assert first_starts(instance, "delay-zaharia:waits=200/0") == [0, 0, 310, 50]
    assert first_starts(instance, "delay-zaharia:waits=200/0,clock=waiting") == [0, 0, 210, 50]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["declining", "waiting", "offers"]), st.sampled_from([0.0, 60.0]))
def test_without_waits_it_is_fifo_skip_byte_for_byte(seed: int, clock: str, round_s: float) -> None:
    instance = random_instance(seed, 30, round_s=round_s)
    log = play(instance, f"delay-zaharia:waits=0/0,clock={clock}")
    assert log.digest() == play(instance, "fifo-skip").digest()


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(0, 500), st.floats(0, 500), st.sampled_from(["declining", "waiting"]))
def test_no_job_accepts_an_outer_tier_before_its_wait_is_over(seed: int, w1: float, w2: float, clock: str) -> None:
    instance = random_instance(seed, 30)
    log = play(instance, f"delay-zaharia:waits={w1!r}/{w2!r},clock={clock}")
    jobs = instance.workload.jobs
    for event in log.events[log.events["kind"] == START]:
        job, tier = int(event["job"]), int(event["tier"])
        tightest = int(instance.cluster.tightest_tier(int(jobs["gpus"][job])))
        assert event["time_s"] - jobs["arrival_s"][job] >= sum((w1, w2)[tightest:tier]) - 2e-6


def test_endless_waits_place_every_gang_on_its_tightest_tier() -> None:
    for seed in range(5):
        instance = random_instance(seed, 40)
        tightest = instance.cluster.tightest_tier(instance.workload.jobs["gpus"])
        for job, tier in tiers(instance, "delay-zaharia:waits=inf/inf").items():
            assert tier == tightest[job]


def test_jobs_do_not_wait_for_one_slot_of_a_machine() -> None:
    """Two slots of four GPUs each: two GPUs are free in each, and a gang of four takes them at once."""
    cluster = Cluster.parse("1x8s2")
    instance = unit_instance([0, 0, 10], [2, 2, 4], [1000, 1000, 100], cluster)
    simulation = Simulation(instance)
    simulation.advance()
    assert simulation.apply(Start(0, gpus=(0, 1))) == ""
    assert simulation.apply(Start(1, gpus=(4, 5))) == ""
    simulation.advance()
    scheduler = make_scheduler("delay-zaharia:waits=inf/inf")
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    decisions = [d for d in scheduler.decide(view) if isinstance(d, Start)]
    assert [(d.job, simulation.apply(d)) for d in decisions] == [(2, "")]
