"""Schedulers that rely on their decisions play through an environment: one decision after another is carried out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import PREEMPT, START, EventLog
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Start, Wait, simulate
from tools.datasets.writing import Played, play_episodes

LEASED: dict[str, Any] = {"queue_window": 32, "running_window": 32, "rules": ("consolidate", "pack"), "lease_s": 3600.0}
FEW = "dally-batch-v1:jobs=20"  # all arrive at time 0

carried_out: list[bool] = []
went_on_s: list[float] = []


class Witness(Scheduler):
    """Looks after each of its starts whether it was carried out."""

    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for job in view.waiting.tolist():
            fits = view.can_place(job)
            yield Start(job, "pack")
            if fits:
                carried_out.append(job not in view.waiting)


class Spreading(Scheduler):
    """Names the GPUs of every gang."""

    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for job in view.waiting.tolist():
            if gpus := view.where(job, "spread"):
                yield Start(job, gpus=gpus)


class Sleeper(Scheduler):
    """Starts nothing for 500 s."""

    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.now_s < 500.0:
            yield from self.wait(view)
        else:
            yield from view.list_schedule(view.waiting)

    def wait(self, view: ClusterView) -> Iterable[Decision]:
        return [Wait(700.0), Wait(500.0)]


class OwnTimer(Sleeper):
    """As Sleeper, but sets the timer of the simulation itself, as Dally's tuner does."""

    def wait(self, view: ClusterView) -> Iterable[Decision]:
        view.simulation.wake_at(500.0)
        return []


class Stubborn(Scheduler):
    """Repeats a preemption for ever, as Dally does at the end of a lease."""

    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield from view.list_schedule(view.waiting)
        while len(view.running):
            yield Preempt(int(view.running[0]))


class Returning(Scheduler):
    """Stops every gang at the end of its lease, before it does anything else."""

    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        while len(ended := view.lease_ended):
            yield Preempt(int(ended[0]))
        went_on_s.append(view.now_s)
        yield from view.list_schedule(view.waiting)


class TwoTries(Scheduler):
    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for job in sorted(view.waiting, reverse=True):
            yield Start(job, "consolidate")
            if job in view.waiting:
                yield Start(job, "pack")


class Idle(Scheduler):
    relies_on_decisions = True

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        return []


def play(scheduler: str, scenario: str, seed: int, **options: Any) -> tuple[Played, EventLog]:
    """Return the episode of a scheduler, and the log of a replay of its actions."""
    environment = ClusterEnv(scenario, **options)
    [played] = play_episodes(scheduler, environment, [seed])
    assert (played.right.sum(axis=1) == 1).all()  # only the action taken
    assert played.right[np.arange(len(played.actions)), played.actions].all()
    environment.reset(seed=seed)
    for action, mask in zip(played.actions.tolist(), played.observations["action_mask"], strict=False):
        np.testing.assert_array_equal(environment.mask, mask)
        _, _, terminated, truncated, info = environment.step(action)
    assert (terminated, truncated, info["digest"]) == (played.terminated, played.truncated, played.digest)
    return played, environment.event_log()


@pytest.mark.parametrize(
    ("scenario", "delays_s"),
    [("tiny-v1", ()), ("dally-poisson-v1:jobs=60", ()), ("dally-poisson-v1:jobs=60", (600.0,))],
)
def test_dally_plays_its_direct_run_where_the_windows_express_it(scenario: str, delays_s: tuple[float, ...]) -> None:
    """The environment has Dally's leases, rules that find the same GPUs, and slots for all jobs."""
    direct = simulate(get_scenario(scenario).instance(0), make_scheduler("dally"))
    played, log = play("dally", scenario, 0, delays_s=delays_s, **LEASED)
    assert played.digest == direct.digest() == log.digest()


@pytest.mark.parametrize("lease_s", [None, 600.0])
def test_dally_in_narrow_windows_plays_to_the_end(lease_s: float | None) -> None:
    """It starts first the jobs that are in no slot; as these starts are refused, the job in the slot gets the GPUs."""
    played, log = play(
        "dally", FEW, 0, queue_window=1, running_window=0, rules=("pack",), queue_order="longest", lease_s=lease_s
    )
    assert played.terminated
    assert (log.events["kind"] == START).sum() >= 20


def test_a_job_in_no_slot_does_not_hide_the_job_in_the_slot() -> None:
    """The scheduler tries two placements for each job; only the job in the slot can start."""
    played, _ = play(f"{__name__}:TwoTries", FEW, 0, queue_window=1, running_window=0)
    assert played.terminated


def test_an_environment_without_leases_never_stops_a_gang_of_dally() -> None:
    _, leased = play("dally", "dally-poisson-v1:jobs=60", 0, **LEASED)
    _, unleased = play("dally", "dally-poisson-v1:jobs=60", 0, **(LEASED | {"lease_s": None}))
    assert (leased.events["kind"] == PREEMPT).sum() > 0
    assert (unleased.events["kind"] == PREEMPT).sum() == 0


def test_each_decision_is_carried_out_before_the_next_one_is_asked_for() -> None:
    carried_out.clear()
    play(f"{__name__}:Witness", FEW, 0, queue_window=20, running_window=0)
    assert len(carried_out) == 19  # the last start ends the episode, so nothing more is asked
    assert all(carried_out)


def test_gpus_that_the_scheduler_names_choose_the_rule() -> None:
    direct = simulate(get_scenario(FEW).instance(0), Spreading())
    played, _ = play(f"{__name__}:Spreading", FEW, 0, queue_window=20, running_window=0, rules=("pack", "spread"))
    assert played.digest == direct.digest()


@pytest.mark.parametrize("name", ["Sleeper", "OwnTimer"])
def test_a_wait_until_a_time_is_the_bounded_wait_of_the_nearest_delay(name: str) -> None:
    played, log = play(f"{__name__}:{name}", FEW, 0, queue_window=20, running_window=0, delays_s=(100.0, 510.0, 700.0))
    assert played.actions[0] == 20 + 0 + 1 + 1  # starts, preemptions, the plain wait, the first delay
    starts = log.events[log.events["kind"] == START]
    assert starts["time_s"].min() == 510.0


def test_a_scheduler_that_repeats_a_decision_is_asked_no_further() -> None:
    played, _ = play(f"{__name__}:Stubborn", FEW, 0, queue_window=20, running_window=0)
    assert played.terminated


def test_a_gang_that_no_action_stops_gets_a_new_lease_and_the_scheduler_goes_on() -> None:
    went_on_s.clear()
    played, _ = play(
        f"{__name__}:Returning", "dally-batch-v1:jobs=100", 0, queue_window=100, running_window=0, lease_s=600.0
    )
    assert played.terminated
    assert {600.0, 1200.0} <= set(went_on_s)


def test_a_scheduler_that_starts_nothing_is_an_error_that_says_what_helps() -> None:
    with pytest.raises(SchedulerError, match=r"Idle stalls at 0 s: .* 20 waiting jobs\. .*queue_window"):
        play(f"{__name__}:Idle", FEW, 0)


@pytest.mark.parametrize("scheduler", ["gandiva-lite", "sjf-bco", "hadare", "gandiva-dally"])
def test_a_scheduler_that_remembers_gpus_is_refused(scheduler: str) -> None:
    with pytest.raises(SchedulerError, match=f"{scheduler} cannot play through an environment: it remembers the GPUs"):
        play(scheduler, "tiny-v1", 0)
