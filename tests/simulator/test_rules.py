"""Rules of the simulation: rounds, queue discipline, ties, time limit, waits, cost of preemption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from helpers import Script, begin, finish, play, random_instance, state_bytes, unit_instance
from scheduler_player import play_scheduler, wide_open

from gpusched_env.core.driver import WAIT, Choice, policy
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.state import Run
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, RELEASE, RESUME, START
from gpusched_env.leaderboard import record
from gpusched_env.metrics import job_times
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import (
    ClusterView,
    CompiledScheduler,
    Decision,
    Outcome,
    Preempt,
    Scheduler,
    Simulation,
    Start,
    Wait,
    simulate,
)
from tools.datasets.own_play import own_actions


@pytest.mark.parametrize("name", ["fifo", "srtf", "las", "tiresias", "random"])
@pytest.mark.parametrize("round_s", [60.0, 37.3, 1000.0])
def test_rounds_decide_only_at_their_multiples(name: str, round_s: float) -> None:
    log = play(random_instance(1, 40, round_s=round_s), name)
    decided = np.isin(log.events["kind"], (START, RESUME, PREEMPT))
    times = log.events["time_s"][decided]
    assert np.array_equal(np.rint(times / round_s) * round_s, times)
    free = ~np.isin(log.events["time_s"][log.events["kind"] == COMPLETE] % round_s, [0.0])
    assert free.any(), "completions are not bound to rounds"


def test_an_arrival_waits_for_the_next_round_and_no_longer() -> None:
    instance = unit_instance([10, 60, 61], [1, 1, 1], [5, 5, 5], "1x4", round_s=60)
    assert job_times(instance, play(instance, "fifo"))["first_start_s"].tolist() == [60, 60, 120]


@pytest.mark.parametrize("round_s", [0.1, 37.3, 61.7, 1 / 3, 60.0])
def test_an_arrival_on_a_round_starts_in_that_round(round_s: float) -> None:
    arrival = round_s * np.arange(200)
    instance = unit_instance(arrival, [1] * 200, [1e-3] * 200, "1x8", round_s=round_s)
    late = job_times(instance, play(instance, "fifo"))["first_start_s"] != arrival
    assert np.flatnonzero(late).tolist() == []


def test_the_scenario_overrides_strict_and_skip() -> None:
    def times(queue: str, name: str) -> list[float]:
        return finish(unit_instance([0, 0, 1, 2, 3], [2, 4, 1, 2, 1], [10, 4, 6, 2, 20], queue=queue), name)

    assert times("strict", "fifo-skip") == times("scheduler", "fifo") == [10, 14, 20, 16, 34]
    assert times("skip", "fifo") == times("scheduler", "fifo-skip") == [10, 27, 7, 12, 23]
    assert times("strict", "sjf") == times("scheduler", "sjf:strict=true") == [16, 4, 10, 6, 26]
    assert times("skip", "sjf:strict=true") == times("scheduler", "sjf") == [16, 4, 10, 6, 24]


def test_tie_order_decides_among_jobs_that_arrive_together() -> None:
    by_id = unit_instance([0, 0, 0], [4, 2, 2], [10, 10, 10])
    by_size = unit_instance([0, 0, 0], [4, 2, 2], [10, 10, 10], tie_order="arrival-smallest")
    assert by_id.workload.jobs["id"].tolist() == [0, 1, 2]
    assert by_size.workload.jobs["id"].tolist() == [1, 2, 0]
    assert finish(by_id, "fifo") == [10, 20, 20]
    assert finish(by_size, "fifo") == [10, 10, 20]


def test_time_limit_cuts_the_run_and_keeps_events_on_the_limit() -> None:
    instance = unit_instance([0, 4, 11], [1, 1, 1], [10, 3, 1], "1x2", time_limit_s=10)
    simulation = Simulation(instance)
    while (outcome := simulation.advance()) is Outcome.DECIDE:
        for job in waiting_rows(simulation.arrays).tolist():
            simulation.apply(Start(job))
    assert outcome is Outcome.TIME_LIMIT
    assert simulation.now_s == 10
    assert simulation.finished == 2
    assert simulation.log().events["kind"].tolist().count(ARRIVAL) == 2
    play(instance, "fifo")  # the loop stops at the limit, and the validator accepts the log


def test_a_wait_wakes_exactly_at_its_time() -> None:
    script = Script({0.0: [Wait(0.1 + 0.2), Wait(7.5)], 0.1 + 0.2: [Wait(2.0)]}, then="pack")
    play(unit_instance([0, 5], [1, 1], [3, 3], "1x1"), script)
    assert script.called_at[:3] == [0.0, 0.1 + 0.2, 2.0]


def test_the_earliest_of_several_waits_counts_and_events_wake_before_it() -> None:
    script = Script({0.0: [Wait(9.0), Wait(4.0), Wait(6.0)]}, then="pack")
    play(unit_instance([0, 5], [1, 1], [20, 3], "1x2"), script)
    assert script.called_at == [0.0, 4.0, 5.0, 8.0]


def test_a_wait_is_over_at_the_next_decision_point() -> None:
    script = Script({0.0: [Wait(4.0)]}, then="pack")
    play(unit_instance([0, 2], [1, 1], [20, 3], "1x2"), script)
    assert script.called_at == [0.0, 2.0, 5.0]


@pytest.mark.parametrize("until_s", [2.0, 1.0, -5.0, float("-inf"), float("nan"), 2.0 + 1e-17])
@pytest.mark.parametrize("round_s", [0.0, 2.0])
def test_a_wait_that_does_not_advance_the_clock_is_an_error(until_s: float, round_s: float) -> None:
    simulation = begin(unit_instance([2], [1], [20], round_s=round_s))
    assert simulation.now_s == 2.0
    before = state_bytes(simulation)
    with pytest.raises(GpuschedError, match=rf"Wait\(until_s={until_s!r}\) at 2.0 s: .* not in the future"):
        simulation.apply(Wait(until_s))
    assert state_bytes(simulation) == before


def test_a_wait_until_infinity_waits_for_the_next_event() -> None:
    script = Script({0.0: [Wait(float("inf"))]}, then="pack")
    play(unit_instance([0], [1], [20], "1x1"), script)
    assert script.called_at == [0.0]


class Sleeper(Scheduler):
    """Ask once for a wait until ``until_s``; then start everything."""

    until_s = 0.0

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        yield Wait(self.until_s)
        yield from (Start(job) for job in view.waiting.tolist())


def test_all_ways_of_playing_refuse_the_same_wait() -> None:
    """A direct run, a recorded run, a played environment, and a scheduler that plays itself for imitation."""
    instance = get_scenario("tiny-v1").instance(0)
    now_s = float(instance.workload.jobs["arrival_s"][0])
    Sleeper.until_s = now_s
    env = wide_open("tiny-v1", 0)
    plays = [
        lambda: simulate(instance, Sleeper()),
        lambda: record(instance, Sleeper()),
        lambda: play_scheduler(env, Sleeper(), 0),
        lambda: list(own_actions(f"{__name__}:Sleeper", env, instance, 0)),
    ]
    for each in plays:
        with pytest.raises(GpuschedError, match=rf"Wait\(until_s={now_s!r}\) at {now_s!r} s: .* not in the future"):
            each()


class Asked(Handle):
    """When to wake up."""

    until_s = array(np.float64, "once")


@policy
@kernel
def next_wait(sim: Run, choice: Choice, own: Asked) -> int:
    choice.made["until_s"] = own.until_s[0]
    return WAIT


class Waiter(CompiledScheduler):
    """Ask for a wait until ``until_s``."""

    policy = next_wait
    until_s = 0.0

    def begin(self, simulation: Simulation, alone: bool) -> Asked:
        return Asked(until_s=np.array([self.until_s]))


@pytest.mark.parametrize("until_s", [5.0, 2.0, float("nan"), float("-inf"), 1e12])
def test_a_policy_gets_the_error_that_decide_gets(until_s: float) -> None:
    """Our own never ask for such a time."""
    instance = unit_instance([5], [1], [20])
    with pytest.raises(GpuschedError) as refused:
        begin(instance).apply(Wait(until_s))
    Waiter.until_s = until_s
    asked = Waiter()
    asked.player = lambda _: None  # type: ignore[method-assign]
    for scheduler in (Waiter(), asked):
        with pytest.raises(GpuschedError) as played:
            Simulation(instance).run(scheduler)
        assert str(played.value) == str(refused.value)


@pytest.mark.parametrize(("checkpoint", "restore"), [(0, 0), (3, 0), (0, 2), (3, 2), (3, 40)])
def test_preemption_costs_checkpoint_and_restore_and_no_progress(checkpoint: float, restore: float) -> None:
    """Job 0 (10 s of work) is preempted at 4 s and resumed as soon as possible; it is alone on the machine."""
    instance = unit_instance([0, 4], [4, 4], [10, 1], checkpoint_s=checkpoint, restore_s=restore)
    script = Script(
        {0.0: [Start(0)], 4.0: [Preempt(0), Start(0)], 4.0 + checkpoint: [Preempt(0), Start(0)]}, then="pack"
    )
    log = play(instance, script)
    released = log.events[log.events["kind"] == RELEASE]
    assert released["time_s"].tolist() == [4.0 + checkpoint]
    assert log.events["value"][log.events["kind"] == PREEMPT].tolist() == [6.0]
    times = job_times(instance, log)
    assert times["finish_s"][0] == 4 + checkpoint + restore + 6
    assert times["overhead_s"][0] == checkpoint + restore
    assert times["service_s"][0] == 10
    assert times["gpu_seconds"][0] == 4 * (10 + checkpoint + restore)


def test_a_gang_preempted_while_it_restores_has_made_no_progress() -> None:
    instance = unit_instance([0, 4, 6], [4, 4, 4], [10, 1, 1], checkpoint_s=0, restore_s=5)
    log = play(
        instance, Script({0.0: [Start(0)], 4.0: [Preempt(0), Start(0)], 6.0: [Preempt(0), Start(0)]}, then="pack")
    )
    assert log.events["value"][log.events["kind"] == PREEMPT].tolist() == [6.0, 6.0]
    assert job_times(instance, log)["finish_s"][0] == 6 + 5 + 6


def test_a_gang_cannot_be_preempted_in_the_instant_of_its_start() -> None:
    simulation = begin(unit_instance([0, 3], [1, 1], [10, 10], "1x1"))
    assert simulation.apply(Start(0)) == ""
    assert simulation.apply(Preempt(0)) == "the gang started at this very instant"
    simulation.advance()
    assert simulation.apply(Preempt(0)) == ""
    assert simulation.apply(Start(0)) == ""
    assert simulation.apply(Preempt(0)) == "the gang started at this very instant"


def test_events_of_one_instant_are_one_decision_point() -> None:
    """At 5 s a job completes, another is released and two arrive:
    the scheduler is asked once, after all four events.
    """
    script = Script({2.0: [Preempt(1), Wait(2.5)]}, then="pack")
    instance = unit_instance([0, 0, 2, 5, 5], [1, 1, 2, 1, 1], [5, 20, 1, 1, 1], "1x2", checkpoint_s=3)
    log = play(instance, script)
    assert script.called_at.count(5.0) == 1
    at_five = log.events["kind"][log.events["time_s"] == 5.0].tolist()
    assert at_five[:4] == [COMPLETE, RELEASE, ARRIVAL, ARRIVAL]


def test_a_slower_placement_stretches_the_run_by_the_ratio_of_the_iteration_times() -> None:
    instance = random_instance(3, 60)
    log = play(instance, "fifo:placement=pack")
    for event in log.events[log.events["kind"] == START]:
        job = event["job"]
        per_iteration = instance.iteration_s[instance.job_class[job], event["tier"], 0]
        end = log.events["time_s"][(log.events["kind"] == COMPLETE) & (log.events["job"] == job)][0]
        assert end - event["time_s"] == pytest.approx(instance.iterations[job] * per_iteration, rel=1e-9, abs=1e-6)
    assert set(log.events["tier"][log.events["kind"] == START].tolist()) == {0, 1, 2}


def test_rounds_continue_while_no_job_waits() -> None:
    class Counting(Scheduler):
        calls = 0

        def decide(self, view: ClusterView) -> Iterable[Decision]:
            self.calls += 1
            return view.list_schedule(view.waiting)

    scheduler = Counting()
    play(unit_instance([0], [1], [100], round_s=10.0), scheduler)
    assert scheduler.calls == 10  # at 0, 10, ..., 90; at 100 the job has finished


def test_a_time_limit_ends_a_stalled_run() -> None:
    class Idle(Scheduler):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            return []

    simulation = begin(unit_instance([0], [1], [10], time_limit_s=100.0))
    simulation.run(Idle())
    assert simulation.now_s == 100.0
