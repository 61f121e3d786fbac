"""The driver of compiled policies: every way to play a policy gives the same events, and a wrong policy is an error."""

from __future__ import annotations

import copy
from typing import ClassVar

import numpy as np
import pytest
from helpers import unit_instance
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import make_scheduler
from gpusched_env.core.api import (
    ASSIST,
    LEASE,
    NOTHING,
    PREEMPT,
    START,
    WAIT,
    Choice,
    Handle,
    Run,
    array,
    fits,
    has_room,
    kernel,
    policy,
    rule_number,
)
from gpusched_env.core.driver import READS_LOG
from gpusched_env.core.events import MOST_RECORDS
from gpusched_env.core.refusals import APPLIED, IS_RUNNING
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import CompiledScheduler, Outcome, Simulation, Start, begin, moves_of, simulate

RULE = rule_number("pack")
SCENARIOS = ("tiny-v1", "philly-64-v1")


class Notes(Handle):
    """The arrays of the policies of this file."""

    counts = array(np.int64, "counts")


@policy
@kernel
def next_in_line(sim: Run, choice: Choice, own: Notes) -> int:
    """First in, first out: the first job that does not fit blocks the others."""
    if sim.world["waiting"] == 0:
        return NOTHING
    row = sim.waiting[sim.world["first_waiting"]]
    choice.made["row"] = row
    choice.made["rule"] = own.counts[0]
    return START if fits(sim, sim.jobs[row]["job_class"], sim.jobs[row]["gpus"], own.counts[0]) else NOTHING


class InLine(CompiledScheduler):
    """FIFO, written as a user would."""

    policy = next_in_line
    counts: ClassVar[list[int]] = [RULE]

    def begin(self, simulation: Simulation, alone: bool) -> Notes:
        """Give the placement rule to the kernel."""
        return Notes(counts=np.array(self.counts, np.int64))


def asked(scheduler: CompiledScheduler) -> CompiledScheduler:
    """Return the scheduler without its player."""
    scheduler.player = lambda simulation: None  # type: ignore[method-assign]
    return scheduler


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_player_decide_and_environment_play_the_events_of_fifo(scenario: str) -> None:
    instance = get_scenario(scenario).instance(200_000)
    wanted = simulate(instance, make_scheduler("fifo")).digest()
    assert simulate(instance, InLine()).digest() == wanted
    assert simulate(instance, asked(InLine())).digest() == wanted
    assert play_scheduler(wide_open(scenario, 200_000), InLine(), 200_000).digest() == wanted


def test_a_full_log_and_pauses_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = get_scenario("tiny-v1").instance(200_000)
    wanted = simulate(instance, InLine()).digest()
    monkeypatch.setattr("gpusched_env.core.state.EVENT_BUFFER", 3)
    simulation = Simulation(instance)
    player = simulation.player_for(InLine())
    assert player is not None
    for time_s in np.linspace(0.0, 20_000.0, 17):
        player.play(float(time_s))
        assert simulation.now_s >= time_s or simulation.finished == len(instance.workload)
    assert player.play() is Outcome.DONE
    assert simulation.log().digest() == wanted


def test_a_run_is_taken_over_and_copied() -> None:
    instance = get_scenario("tiny-v1").instance(200_000)
    simulation = Simulation(instance)
    player = simulation.player_for(InLine())
    assert player is not None
    while not simulation.has_begun:
        player.play(simulation.now_s + 100.0)
    twin = copy.deepcopy(simulation)
    other = twin.player_for(InLine())
    assert other is not None
    assert other.play() is player.play() is Outcome.DONE
    assert twin.log().digest() == simulation.log().digest()


class Own(InLine):
    """A subclass with a ``decide`` of its own, which must be called."""

    def decide(self, view):  # type: ignore[no-untyped-def]
        """Start the last job."""
        yield from view.list_schedule(view.waiting[::-1], "pack")


def test_a_subclass_with_its_own_decide_is_played_by_that() -> None:
    instance = unit_instance([0, 0, 0], [4, 4, 4], [10, 20, 30], "1x4")
    assert simulate(instance, Own()).events["job"][3] == 2
    assert simulate(instance, InLine()).events["job"][3] == 0


@policy
@kernel
def next_of_all_kinds(sim: Run, choice: Choice, own: Notes) -> int:
    """Start, lease, preempt, wait, ask for help, and be refused, in turn; note what was refused."""
    c = choice.made
    n = own.counts
    c["rule"] = n[0]
    c["row"] = 0
    step = n[1]
    n[1] += 1
    if step == 1:
        return START
    if step == 2:  # it runs already
        n[2] = c["refusal"]
        return START
    if step == 3:
        n[3] = c["refusal"]
        c["until_s"] = 7.0
        return LEASE
    if step == 4:
        return ASSIST
    if step == 5:
        c["until_s"] = 3.0
        return WAIT
    if step == 7:
        return PREEMPT
    if step > 7 and sim.world["waiting"] > 0:
        return START
    return NOTHING


class AllKinds(InLine):
    """One job, every kind of decision."""

    policy = next_of_all_kinds
    counts: ClassVar[list[int]] = [RULE, 1, -1, -1, 0]

    def assist(self, simulation: Simulation, own: Notes) -> None:
        """Count the calls."""
        own.counts[4] += 1


def test_every_kind_of_decision_and_what_the_policy_hears_of_it() -> None:
    instance = unit_instance([0], [1], [10], "1x4")
    logs = []
    for scheduler in (AllKinds(), asked(AllKinds())):
        simulation = Simulation(instance)
        if (player := simulation.player_for(scheduler)) is not None:
            assert player.play() is Outcome.DONE
            own = player.own  # type: ignore[attr-defined]
        else:
            simulation.run(scheduler)
            own = scheduler._own
        assert own.counts[2:5].tolist() == [APPLIED, IS_RUNNING, 1]
        logs.append(simulation.log())
    assert logs[0].digest() == logs[1].digest()
    assert 3.0 in logs[0].events["time_s"]  # the preemption at the wake-up


@policy
@kernel
def start_nobody(sim: Run, choice: Choice, own: Notes) -> int:
    """Ask for a job that does not exist, for ever."""
    choice.made["row"] = -1
    return START


@policy
@kernel
def return_nonsense(sim: Run, choice: Choice, own: Notes) -> int:
    """Return what is no kind of decision."""
    return 77


@policy
@kernel
def ask_for_help(sim: Run, choice: Choice, own: Notes) -> int:
    """Ask for help that there is none of."""
    return ASSIST


@policy
@kernel
def start_by_no_rule(sim: Run, choice: Choice, own: Notes) -> int:
    """Start a job by a rule that nobody has registered."""
    choice.made["row"] = 0
    choice.made["rule"] = own.counts[0]
    return START


@pytest.mark.parametrize("number", [-5, 120, 10**9])
@pytest.mark.parametrize("plays", [True, False])
def test_a_rule_that_does_not_exist_is_an_error(number: int, plays: bool) -> None:
    scheduler = type("Unruly", (InLine,), {"policy": start_by_no_rule, "counts": [number]})()
    with pytest.raises(SchedulerError, match=rf"placement rule {number}, which does not exist; take .* rule_number"):
        simulate(unit_instance([0], [1], [10], "1x4"), scheduler if plays else asked(scheduler))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"policy": start_nobody}, "start and preempt nothing"),
        ({"policy": return_nonsense}, "no kind of decision"),
        ({"policy": ask_for_help}, "no method assist"),
        ({"policy": ask_for_help, "assist": lambda self, simulation, own: None}, "start and preempt nothing"),
    ],
)
@pytest.mark.parametrize("plays", [True, False])
def test_a_wrong_policy_is_an_error(wrong: dict[str, object], message: str, plays: bool) -> None:
    scheduler = type("Wrong", (InLine,), wrong)()
    instance = unit_instance([0], [1], [10], "1x4")
    with pytest.raises(SchedulerError, match=message):
        simulate(instance, scheduler if plays else asked(scheduler))


def test_what_is_not_registered_or_has_a_wrong_signature_is_refused() -> None:
    scheduler = type("Unregistered", (InLine,), {"policy": has_no_decorator})()
    with pytest.raises(GpuschedError, match="write @policy above it"):
        simulate(unit_instance([0], [1], [10], "1x4"), scheduler)


@kernel
def has_no_decorator(sim: Run, choice: Choice, own: Notes) -> int:
    """Not registered."""
    return NOTHING


@policy
@kernel
def read_the_log(sim: Run, choice: Choice, own: Notes) -> int:
    """FIFO that counts the records of the log; ``counts[1]`` of them have been read, ``counts[2]`` in all."""
    c = choice.made
    n = own.counts
    n[1] = 0 if sim.world["events"] < n[1] else n[1]
    n[2] += sim.world["events"] - n[1]
    n[1] = sim.world["events"]
    if c["first"] == READS_LOG:
        n[1] = 0
        return NOTHING
    return next_in_line(sim, choice, own)


def test_a_policy_that_reads_the_log_misses_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusched_env.core.state.EVENT_BUFFER", 16)
    scheduler = type("Reader", (InLine,), {"policy": read_the_log, "reads_log": True, "counts": [RULE, 0, 0]})()
    instance: Instance = get_scenario("tiny-v1").instance(200_000)
    simulation = Simulation(instance)
    player = simulation.player_for(scheduler)
    assert player is not None
    for time_s in instance.workload.jobs["arrival_s"][1::2]:  # whoever pauses a run may empty its log
        assert player.play(float(time_s)) is Outcome.DECIDE
        simulation.drain()
    player.play()
    assert player.own.counts[2] == len(simulation.log().events)  # type: ignore[attr-defined]


@pytest.mark.parametrize("plays", [True, False])
def test_a_run_that_python_holds_has_room_for_a_decision(plays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that carry out a decision write to the log without a test."""
    jobs, gang = 60, 4
    instance = unit_instance(list(range(0, 10 * jobs, 10)), [gang] * jobs, [10] * jobs, f"1x{gang}")
    for buffer in (MOST_RECORDS, 5, 1024):
        monkeypatch.setattr("gpusched_env.core.state.EVENT_BUFFER", buffer)
        simulation = Simulation(instance)
        player = simulation.player_for(InLine()) if plays else None
        rooms = []
        while simulation.finished < jobs:
            if player is not None:
                player.play(simulation.now_s + 10.0)
            elif simulation.advance() is Outcome.DECIDE:
                rooms.append(bool(has_room(simulation.arrays)))
                simulation.apply(Start(int(simulation.finished), "pack"))
            rooms.append(bool(has_room(simulation.arrays)))
        assert rooms
        assert all(rooms)
        assert len(simulation.log().gpus) == jobs * gang


def test_begin_continues_with_a_compiled_policy() -> None:
    instance = get_scenario("tiny-v1").instance(200_000)
    log = simulate(instance, InLine())
    half_s = float(log.events["time_s"][len(log.events) // 2])
    simulation = begin(instance, moves_of(instance, log, half_s), half_s, ask=False)
    simulation.run(InLine())
    assert simulation.log().digest() == log.digest()
