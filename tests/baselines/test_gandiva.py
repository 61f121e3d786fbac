"""Gandiva-lite: turns of a quantum, placement by affinity, one migration a period."""

from __future__ import annotations

import numpy as np
import pytest
from gandiva_reference import PlainGandiva
from helpers import (
    finish,
    linked_scenario,
    mean_jct,
    play,
    preemptions,
    random_instance,
    two_types,
    unit_instance,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.gandiva.scheduler import Gandiva
from gpusched_env.event_log import COMPLETE, PREEMPT, RESUME, START, EventLog
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.simulator import simulate


def machines_of(instance: Instance, log: EventLog) -> dict[int, list[int]]:
    """Machines of each job's first start."""
    node_of_gpu = instance.cluster.node_of_gpu
    begun = [(i, int(e["job"])) for i, e in enumerate(log.events) if e["kind"] == START]
    return {job: np.unique(node_of_gpu[log.gang(i)]).tolist() for i, job in begun}


def history(log: EventLog, job: int) -> list[tuple[float, int, int]]:
    """(time, kind, tier) of a job's starts, preemptions and completion."""
    kinds = (START, RESUME, PREEMPT, COMPLETE)
    return [(e["time_s"], e["kind"], e["tier"]) for e in log.events if e["job"] == job and e["kind"] in kinds]


# --- turns


def test_slicing_raises_the_mean_jct_of_equal_jobs_and_lowers_their_first_waits() -> None:
    instance = unit_instance([0, 0], [4, 4], [120, 120], "1x4")
    log = play(instance, "gandiva-lite")
    times = job_times(instance, log)
    assert times["finish_s"].tolist() == [180, 240]
    assert times["first_start_s"].tolist() == [0, 60]
    assert finish(instance, "fifo") == [120, 240]
    assert mean_jct(instance, "gandiva-lite") > mean_jct(instance, "fifo")


def test_three_equal_jobs_take_turns_in_order_of_arrival() -> None:
    assert finish(unit_instance([0, 0, 0], [4, 4, 4], [120, 120, 120], "1x4"), "gandiva-lite") == [240, 300, 360]


def test_a_turn_is_a_quantum_of_work_and_suspension_has_the_costs_of_the_scenario() -> None:
    """Job 0 works 0-60, checkpoints to 90; job 1 90-180; job 0 restores 210-240, ends 300; job 1 works 330-360.

    Turns end at multiples of 60 s, so job 1 works for 90 s.
    """
    instance = unit_instance([0, 0], [4, 4], [120, 120], "1x4", checkpoint_s=30, restore_s=30)
    assert finish(instance, "gandiva-lite:overhead=inf") == [300, 360]


def test_a_slice_is_ten_times_as_long_as_a_suspension_and_a_resumption() -> None:
    """Slices of 600 s: job 0 works 0-600, checkpoints to 630; job 1 works 630-1800, since turns end at multiples of 600
    s.

    Job 0 restores 1830-1860 and ends at 2460; job 1 restores to 2490, with 30 s left.
    """
    instance = unit_instance([0, 0], [4, 4], [1200, 1200], "1x4", checkpoint_s=30, restore_s=30)
    assert finish(instance, "gandiva-lite") == [2460, 2520]
    assert finish(instance, "gandiva-lite:overhead=0.05") == [1200, 2400]  # 1200 s: job 0 has ended by then


@pytest.mark.parametrize(("cost", "overhead", "turn"), [(0, 0.1, 60), (3, 0.1, 60), (6, 0.1, 120), (30, 0.5, 120)])
def test_a_slice_is_a_quantum_where_suspensions_cost_little_of_it(cost: float, overhead: float, turn: float) -> None:
    instance = unit_instance([0, 0], [4, 4], [1000, 1000], "1x4", checkpoint_s=cost, restore_s=cost)
    log = play(instance, f"gandiva-lite:overhead={overhead}")
    assert cuts(log)[0] == (turn, turn)


def test_three_gangs_take_turns_on_two_places_of_a_server() -> None:
    """Four GPUs, gangs of two: at 60 s one of the two is suspended, at 120 s the one that has worked longer."""
    instance = unit_instance([0, 0, 0], [2, 2, 2], [120, 120, 120], "1x4")
    assert finish(instance, "gandiva-lite") == [180, 120, 180]


def test_a_suspended_gang_resumes_on_the_first_free_gpus() -> None:
    """Job 2 takes the place of job 0 at 60 s.
    Job 1 ends at 90 s, job 0 resumes on its GPUs, and no place is shared any more.
    """
    instance = unit_instance([0, 0, 0], [4, 4, 4], [1000, 90, 1000], "2x4")
    assert preemptions(play(instance, "gandiva-lite")) == 1
    assert finish(instance, "gandiva-lite") == [1030, 90, 1060]


def cuts(log: EventLog) -> list[tuple[float, float]]:
    """(turn, work in it) [s] of every turn that ended by preemption; work begins after the restore."""
    began: dict[int, tuple[float, float]] = {}
    found = []
    for event in log.events:
        if event["kind"] in (START, RESUME):
            began[int(event["job"])] = (event["time_s"], event["value"])
        elif event["kind"] == PREEMPT:
            turn_s, work_s = began[int(event["job"])]
            found.append((event["time_s"] - turn_s, event["time_s"] - work_s))
    return found


@pytest.mark.parametrize("cost", [0.0, 30.0])
@pytest.mark.parametrize("quantum", [60.0, 17.3])
def test_no_turn_is_shorter_than_a_quantum(cost: float, quantum: float) -> None:
    work = []
    for seed in range(10):
        instance = random_instance(seed, 30, checkpoint_s=cost, restore_s=cost)
        log = play(instance, f"gandiva-lite:quantum_s={quantum},migrate_s=inf,overhead=inf")
        work += [done for _, done in cuts(log)]
    assert len(work) > 100
    assert min(work) >= quantum - 1e-6


def test_changing_rates_do_not_shorten_turns() -> None:
    """Contention updates the progress of gangs at every event; that must not restart their turns."""
    instance = linked_scenario(jobs=60).instance(1)
    log = play(instance, "gandiva-lite:migrate_s=inf,overhead=inf")
    works = [work for _, work in cuts(log)]
    assert len(works) > 20
    # a turn lasts longer only while no gang waits for the place
    assert min(works) >= 60 - 1e-6
    assert np.median(works) == pytest.approx(60, abs=30)


# --- placement


def test_the_five_steps() -> None:
    """Machines of four GPUs. A gang of three fits on no machine and spreads over free GPUs; a gang of four waits."""
    instance = unit_instance([0, 1, 2, 3, 4], [1, 2, 1, 3, 4], [1000] * 5, "2x4")
    log = play(instance, "gandiva-lite:migrate_s=inf")
    assert machines_of(instance, log) | {4: []} == {0: [0], 1: [1], 2: [0], 3: [0, 1], 4: []}
    times = job_times(instance, log)["first_start_s"]
    assert times[3] == 3
    assert times[4] >= 1000  # no gang of its size shares its place


def test_the_least_loaded_server_of_an_affinity_comes_first() -> None:
    """One-GPU jobs go to the first machine until another machine of their affinity has more free GPUs."""
    instance = unit_instance([0, 0, 0, 0, 0, 5, 6], [1] * 7, [100, 100, 3, 3, 100, 100, 100], "2x4")
    assert machines_of(instance, play(instance, "gandiva-lite"))[5] == [1]


def test_over_subscription_takes_the_set_with_the_fewest_members() -> None:
    instance = unit_instance([0, 0, 1, 2], [4, 4, 4, 4], [600] * 4, "2x4")
    first = job_times(instance, play(instance, "gandiva-lite"))["first_start_s"].tolist()
    assert first == [0, 0, 60, 60]  # each of the two machines has one guest


def test_gangs_of_several_machines_keep_to_one_rack() -> None:
    instance = unit_instance([0, 0, 1], [4, 8, 8], [500] * 3, "6x4/3")
    log = play(instance, "gandiva-lite")
    assert machines_of(instance, log) == {0: [0], 1: [3, 4], 2: [1, 2]}


def test_without_over_subscription_nothing_is_preempted() -> None:
    instance = unit_instance(range(16), [1, 2, 4, 1] * 4, [1000] * 16, "16x4/4")
    assert preemptions(play(instance, "gandiva-lite")) == 0


# --- migration


def scattered(checkpoint_s: float = 0.0, restore_s: float = 0.0) -> Instance:
    """Four gangs of three leave one GPU on each machine; two gangs of two spread over them until 100 s."""
    return unit_instance(
        [0, 0, 0, 0, 10, 10], [3, 3, 3, 3, 2, 2], [100, 100, 1000, 1000, 500, 500], "4x4",
        checkpoint_s=checkpoint_s, restore_s=restore_s,
    )  # fmt: skip


def test_one_gang_in_a_migration_period_moves_to_a_tighter_tier() -> None:
    log = play(scattered(), "gandiva-lite")
    assert history(log, 4) == [(10, START, RACK), (100, PREEMPT, -1), (100, RESUME, MACHINE), (510, COMPLETE, -1)]
    assert history(log, 5)[1:3] == [(160, PREEMPT, -1), (160, RESUME, MACHINE)]


def test_a_move_costs_a_checkpoint_and_a_restore_and_its_place_is_kept() -> None:
    log = play(scattered(20, 10), "gandiva-lite")
    assert history(log, 4)[1:] == [(100, PREEMPT, -1), (120, RESUME, MACHINE), (100 + 30 + 410, COMPLETE, -1)]


def test_migration_can_be_switched_off() -> None:
    assert preemptions(play(scattered(), "gandiva-lite:migrate_s=inf")) == 0


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 30.0]), st.sampled_from([0.0, 60.0]))
def test_every_run_keeps_the_invariants(seed: int, cost: float, round_s: float) -> None:
    instance = random_instance(seed, 30, checkpoint_s=cost, restore_s=cost, round_s=round_s)
    log = play(instance, "gandiva-lite")  # validates: gangs whole, GPUs once, work conserved, all finish
    assert (log.events["kind"] == COMPLETE).sum() == 30


# --- against plain loops


@settings(max_examples=80)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 30.0, 61.0]),
    st.sampled_from([0.0, 45.0]),
    st.sampled_from([60.0, 17.3]),
    st.sampled_from([60.0, 500.0, np.inf]),
    st.sampled_from([0.1, 0.7, np.inf]),
    st.integers(0, 2),
)
def test_plain_loops_decide_the_same(
    seed: int, cost: float, round_s: float, quantum_s: float, migrate_s: float, overhead: float, mixed: int
) -> None:
    cluster = (None, two_types(), two_types((3, 4), (2, 4), 2))[mixed]
    instance = random_instance(seed, 50, cluster, checkpoint_s=cost, restore_s=cost, round_s=round_s)
    ours, plain = (
        simulate(instance, policy(quantum_s, migrate_s, overhead)).digest() for policy in (Gandiva, PlainGandiva)
    )
    assert ours == plain


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([0.0, 45.0]), st.sampled_from([0.0, 30.0]), st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 150), st.integers(0, 30)), min_size=3, max_size=30),
)  # fmt: skip
def test_plain_loops_decide_the_same_where_nodes_crash(
    seed: int, cost: float, detection_s: float, mixed: int, rows: list[tuple[int, int, int]]
) -> None:
    cluster = (None, two_types(), two_types((3, 4), (2, 4), 2))[mixed]
    rules = {"detection_s": detection_s, "checkpoint_interval_s": 100.0}
    instance = random_instance(seed, 40, cluster, checkpoint_s=cost, restore_s=cost, **rules)
    crashes = [(node, 40.0 * start, 40.0 * (start + last), 0) for node, start, last in rows]
    instance.outages = Outages.merged(np.array(crashes, OUTAGE_DTYPE))
    log = play(instance, Gandiva(17.3, 60.0, 0.7))
    assert log.digest() == simulate(instance, PlainGandiva(17.3, 60.0, 0.7)).digest()


def test_a_set_whose_machine_is_down_is_given_up() -> None:
    """Job 2 waits for a turn on machine 0, which crashes: jobs 0 and 2 take turns with job 1 on machine 1."""
    instance = unit_instance([0, 0, 1], [4, 4, 4], [600, 600, 600], "2x4")
    instance.outages = Outages.merged(np.array([(0, 30.0, 1000.0, 0)], OUTAGE_DTYPE))
    events = play(instance, "gandiva-lite").events
    begun = events[np.isin(events["kind"], (START, RESUME)) & (events["time_s"] < 200)]
    assert begun[["time_s", "job"]].tolist() == [(0, 0), (0, 1), (60, 0), (120, 2), (180, 1)]


def test_plain_loops_decide_the_same_where_gangs_contend_for_links() -> None:
    instance = linked_scenario(jobs=60).instance(3)
    assert simulate(instance, Gandiva()).digest() == simulate(instance, PlainGandiva()).digest()
