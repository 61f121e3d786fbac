"""Tiresias: exact times of demotion and promotion, queues by attained service, placement by skew."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from helpers import finish, mixed_profiles, play, play_both, random_instance, random_workload, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import EVENT_KINDS, PREEMPT, EventLog
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import ClusterView, Decision, simulate


def history(log: EventLog, job: int) -> list[tuple[float, str]]:
    """(time, kind) of a job's events, without releases."""
    mine = log.events[log.events["job"] == job]
    return [(float(e["time_s"]), EVENT_KINDS[e["kind"]]) for e in mine if EVENT_KINDS[e["kind"]] != "release"]


def test_demoted_after_450_seconds_of_running_when_it_waited_first() -> None:
    """Both arrive together, so only a timer can end the first job's turn."""
    log = play(unit_instance([0, 0], [8, 8], [1000, 1000], "1x8"), "tiresias")
    assert history(log, 0)[:3] == [(0, "arrival"), (0, "start"), (450, "preempt")]
    assert history(log, 1)[:3] == [(0, "arrival"), (450, "start"), (900, "preempt")]


def test_demoted_after_450_seconds_of_running_wherever_they_were_split() -> None:
    """Job 1 runs 225 s, is preempted by the promoted job 0, and is demoted after another 225 s."""
    instance = unit_instance([0, 100, 100], [8, 8, 8], [470, 900, 300], "1x8")
    # knob 0.5: job 0 runs 0-450, waits 225 s, is promoted at 675 and leads the queue by its earlier start
    log = play(instance, "tiresias:knob=0.5")
    assert history(log, 0)[1:] == [(0, "start"), (450, "preempt"), (675, "resume"), (695, "complete")]
    assert history(log, 1)[1:5] == [(450, "start"), (675, "preempt"), (695, "resume"), (920, "preempt")]


def test_jobs_of_the_first_queue_are_not_preempted() -> None:
    """New jobs wait until the job that started earlier has attained its 3,600 GPU-seconds."""
    instance = unit_instance([0, 200, 300, 400], [8, 8, 8, 8], [2000, 100, 100, 100], "1x8")
    log = play(instance, "tiresias")
    assert history(log, 0)[2:4] == [(450, "preempt"), (750, "resume")]


def test_promotion_after_waiting_and_demotion_again() -> None:
    """Knob 8: after 450 s executed, promoted after 3,600 s of waiting; both clocks 0; demoted after another 450 s.

    New jobs of 90 s keep the machine busy from 450 on; none of them is ever demoted.
    """
    short = 60
    arrival = [0.0, *(400.0 + 90.0 * np.arange(short))]
    instance = unit_instance(arrival, [8] * (1 + short), [1200.0] + [90.0] * short, "1x8")
    log = play(instance, "tiresias:knob=8")
    assert history(log, 0)[2:5] == [(450, "preempt"), (4050, "resume"), (4500, "preempt")]


def test_without_the_knob_nothing_is_promoted() -> None:
    short = 60
    arrival = [0.0, *(400.0 + 90.0 * np.arange(short))]
    instance = unit_instance(arrival, [8] * (1 + short), [1200.0] + [90.0] * short, "1x8")
    assert history(play(instance, "tiresias"), 0)[3] == (450 + 90 * short, "resume")


def test_demotions_are_exact_while_no_job_waits() -> None:
    """No job waits until 26 s. Then job 0 has attained 208 GPU-s (third queue), job 1 128 (second).

    Demotions are exact timers, so the queue of a job always follows from its attained service.
    """
    instance = unit_instance([0, 10, 26], [8, 8, 8], [1000, 1000, 5], "1x16")
    log = play(instance, "tiresias:thresholds=100/200")
    assert [e["job"] for e in log.events if e["kind"] == PREEMPT and e["time_s"] == 26] == [0]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from(["inf", "1e12"]))
def test_without_queues_it_is_fifo_skip_byte_for_byte(seed: int, threshold: str) -> None:
    rng = np.random.default_rng(seed)
    workload = random_workload(rng, 25, 16)
    workload.profiles.rows["skew"] = 0.0
    instance = Instance(Cluster.parse("4x4/2"), workload, None, Semantics(round_s=float(rng.choice([0, 60]))))
    assert play(instance, f"tiresias:thresholds={threshold}").digest() == play(instance, "fifo-skip").digest()


def test_skewed_models_are_consolidated_or_wait() -> None:
    """Two GPUs are free on each of two machines: only the skewed four-GPU job waits for a whole machine."""
    profiles = mixed_profiles()
    starts = {}
    for profile in (0, 1):  # skew 0.6 and 0.1
        workload = Workload.from_columns(
            [0, 0, 10], [2, 2, 4], [100, 200, 50], profiles=profiles, profile=[1, 1, profile]
        )
        instance = Instance(Cluster.parse("2x4"), workload, None, Semantics())
        log = play(instance, "tiresias:placement=spread")
        starts[profile] = history(log, 2)[1][0]
    assert starts[1] == 10
    assert starts[0] >= 100


def test_gittins_serves_the_job_that_is_more_likely_to_end_soon() -> None:
    """Past jobs took 10 or 1,000 GPU-seconds: a job that has run 20 has the smaller index and is preempted."""
    instance = unit_instance([0, 20], [1, 1], [1000, 10], "1x1")
    sizes = "/".join(["10"] * 9 + ["1000"])
    assert finish(instance, f"tiresias-g:thresholds=5000,history={sizes}") == [1010, 30]
    assert finish(instance, "tiresias:thresholds=5000") == [1000, 1010]


@pytest.mark.parametrize("start", [0.0, 1.3e7])
def test_demotion_of_a_large_gang_late_in_a_long_trace(start: float) -> None:
    """At 1.3e7 s the clock has a resolution of 2e-9 s: more than a millionth of a GPU-second on 2,048 GPUs."""
    size, quantum = 2048, 3600.0
    late = []
    for offset in np.random.default_rng(0).random(20):
        arrival = start + offset
        instance = unit_instance([arrival, arrival + 0.3], [size, size], [50, 50], "1x2048")
        log = play(instance, f"tiresias:thresholds={quantum}")
        due = arrival + quantum / size
        stopped = [e["time_s"] for e in log.events if e["kind"] == PREEMPT and e["job"] == 0]
        late.append(not stopped or abs(stopped[0] - due) > 1e-6)
    assert not any(late)


def test_a_skewed_gang_larger_than_all_large_machines_does_not_wait_for_ever() -> None:
    """24 GPUs fit on four machines at least (two of eight, two of four), and these are free."""
    workload = Workload.from_columns([0], [24], [10], profiles=mixed_profiles(), profile=[0])
    cluster = Cluster([NodeGroup(2, 8), NodeGroup(4, 4)])
    assert len(finish(Instance(cluster, workload, None, Semantics()), "tiresias")) == 1


@pytest.mark.parametrize("knob", [1 - 1e-5, 8.0])
def test_tiresias_does_not_wake_repeatedly_while_a_gang_restores(knob: float) -> None:
    instance = unit_instance([0, 100], [4, 4], [3000, 3000], "1x4", checkpoint_s=30, restore_s=30)
    scheduler = make_scheduler("tiresias", thresholds=(400.0,), knob=knob)
    calls = 0
    decide = scheduler.decide

    def counted(view: ClusterView) -> Iterable[Decision]:
        nonlocal calls
        calls += 1
        return decide(view)

    scheduler.decide = counted  # type: ignore[method-assign]
    log = simulate(instance, scheduler)
    assert calls <= 2 * len(log.events)


@pytest.mark.parametrize(("demote_on", "ends"), [("progress", 45.0), ("held", 35.0)])
def test_a_job_is_demoted_by_progress_or_by_the_time_for_which_it_holds_gpus(demote_on: str, ends: float) -> None:
    """Job 0 makes no progress for 10 s; it has 20 s of progress at 30 s, and has held its GPU for 20 s at 20 s.

    Then job 1 takes the GPU, and needs 10 s and 5 s of work.
    """
    instance = unit_instance([0, 1], [1, 1], [100, 5], "1x1", checkpoint_s=0.0, restore_s=10.0, start_s=10.0)
    spec = f"tiresias:thresholds=20,demote_on={demote_on}"
    assert finish(instance, spec)[1] == ends


def test_a_queue_by_entry_puts_an_earlier_job_before_one_that_has_started() -> None:
    """Job 1 needs all four GPUs. Job 2 starts beside job 0, and has 102 s left when job 0 ends at 100 s."""
    instance = unit_instance([0, 1, 2], [2, 4, 2], [100, 100, 200], "1x4", checkpoint_s=0.0, restore_s=0.0)
    assert list(finish(instance, "tiresias:thresholds=1e9")) == [100.0, 302.0, 202.0]
    assert list(finish(instance, "tiresias:thresholds=1e9,policy=entry")) == [100.0, 200.0, 302.0]


def test_a_demoted_job_enters_the_next_queue_behind_those_demoted_before() -> None:
    """One GPU, demotion after 10 s: jobs 0, 1, 2 are demoted at 10, 20 and 30 s, and then run in this order."""
    instance = unit_instance([0, 0, 0], [1, 1, 1], [20, 20, 20], "1x1", checkpoint_s=0.0, restore_s=0.0)
    assert list(finish(instance, "tiresias:thresholds=10,policy=entry,demote_on=held")) == [40.0, 50.0, 60.0]


def test_a_demoted_job_goes_to_the_tail_of_the_lower_queue() -> None:
    """Rounds of 10 s, 3 GPUs, limit 20 GPU s. Job 1 (2 GPUs) is demoted at 10, job 0 (1 GPU) at 20, behind job 1. Job 2
    (1 GPU, 20 s) of the first queue then takes one GPU, job 1 keeps two, and job 0 waits until 40. By first starts, job
    0 would be first, and job 1 would wait.
    """
    instance = unit_instance([0, 0, 15], [1, 2, 1], [30, 100, 20], "1x3", round_s=10.0)
    log = play_both(instance, "tiresias:thresholds=20,demote_on=held,demoted=tail")
    assert history(log, 0)[1:] == [(0, "start"), (20, "preempt"), (40, "resume"), (50, "complete")]
    assert history(log, 1)[1:] == [(0, "start"), (100, "complete")]
    assert history(play(instance, "tiresias:thresholds=20,demote_on=held"), 1)[2] == (20, "preempt")


def test_running_jobs_of_a_queue_move_ahead_of_its_waiting_ones_for_good() -> None:
    """One queue, 2 GPUs. Job 1 (2 GPUs) waits behind job 0; job 2 (1 GPU) came later, fits beside job 0 and moves ahead
    of job 1. When job 0 ends, job 2 therefore runs on, and job 1 waits for it, until 60. By entry, job 1 would have run
    at 30.
    """
    instance = unit_instance([0, 5, 15], [1, 2, 1], [25, 50, 40], "1x2", round_s=10.0)
    assert finish(instance, "tiresias:thresholds=1e6,demoted=tail") == [25, 110, 60]
    assert finish(instance, "tiresias:thresholds=1e6,policy=entry") == [25, 80, 110]


@pytest.mark.parametrize("seed", range(4))
def test_the_tail_is_the_same_on_both_paths_at_exact_events(seed: int) -> None:
    """Also with promotions, which go to the tail of the first queue."""
    for knob in ("inf", "2"):
        spec = f"tiresias:thresholds=3600/20000,knob={knob},demoted=tail"
        log = play_both(random_instance(seed, 60, checkpoint_s=10.0 * seed), spec)
        assert (log.events["kind"] == PREEMPT).any()


def test_the_tail_orders_the_queues_alone() -> None:
    for wrong in ("demoted=head", "demoted=tail,policy=entry", "demoted=tail,incumbents_first=true"):
        with pytest.raises(SchedulerError, match="demoted"):
            make_scheduler(f"tiresias:{wrong}")
